"use strict";
const $ = id => document.getElementById(id);
const SIGNS = { well: "✓", way: "…", off: "‖", trouble: "✗" };
const WORDS = { trouble: "in trouble", way: "on their way", off: "off", well: "well" };
const ORDER = { trouble: 0, way: 1, off: 2, well: 3 };
const VIEWS = ["graph", "boot", "events", "changes"];
const MOST = 200;
const changes = document.documentElement.dataset.changes === "yes";
const rows = new Map();
let events = [], from = 0, tree = false, only = null, heard = 0, lost = "not connected yet", token = null;
let picked = null, view = "graph", detail = null, folded = new Set(), opened = new Set();

// Texts are only ever set as text.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}
const sign = look => make("span", { class: "sign", "aria-hidden": "true" }, SIGNS[look] || "");
const time = at => at ? at.replace("T", " ").replace(/\.\d+Z$/, "Z") : "";

// The token comes in the fragment, is taken out of the address at once, and is kept by this tab alone.
function address() {
  const fields = new URLSearchParams(location.hash.slice(1));
  if (fields.has("token")) {
    token = fields.get("token");
    sessionStorage.setItem("token", token);
    fields.delete("token");
    history.replaceState(null, "", "#" + fields);
  } else token = sessionStorage.getItem("token");
  view = VIEWS.includes(fields.get("view")) ? fields.get("view") : "graph";
  picked = fields.get("worker");
  tree = fields.get("list") === "tree";
}
function go(next) {
  const fields = new URLSearchParams(location.hash.slice(1));
  for (const [key, value] of Object.entries(next)) value ? fields.set(key, value) : fields.delete(key);
  if ("#" + fields !== location.hash) { history.pushState(null, "", "#" + fields); show(); }
}
addEventListener("popstate", () => { address(); show(); });

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, cache: "no-store", credentials: "omit", headers: { ...options.headers, authorization: "Bearer " + token } });
  if (answer.ok) return answer;
  if (answer.status === 401) { $("ask").hidden = false; throw new Error("the token is missing or wrong"); }
  let message = answer.statusText;
  try { message = (await answer.json()).message; } catch { /* it has no words */ }
  throw new Error(message);
}

async function follow() {
  for (;;) {
    try {
      const reader = (await ask("/api/stream")).body.pipeThrough(new TextDecoderStream()).getReader();
      $("ask").hidden = true;
      let rest = "";
      for (;;) {
        const { value, done } = await Promise.race([reader.read(), silence()]);
        if (done) break;
        heard = Date.now();
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        lines.filter(line => line).forEach(line => take(JSON.parse(line)));
      }
      lose("the page's own process has ended");
    } catch (error) { lose(String(error.message || error)); }
    if (!$("ask").hidden) return;
    await new Promise(done => setTimeout(done, 1000));
  }
}
let alarm;
function silence() {
  clearTimeout(alarm);
  return new Promise((_, fail) => { alarm = setTimeout(() => fail(new Error("nothing was heard for 75 s")), 75000); });
}
function lose(reason) { lost = reason; drawAge(); }

function take(line) {
  if (line.lost !== undefined) return lose(line.lost);
  lost = null;
  const before = trouble();
  if (line.whole) {
    rows.clear();
    line.whole.rows.forEach(row => rows.set(row.path, row));
    events = line.whole.events;
    $("agent").textContent = line.whole.agent;
  }
  (line.rows || []).forEach(row => rows.set(row.path, row));
  (line.gone || []).forEach(path => rows.delete(path));
  events = events.concat(line.events || []).slice(-MOST);
  drawAge();
  if (!line.whole && !line.rows && !line.gone && !line.events) return;
  drawCounts();
  soon("list", drawList);
  if (line.whole || (line.rows || []).some(row => row.path === picked) || (line.gone || []).includes(picked)) soon("detail", loadDetail);
  if (view === "events" || view === "changes") soon("view", drawView);
  else if (line.whole || (view === "graph" && (line.gone || before !== trouble() || (line.rows || []).some(row => shown.has(row.path))))) soon("view", drawView);
}
const trouble = () => [...rows.values()].filter(row => row.look !== "well").map(row => row.path + row.look).join();
const timers = {};
function soon(what, work) { timers[what] ||= setTimeout(() => { timers[what] = null; work(); }, what === "list" ? 50 : 300); }

