"use strict";
// What all parts of the page know.
const $ = id => document.getElementById(id);
const SIGNS = { well: "✓", way: "…", off: "‖", trouble: "✗" };
const WORDS = { trouble: "in trouble", way: "on their way", off: "off", well: "well" };
const ORDER = { trouble: 0, way: 1, off: 2, well: 3 };
const VIEWS = ["graph", "boot", "events", "changes"];
// No list has more rows in the document.
const MOST = 200;
const allowsChanges = document.documentElement.dataset.changes === "yes";

const rows = new Map();
let events = [], notShown = 0, health = null;

// What cannot be seen, or turns the text around it, is shown as its number. Ends of lines and tabs stay.
const UNPRINTABLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const visible = text => String(text).replace(UNPRINTABLE, it => `\\u{${it.codePointAt(0).toString(16)}}`);
// Texts are only ever set as text: here, and by `make`.
function write(element, text) {
  element.textContent = visible(text);
}
// Makes an element.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(key, value === true ? "" : value);
  }
  const given = children.filter(child => child !== null && child !== undefined);
  element.append(...given.map(child => child instanceof Node ? child : visible(child)));
  return element;
}
const soft = text => make("span", { class: "soft" }, text);
const sign = look => make("span", { class: "sign", "aria-hidden": "true" }, SIGNS[look] || "");
const time = at => at ? at.replace("T", " ").replace(/\.\d+Z$/, "Z") : "";
// Without the day, if it is today's.
const shortTime = at => time(at).replace(new RegExp("^" + new Date().toISOString().slice(0, 10) + " "), "");
const link = path => make("a", {
  href: "#",
  onclick: event => { event.preventDefault(); go({ worker: path }); },
}, path);

// Does a work once, a while after it was first asked for.
const timers = {};
function soon(what, milliseconds, work) {
  timers[what] ||= setTimeout(() => { timers[what] = null; work(); }, milliseconds);
}
