// The page holds one stream, and changes what a line of it changes.
const SILENCE = 75000, AGAIN = 1000, HIDDEN = 60000;
let lost = "it is not connected yet", heard = 0, stopped = null, run = 0;

async function follow() {
  const mine = ++run;
  stopped?.abort();
  while (mine === run && !document.hidden) {
    const controller = stopped = new AbortController();
    try {
      const answer = await ask("/api/stream", { signal: controller.signal });
      $("ask").hidden = true;
      await read(answer.body.pipeThrough(new TextDecoderStream()).getReader(), controller);
      lose("the page's own process has ended");
    } catch (error) {
      if (mine !== run) return;
      lose(String(error.message || error));
      if (error.status === 401) { $("ask").hidden = false; return; }
    } finally {
      controller.abort();
    }
    await new Promise(done => setTimeout(done, AGAIN));
  }
}
async function read(reader, controller) {
  let rest = "", alarm;
  try {
    for (;;) {
      clearTimeout(alarm);
      alarm = setTimeout(() => controller.abort(new Error("nothing was heard for 75 s")), SILENCE);
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      lines.filter(line => line).forEach(line => take(JSON.parse(line)));
    }
  } finally {
    clearTimeout(alarm);
  }
}
// A page that nobody sees gives its connection back: a browser has few of them for one host.
let hiding;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => { run++; stopped?.abort(); lose("nobody looked"); }, HIDDEN);
  else if (lost !== null) follow();
});

function lose(reason) { lost = reason; drawAge(); }

function take(line) {
  if (line.lost !== undefined) return lose(line.lost);
  // Only the whole says that the agent is there again.
  if (line.whole) {
    lost = null;
    rows.clear();
    line.whole.rows.forEach(row => rows.set(row.path, row));
    ({ events, health } = line.whole);
    notShown = 0;
    write($("agent"), line.whole.agent);
  }
  if (lost !== null) return;
  heard = Date.now();
  drawAge();
  const changed = line.rows || [], gone = line.gone || [];
  if (!line.whole && !changed.length && !gone.length && !line.events && !line.health) return;
  const before = troubled();
  changed.forEach(row => rows.set(row.path, row));
  gone.forEach(path => rows.delete(path));
  events = events.concat(line.events || []).slice(-MOST);
  notShown += line.missed || 0;
  health = line.health || health;
  drawHeader();
  soon("list", 50, drawList);
  if (line.whole || changed.some(row => row.path === picked) || gone.includes(picked))
    soon("detail", 300, loadDetail);
  updateView(line.whole || gone.some(path => isShown(path)) || before !== troubled(), changed);
}
const troubled = () => [...rows.values()].filter(row => row.look === "trouble").map(row => row.path).join();

function drawAge() {
  const isLost = lost !== null;
  $("lost").hidden = !isLost;
  const reason = `The connection is lost: ${lost}. Trying again.`;
  if (isLost && $("reason-lost").textContent !== reason) write($("reason-lost"), reason);
  const old = heard ? ` What is shown is ${Math.round((Date.now() - heard) / 1000)} s old.` : "";
  write($("old"), isLost ? old : "");
  write($("age"), isLost ? "lost" : "live" + (allowsChanges ? "" : ", read-only"));
  document.body.dataset.state = isLost ? "lost" : "live";
}
setInterval(() => { if (lost !== null) drawAge(); }, 1000);
