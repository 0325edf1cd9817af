// The middle: the graph, the boot, the events and the changes.
let drawing = 0, drawn = new Map(), isWhole = false;
const opened = new Set();
const isShown = path => drawn.has(path);

function drawTabs() {
  $("tabs").replaceChildren(...VIEWS.map(name => make("button", {
    role: "tab", id: "tab-" + name, "aria-selected": String(view === name), "aria-controls": "view",
    tabindex: view === name ? 0 : -1, onclick: () => go({ view: name }),
  }, name[0].toUpperCase() + name.slice(1))));
  $("view").setAttribute("aria-labelledby", "tab-" + view);
}
// A box changes as its row does; a picture is asked for again when others belong into it.
function updateView(isOther, changed) {
  if (view === "events" || view === "changes") return soon("view", 300, drawView);
  if (isOther || (view === "boot" && changed.length)) return soon("view", 1000, drawView);
  changed.forEach(row => updateBox(row));
}
function updateBox(row) {
  const box = drawn.get(row.path);
  if (!box || box.dataset.folded !== undefined) return;
  box.setAttribute("class", [row.look, ...[...box.classList].filter(it => !ORDER.hasOwnProperty(it))].join(" "));
  const [name, words] = ["name", "words"].map(it => box.querySelector("." + it));
  if (name) write(name, `${SIGNS[row.look]} ${name.textContent.replace(/^[✓…‖✗] /, "")}`);
  if (words) write(words, words.textContent.replace(/^[^,]*(, degraded)?/, row.state));
}
async function drawView() {
  const mine = ++drawing;
  if (view === "events" || view === "changes") drawEvents();
  else {
    try {
      const picture = await loadPicture();
      if (mine !== drawing) return;
      drawPicture(picture);
    } catch (error) {
      if (mine !== drawing) return;
      $("view").replaceChildren(make("p", { class: "soft" }, String(error.message)));
    }
  }
  $("view").dataset.drawn = view;
}
function drawEvents() {
  const list = events.filter(event => view === "events" || event.is_note).reverse();
  const table = make("table", {}, ...list.map(event => make("tr", {},
    make("td", { class: "soft" }, String(event.sequence)), make("td", { class: "soft" }, time(event.at)),
    make("td", {}, link(event.path)), make("td", {}, event.text))));
  const missing = notShown ? make("p", { class: "soft" }, `${notShown} events came too fast and are not shown.`) : null;
  const none = list.length ? null : make("p", { class: "soft" }, "Nothing has happened yet.");
  $("view").replaceChildren(...[missing, none, table].filter(it => it));
}
const isNear = () => view === "graph" && picked && rows.has(picked) && !isWhole;
async function loadPicture() {
  const query = new URLSearchParams();
  if (isNear()) query.append("path", picked);
  if (view === "graph") opened.forEach(path => query.append("open", path));
  const text = await (await ask(`/api/${view}?${query}`)).text();
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (parsed.nodeName !== "svg") throw new Error("the picture cannot be read");
  return document.importNode(parsed, true);
}
function drawPicture(picture) {
  const other = view === "graph" && picked ? make("button", {
    onclick: () => { isWhole = !isWhole; drawView(); },
  }, isNear() ? "the whole agent" : "only what is near") : null;
  const close = view === "graph" && opened.size ? make("button", {
    onclick: () => { opened.clear(); drawView(); },
  }, "close what was opened") : null;
  $("view").replaceChildren(...[other, close, picture].filter(it => it));
  drawn = new Map([...picture.querySelectorAll("[data-path]")].map(box => [box.dataset.path, box]));
  for (const box of drawn.values()) {
    const isClosed = box.dataset.folded !== undefined || box.dataset.closed !== undefined;
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "button");
    const press = () => { isClosed ? openBox(box.dataset.path) : rows.has(box.dataset.path) && go({ worker: box.dataset.path }); };
    box.addEventListener("click", press);
    box.addEventListener("keydown", event => {
      if (event.key === "Enter") { event.preventDefault(); event.stopPropagation(); press(); }
    });
  }
  mark(picture);
}
// Opens a folded box. It stands in the whole picture.
function openBox(path) {
  opened.add(path);
  isWhole = true;
  drawView();
}
// What leads to the picked worker and away from it stands out; the rest fades.
function mark(picture) {
  const boxes = new Map([...picture.querySelectorAll("[data-node]")].map(box => [box.dataset.node, box]));
  const start = [...boxes].find(([, box]) => box.dataset.path === picked)?.[0];
  if (start === undefined) return;
  const edges = [...picture.querySelectorAll("[data-input]")];
  const reach = (end, other) => {
    const found = new Set([start]);
    for (const number of found)
      edges.forEach(edge => { if (edge.dataset[end] === number) found.add(edge.dataset[other]); });
    return found;
  };
  const needed = reach("user", "input"), users = reach("input", "user");
  const isBad = number => { const row = rows.get(boxes.get(number)?.dataset.path); return row && row.look !== "well"; };
  for (const [number, box] of boxes)
    box.classList.toggle("faded", !needed.has(number) && !users.has(number) && !box.querySelector(".frame"));
  boxes.get(start).classList.add("picked");
  for (const edge of edges) {
    const { input, user } = edge.dataset;
    const leadsTo = needed.has(input) && needed.has(user), leadsFrom = users.has(input) && users.has(user);
    edge.classList.toggle("faded", !leadsTo && !leadsFrom);
    edge.classList.toggle("on", leadsTo || leadsFrom);
    edge.classList.toggle("blame", leadsTo && isBad(input) && isBad(user));
  }
}
