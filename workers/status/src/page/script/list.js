// The header and the list of workers.
let from = 0, only = null;
const folded = new Set();

function drawHeader() {
  const counts = { trouble: 0, way: 0, off: 0, well: 0 }, states = {};
  for (const row of rows.values()) {
    counts[row.look]++;
    states[row.state] = (states[row.state] || 0) + 1;
  }
  const isTrouble = counts.trouble || health?.error || health?.is_healthy === false;
  const look = isTrouble ? "trouble" : counts.way ? "way" : "well";
  write($("health"), SIGNS[look]);
  $("health").className = "sign " + look;
  write($("error"), health?.error || (health?.is_healthy === false ? "not healthy" : ""));
  document.title = `${SIGNS[look]} ${$("agent").textContent}`;
  const filter = (key, label, count) => make("button", {
    "aria-pressed": String(only === key),
    onclick: () => { only = only === key ? null : key; from = 0; drawHeader(); drawList(); },
  }, `${label} ${count}`);
  $("counts").replaceChildren(
    ...Object.keys(counts).filter(key => counts[key])
      .map(key => filter(key, `${SIGNS[key]} ${WORDS[key]}`, counts[key])),
    ...Object.keys(states).sort().map(state => filter("=" + state, state, states[state])));
}

// In the tree all of an engine stands below it, so paths are compared by their segments.
const segments = path => path.replaceAll("/", "\u0001");
function listed() {
  const text = $("filter").value.toLowerCase();
  const isAsked = row => !only || (only[0] === "=" ? row.state === only.slice(1) : row.look === only);
  const isFound = row => !text
    || `${row.path} ${row.name} ${row.state} ${row.cause || ""}`.toLowerCase().includes(text);
  const all = [...rows.values()].filter(row => isAsked(row) && isFound(row));
  const byPath = (a, b) => { const [x, y] = [segments(a.path), segments(b.path)]; return x < y ? -1 : x > y ? 1 : 0; };
  // What needs attention comes first, with a cause of its own before what only waits.
  if (!isTree) return all.sort((a, b) => ORDER[a.look] - ORDER[b.look] || !!b.cause - !!a.cause || byPath(a, b));
  const isOpen = row => ![...folded].some(path => row.path.startsWith(path + "/"));
  return all.sort(byPath).filter(row => text || only || isOpen(row));
}
const level = path => path.split("/").length - 2;
function shownName(row) {
  if (isTree) return "\u00a0\u00a0".repeat(Math.max(0, level(row.path) - 1)) + row.name;
  return row.path.split("/").slice(2, -1).concat(row.name).join("/");
}
function drawRow(row, at, count, isFirst) {
  const since = row.look !== "well" && row.since ? ` since ${shortTime(row.since)}` : "";
  return make("div", {
    role: "treeitem", class: "row " + row.look, "data-row": row.path, "aria-selected": String(row.path === picked),
    "aria-level": isTree ? level(row.path) : 1, "aria-setsize": count, "aria-posinset": at + 1,
    "aria-expanded": isTree && row.is_engine ? String(!folded.has(row.path)) : null,
    tabindex: isFirst ? 0 : -1,
    onclick: () => go({ worker: row.path }),
  }, sign(row.look), shownName(row), soft(` ${row.state}${row.failures ? `, ${row.failures} failures` : ""}${since}`),
  row.cause ? make("small", {}, row.cause) : null);
}
function drawList() {
  const all = listed(), focus = document.activeElement?.dataset?.row;
  from = Math.max(0, Math.min(from, all.length - 1));
  const part = all.slice(from, from + MOST);
  const more = (label, to) => make("button", { onclick: () => { from = to; drawList(); } }, label);
  const first = part.some(row => row.path === picked) ? picked : part[0]?.path;
  const below = all.length - from - part.length;
  $("list").replaceChildren(
    ...(from > 0 ? [more(`${from} above`, from - MOST)] : []),
    ...part.map((row, at) => drawRow(row, from + at, all.length, row.path === first)),
    ...(below > 0 ? [more(`${below} below`, from + MOST)] : []));
  if (!all.length) $("list").append(make("p", { class: "soft" }, rows.size ? "Nothing matches." : "There are no workers."));
  if (focus) $("list").querySelector(`[data-row="${CSS.escape(focus)}"]`)?.focus();
  $("mode").setAttribute("aria-pressed", String(isTree));
}
// Moves the focus to another row.
function step(by) {
  const all = listed(), current = document.activeElement?.dataset?.row || picked;
  const at = Math.max(0, Math.min(all.length - 1, all.findIndex(row => row.path === current) + by));
  if (!all.length) return;
  if (at < from || at >= from + MOST) { from = Math.floor(at / MOST) * MOST; drawList(); }
  $("list").querySelector(`[data-row="${CSS.escape(all[at].path)}"]`)?.focus();
}