function drawAge() {
  const isLost = lost !== null;
  $("lost").hidden = !isLost;
  const since = heard ? `; what is shown is ${Math.round((Date.now() - heard) / 1000)} s old` : "";
  if (isLost) $("lost").textContent = `The connection is lost: ${lost}${since}. Trying again.`;
  $("age").textContent = isLost ? "lost" : "live" + (changes ? "" : ", read-only");
  document.body.dataset.state = isLost ? "lost" : "live";
}
setInterval(() => { if (lost !== null) drawAge(); }, 1000);

function drawCounts() {
  const counts = { trouble: 0, way: 0, off: 0, well: 0 }, states = {};
  for (const row of rows.values()) { counts[row.look]++; states[row.state] = (states[row.state] || 0) + 1; }
  const look = counts.trouble ? "trouble" : counts.way ? "way" : "well";
  $("health").textContent = SIGNS[look];
  $("health").className = "sign " + look;
  document.title = `${SIGNS[look]} ${$("agent").textContent}`;
  const filter = (key, label, count) => make("button", { "aria-pressed": String(only === key), onclick: () => { only = only === key ? null : key; from = 0; drawCounts(); drawList(); } }, `${label} ${count}`);
  $("counts").replaceChildren(
    ...Object.keys(counts).filter(key => counts[key]).map(key => filter(key, `${SIGNS[key]} ${WORDS[key]}`, counts[key])),
    ...Object.keys(states).sort().map(state => filter("=" + state, state, states[state])));
}

// What needs attention comes first; in the tree the engines are in their order.
function listed() {
  const text = $("filter").value.toLowerCase();
  let all = [...rows.values()].filter(row =>
    (!only || (only[0] === "=" ? row.state === only.slice(1) : row.look === only))
    && (!text || `${row.path} ${row.name} ${row.state} ${row.cause || ""}`.toLowerCase().includes(text)));
  if (!tree) all.sort((a, b) => ORDER[a.look] - ORDER[b.look] || !!b.cause - !!a.cause);
  else if (!text && !only) all = all.filter(row => ![...folded].some(path => row.path.startsWith(path + "/")));
  return all;
}
const level = path => path.split("/").length - 2;
function drawList() {
  const all = listed(), focus = document.activeElement?.dataset?.row;
  from = Math.max(0, Math.min(from, all.length - 1));
  const part = all.slice(from, from + MOST);
  const more = (label, to) => make("button", { onclick: () => { from = to; drawList(); } }, label);
  const items = part.map((row, at) => make("div", {
    role: "treeitem", class: "row " + row.look, "data-row": row.path, "aria-selected": String(row.path === picked),
    "aria-level": tree ? level(row.path) : 1, "aria-expanded": tree && row.is_engine ? String(!folded.has(row.path)) : null,
    "aria-setsize": all.length, "aria-posinset": from + at + 1,
    tabindex: row.path === picked || (at === 0 && !part.some(it => it.path === picked)) ? 0 : -1,
    onclick: () => go({ worker: row.path }),
  }, sign(row.look), tree ? "\u00a0\u00a0".repeat(Math.max(0, level(row.path) - 1)) + row.name : row.path.split("/").slice(2).join("/").replace(/[^/]*$/, row.name),
    make("span", { class: "soft" }, ` ${row.state}${row.failures ? `, ${row.failures} failures` : ""}`),
    row.cause ? make("small", {}, row.cause) : null));
  $("list").replaceChildren(
    ...(from > 0 ? [more(`${from} above`, from - MOST)] : []), ...items,
    ...(from + MOST < all.length ? [more(`${all.length - from - MOST} below`, from + MOST)] : []));
  if (!all.length) $("list").append(make("p", { class: "soft" }, rows.size ? "Nothing matches." : "There are no workers."));
  if (focus) $("list").querySelector(`[data-row="${CSS.escape(focus)}"]`)?.focus();
  $("mode").setAttribute("aria-pressed", String(tree));
}

