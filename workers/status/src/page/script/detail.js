// The right: the picked worker.
let detail = null, loading = 0;

async function loadDetail() {
  const path = picked, mine = ++loading;
  if (!path) return drawDetail();
  let loaded;
  try {
    loaded = { path, ...await (await ask("/api/worker?path=" + encodeURIComponent(path))).json() };
  } catch (error) { loaded = { path, error: String(error.message) }; }
  if (mine !== loading) return;
  detail = loaded;
  drawDetail();
}
function pairs(...all) {
  const given = all.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return make("dl", {}, ...given.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}
function listOf(title, items, count) {
  const shown = items.slice(0, MOST);
  if (count > shown.length) shown.push(make("li", { class: "soft" }, `and ${count - shown.length} more`));
  return [make("h3", {}, `${title} (${count})`), make("ul", {}, ...shown)];
}
function start(of) {
  if (!of) return null;
  const waited = typeof of.waited_for === "object" ? "for " + of.waited_for.input : of.waited_for;
  return `generation ${of.generation}: ready ${time(of.ready)} (waited ${waited}), up ${of.up ? time(of.up) : "never"}`;
}
function drawDetail() {
  const target = $("right");
  if (!picked) return target.replaceChildren(make("p", { class: "soft" }, "Pick a worker."));
  const title = make("h2", { class: rows.get(picked)?.look || "" }, sign(rows.get(picked)?.look), picked);
  if (detail?.path !== picked) return target.replaceChildren(title, make("p", { class: "soft" }, "…"));
  if (detail.error) return target.replaceChildren(title, make("p", {}, detail.error));
  const worker = detail.worker.worker;
  target.replaceChildren(title, ...drawState(worker), ...drawWhy(), ...drawLast(worker.report?.last_event),
    ...drawNear(worker), ...drawLife(worker));
  target.dataset.drawn = picked;
}
function drawState(worker) {
  const row = rows.get(picked), { attempts, parked_by: parked } = worker;
  const parts = [make("div", { role: "status" }, pairs(
    ["state", row?.state || worker.state],
    ["since", time(row?.since)],
    ["next try", time(worker.until)],
    ["attempts", attempts && `${attempts.count} failed, from ${time(attempts.first)} to ${time(attempts.last)}`],
    ["parked by", parked && `${parked.who}: ${parked.why}`]))];
  const act = name => make("button", { onclick: () => change(name) }, name);
  const acts = ["bounce", "park", "unpark", "pause", "resume"];
  if (allowsChanges) parts.push(make("p", {}, ...acts.flatMap(name => [act(name), " "])));
  return parts;
}
function drawWhy() {
  const steps = detail.why.why.steps.map(step => {
    const error = step.error ? ": " + step.error.split("\n")[0] : "";
    return make("li", {}, link(step.path), soft(` ${step.state.replaceAll("_", " ")}${error}`));
  });
  return [make("h3", {}, "Why"), make("p", {}, detail.why.text),
    ...(steps.length > 1 ? [make("ol", {}, ...steps.slice(0, MOST))] : [])];
}
function drawNear(worker) {
  const inputs = (worker.inputs || []).slice(0, MOST).map(input => {
    const path = picked.replace(/[^/]*$/, input.name);
    return make("li", {}, rows.has(path) ? link(path) : input.name, soft(` ${input.need}, ${input.state}`));
  });
  const users = detail.users.paths.map(path => make("li", {}, link(path)));
  return [...listOf("Needs", inputs, (worker.inputs || []).length),
    ...listOf("Needed by", users, users.length + detail.users.more)];
}
function drawLife(worker) {
  const { error } = worker;
  return [make("h3", {}, "Life"), pairs(
    ["generation", `${worker.generation}, ${worker.starts} starts, ${worker.failures} failures in a row`],
    ["installed", time(worker.installed)],
    ["first start", start(worker.first_start)],
    ["last start", start(worker.last_start)],
    ["last error", error && `${time(error.at)}: ${error.text}`])];
}
function drawLast(last) {
  if (!last) return [];
  const took = last.took_ms === undefined ? null : `${last.took_ms} ms`;
  const parts = [make("h3", {}, `Last event: ${last.event}`), pairs(["when", time(last.at)], ["why", last.why],
    ["notified by", last.notified_by], ["took", took], ["error", last.error])];
  for (const change of (last.changes || []).slice(0, MOST)) {
    const [before, after] = [change.old, change.new].map(it => it ?? "(nothing)");
    parts.push(make("p", {}, `${change.attribute}: ${before} → ${after}`));
    if (change.text) parts.push(drawDiff(change.text));
  }
  for (const done of (last.done || []).slice(0, MOST)) {
    const given = Object.entries(done.action?.arguments || {});
    const words = given.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(" ");
    parts.push(make("p", {}, `${done.action?.name || ""} ${words}`));
    const logs = (done.logs || []).map(line => typeof line === "string" ? line : line.text ?? JSON.stringify(line));
    if (logs.length) parts.push(make("pre", {}, logs.join("\n")));
  }
  return parts;
}
function drawDiff(text) {
  const lines = text.split("\n"), kind = { "+": "add", "-": "del" };
  const shown = lines.slice(0, MOST).map(line => make("span", { class: kind[line[0]] || "" }, line + "\n"));
  if (lines.length > MOST) shown.push(soft(`and ${lines.length - MOST} more lines`));
  return make("pre", {}, ...shown);
}

// Asks the person before a change, and says what it would stop. Yes can be said once that is known.
async function change(name) {
  const path = picked, dialog = $("dialog"), yes = dialog.querySelector("[value=yes]");
  if (!allowsChanges || !path || detail?.path !== path || detail.error) return;
  write($("act"), `${name} ${path}`);
  write($("effect"), "…");
  delete $("effect").dataset.known;
  $("reason").value = "";
  dialog.returnValue = "";
  yes.disabled = true;
  const opened = dialog.onclose = async () => {
    if (dialog.returnValue !== "yes") return;
    const body = JSON.stringify({ path, why: $("reason").value });
    write($("notice"), "");
    try {
      await ask("/api/" + name, { method: "POST", headers: { "content-type": "application/json" }, body });
    } catch (error) { write($("notice"), `${name} ${path}: ${error.message}`); }
  };
  dialog.showModal();
  // It may be closed when the answer comes, and opened for another worker.
  const isOpen = () => dialog.onclose === opened;
  try {
    const target = `/api/preview?act=${name}&path=${encodeURIComponent(path)}`;
    const { text } = await (await ask(target)).json();
    if (!isOpen()) return;
    write($("effect"), `It ${text}.`);
    $("effect").dataset.known = path;
    yes.disabled = false;
  } catch (error) {
    if (isOpen()) write($("effect"), `What it does to others is not known: ${error.message}`);
  }
}
