// The keys, and the beginning.
function show() {
  readAddress();
  if (picked !== detail?.path) detail = null;
  drawTabs(); drawList(); drawDetail(); loadDetail(); drawView();
}
function fold(path, isFolded) {
  if (!isTree || !rows.get(path)?.is_engine) return;
  isFolded ? folded.add(path) : folded.delete(path);
  drawList();
}
function nextTab(by) {
  go({ view: VIEWS[(VIEWS.indexOf(view) + by + VIEWS.length) % VIEWS.length] });
  $("tab-" + view).focus();
}
addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || $("dialog").open) return;
  const target = event.target, row = document.activeElement?.dataset?.row;
  if (target.tagName === "INPUT") {
    if (event.key === "Escape") { target.value = ""; target.blur(); drawList(); }
    return;
  }
  const isTab = target.getAttribute("role") === "tab";
  const pick = row && (() => go({ worker: row }));
  const keys = {
    "/": () => $("filter").focus(), t: () => go({ list: isTree ? null : "tree" }), g: () => go({ view: "graph" }),
    j: () => step(1), k: () => step(-1), Home: () => step(-Infinity), End: () => step(Infinity),
    ArrowDown: target.id !== "view" && (() => step(1)), ArrowUp: target.id !== "view" && (() => step(-1)),
    ArrowRight: isTab ? () => nextTab(1) : row && (() => fold(row, false)),
    ArrowLeft: isTab ? () => nextTab(-1) : row && (() => fold(row, true)),
    Enter: pick, " ": pick,
    b: () => change("bounce"), p: () => change("park"), u: () => change("unpark"),
    P: () => change("pause"), r: () => change("resume"),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
$("filter").addEventListener("input", () => { from = 0; drawList(); });
$("mode").addEventListener("click", () => go({ list: isTree ? null : "tree" }));
$("ask").addEventListener("submit", event => {
  event.preventDefault();
  const given = $("token").value.trim();
  sessionStorage.setItem("token", given.includes("token=") ? given.split("token=")[1].split("&")[0] : given);
  $("token").value = "";
  $("ask").hidden = true;
  show(); follow();
});
readAddress(); drawAge(); show(); follow();