function drawTabs() {
  $("tabs").replaceChildren(...VIEWS.map(name => make("button", {
    role: "tab", id: "tab-" + name, "aria-selected": String(view === name), tabindex: view === name ? 0 : -1, onclick: () => go({ view: name }),
  }, name[0].toUpperCase() + name.slice(1))));
  $("view").setAttribute("aria-labelledby", "tab-" + view);
}
let drawing = 0, shown = new Set();
async function drawView() {
  const mine = ++drawing, target = $("view");
  if (view === "events" || view === "changes") {
    const list = events.filter(event => view === "events" || event.is_note).slice().reverse();
    const table = make("table", {}, ...list.map(event => make("tr", {}, make("td", { class: "soft" }, String(event.sequence)), make("td", { class: "soft" }, time(event.at)),
      make("td", {}, link(event.path)), make("td", {}, event.text))));
    target.replaceChildren(list.length ? table : make("p", { class: "soft" }, "Nothing has happened yet."));
  } else {
    const query = new URLSearchParams();
    const near = view === "graph" && picked && rows.has(picked) && !shownWhole;
    if (near) query.append("path", picked);
    opened.forEach(path => query.append("open", path));
    try {
      const text = await (await ask(`/api/${view}?${query}`)).text();
      if (mine !== drawing) return;
      const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
      if (parsed.nodeName !== "svg") throw new Error("the picture cannot be read");
      const picture = document.importNode(parsed, true);
      const bar = view === "graph" && picked ? make("button", { onclick: () => { shownWhole = !shownWhole; drawView(); } }, near ? "the whole agent" : "only what is near") : null;
      target.replaceChildren(...[bar, picture].filter(it => it));
      shown = new Set([...picture.querySelectorAll("[data-path]")].map(node => node.dataset.path));
      picture.addEventListener("click", event => {
        const node = event.target.closest("[data-path]");
        if (!node) return;
        if (!rows.has(node.dataset.path)) return;
        if (node.querySelector("rect ~ rect") || (rows.get(node.dataset.path).is_engine && !opened.has(node.dataset.path))) { opened.add(node.dataset.path); drawView(); }
        go({ worker: node.dataset.path });
      });
      mark(picture);
    } catch (error) { if (mine === drawing) target.replaceChildren(make("p", { class: "soft" }, String(error.message))); }
  }
  target.dataset.drawn = view;
}
let shownWhole = false;
// What leads to the picked worker and away from it stands out; the rest fades.
function mark(picture) {
  const nodes = new Map([...picture.querySelectorAll("[data-node]")].map(node => [node.dataset.node, node]));
  const start = [...nodes].find(([, node]) => node.dataset.path === picked)?.[0];
  if (start === undefined) return;
  const edges = [...picture.querySelectorAll("[data-input]")];
  const reach = (from, to) => {
    const found = new Set([start]);
    for (const number of found) edges.forEach(edge => { if (edge.dataset[from] === number) found.add(edge.dataset[to]); });
    return found;
  };
  const up = reach("user", "input"), down = reach("input", "user");
  const bad = number => { const row = rows.get(nodes.get(number)?.dataset.path); return row && row.look !== "well"; };
  for (const [number, node] of nodes) node.classList.toggle("faded", !up.has(number) && !down.has(number) && !node.querySelector(".frame"));
  nodes.get(start).classList.add("picked");
  for (const edge of edges) {
    const { input, user } = edge.dataset;
    const isUp = up.has(input) && up.has(user), isDown = down.has(input) && down.has(user);
    edge.classList.toggle("faded", !isUp && !isDown);
    edge.classList.toggle("on", isUp || isDown);
    edge.classList.toggle("blame", isUp && bad(input) && bad(user));
  }
}

const link = path => make("a", { href: "#", onclick: event => { event.preventDefault(); go({ worker: path }); } }, path);
async function loadDetail() {
  const path = picked;
  if (!path) return drawDetail();
  try {
    const answer = await (await ask("/api/worker?path=" + encodeURIComponent(path))).json();
    if (path === picked) { detail = { path, ...answer }; drawDetail(); }
  } catch (error) { if (path === picked) { detail = { path, error: String(error.message) }; drawDetail(); } }
}
function facts(pairs) {
  return make("dl", {}, ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}
function start(of) {
  if (!of) return null;
  const waited = typeof of.waited_for === "object" ? "for " + of.waited_for.input : of.waited_for;
  return `generation ${of.generation}: ready ${time(of.ready)} (waited ${waited}), up ${of.up ? time(of.up) : "never"}`;
}
function drawDetail() {
  const target = $("right");
  if (!picked) return target.replaceChildren(make("p", { class: "soft" }, "Pick a worker."));
  if (detail?.path !== picked) return target.replaceChildren(make("h2", {}, picked), make("p", { class: "soft" }, "…"));
  if (detail.error) return target.replaceChildren(make("h2", {}, picked), make("p", {}, detail.error));
  const worker = detail.worker.worker, row = rows.get(picked);
  const act = (name, does) => make("button", { onclick: () => change(name, does) }, name);
  const inputs = (worker.inputs || []).map(input => { const path = picked.replace(/[^/]*$/, input.name); return make("li", {}, rows.has(path) ? link(path) : input.name, make("span", { class: "soft" }, ` ${input.need}, ${input.state}`)); });
  const users = detail.users.paths.map(path => make("li", {}, link(path)));
  if (detail.users.more) users.push(make("li", { class: "soft" }, `and ${detail.users.more} more`));
  const steps = detail.why.why.steps.map(step => make("li", {}, link(step.path), make("span", { class: "soft" }, ` ${step.state.replaceAll("_", " ")}${step.error ? ": " + step.error.split("\n")[0] : ""}`)));
  const last = worker.report?.last_event;
  target.replaceChildren(...[
    make("h2", { class: row?.look || "" }, sign(row?.look), picked),
    facts([["state", row?.state || worker.state], ["generation", `${worker.generation}, ${worker.starts} starts, ${worker.failures} failures in a row`], ["since", time(row?.since)],
      ["next try", time(worker.until)], ["attempts", worker.attempts ? `${worker.attempts.count} failed, from ${time(worker.attempts.first)} to ${time(worker.attempts.last)}` : null],
      ["parked by", worker.parked_by ? `${worker.parked_by.who}: ${worker.parked_by.why}` : null]]),
    changes ? make("p", {}, act("bounce", true), " ", act("park", true), " ", act("unpark", false)) : null,
    make("h3", {}, "Why"), make("p", {}, detail.why.text), steps.length > 1 ? make("ol", {}, ...steps) : null,
    ...(last ? lastChange(last) : []),
    make("h3", {}, `Needs (${inputs.length})`), make("ul", {}, ...inputs),
    make("h3", {}, `Needed by (${users.length ? detail.users.paths.length + detail.users.more : 0})`), make("ul", {}, ...users),
    make("h3", {}, "Life"), facts([["installed", time(worker.installed)], ["first start", start(worker.first_start)], ["last start", start(worker.last_start)], ["last error", worker.error ? `${time(worker.error.at)}: ${worker.error.text}` : null]]),
  ].filter(it => it));
  target.dataset.drawn = picked;
}
function lastChange(last) {
  const parts = [make("h3", {}, `Last event: ${last.event}`), facts([["when", time(last.at)], ["why", last.why], ["notified by", last.notified_by], ["took", last.took_ms === undefined ? null : `${last.took_ms} ms`], ["error", last.error]])];
  for (const change of last.changes || []) {
    parts.push(make("p", {}, `${change.attribute}: ${change.old ?? "(nothing)"} → ${change.new ?? "(nothing)"}`));
    if (change.text) parts.push(make("pre", {}, ...change.text.split("\n").map(line => make("span", { class: line[0] === "+" ? "add" : line[0] === "-" ? "del" : "" }, line + "\n"))));
  }
  for (const done of last.done || []) {
    const given = Object.entries(done.action?.arguments || {}).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(" ");
    parts.push(make("p", {}, `${done.action?.name || ""} ${given}`));
    if (done.logs?.length) parts.push(make("pre", {}, done.logs.map(line => typeof line === "string" ? line : line.text ?? JSON.stringify(line)).join("\n")));
  }
  return parts;
}

function change(name, stops) {
  const path = picked, dialog = $("dialog");
  if (!changes || !path || detail?.path !== path || detail.error) return;
  $("act").textContent = `${name} ${path}`;
  $("effect").textContent = stops ? `${detail.dependents} workers need it, directly or through others.` : "It is started again when its inputs are there.";
  $("reason").value = "";
  dialog.returnValue = "";
  dialog.onclose = async () => {
    if (dialog.returnValue !== "yes") return;
    try {
      await ask("/api/" + name, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ path, why: $("reason").value }) });
    } catch (error) { $("right").prepend(make("p", { role: "alert" }, `${name}: ${error.message}`)); }
  };
  dialog.showModal();
}

function show() {
  if (picked && picked !== detail?.path) detail = null;
  address(); drawTabs(); drawList(); drawDetail(); loadDetail(); drawView();
}
function step(by) {
  const all = listed(), at = all.findIndex(row => row.path === (document.activeElement?.dataset?.row || picked));
  const next = all[Math.max(0, Math.min(all.length - 1, at + by))];
  if (!next) return;
  const place = all.indexOf(next);
  if (place < from || place >= from + MOST) { from = Math.floor(place / MOST) * MOST; drawList(); }
  $("list").querySelector(`[data-row="${CSS.escape(next.path)}"]`)?.focus();
}
addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || $("dialog").open) return;
  const row = document.activeElement?.dataset?.row;
  if (event.target.tagName === "INPUT") { if (event.key === "Escape") { event.target.value = ""; event.target.blur(); drawList(); } return; }
  if (event.target.getAttribute("role") === "tab" && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
    go({ view: VIEWS[(VIEWS.indexOf(view) + (event.key === "ArrowRight" ? 1 : 3)) % 4] });
    return $("tab-" + view).focus();
  }
  const keys = {
    "/": () => $("filter").focus(), t: () => go({ list: tree ? null : "tree" }), g: () => go({ view: "graph" }),
    ArrowDown: () => step(1), ArrowUp: () => step(-1), j: () => step(1), k: () => step(-1), Home: () => step(-1e9), End: () => step(1e9),
    Enter: () => row && go({ worker: row }), " ": () => row && go({ worker: row }),
    ArrowRight: () => row && folded.delete(row) && drawList(), ArrowLeft: () => row && tree && rows.get(row)?.is_engine && (folded.add(row), drawList()),
    b: () => change("bounce", true), p: () => change("park", true), u: () => change("unpark", false),
  };
  // Buttons and links keep their own keys.
  if (!keys[event.key] || (["Enter", " "].includes(event.key) && !row)) return;
  if (event.key.startsWith("Arrow") && event.target.id === "view") return;
  event.preventDefault();
  keys[event.key]();
});
$("filter").addEventListener("input", () => { from = 0; drawList(); });
$("mode").addEventListener("click", () => go({ list: tree ? null : "tree" }));
$("ask").addEventListener("submit", event => {
  event.preventDefault();
  const given = $("token").value.trim();
  sessionStorage.setItem("token", given.includes("token=") ? given.split("token=")[1].split("&")[0] : given);
  $("token").value = "";
  address();
  $("ask").hidden = true;
  follow();
});
address(); drawAge(); show(); follow();
