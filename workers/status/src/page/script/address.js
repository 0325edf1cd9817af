// The address has what is picked. The token comes in it, is taken out at once, and is kept by this tab alone.
let token = null, view = "graph", picked = null, isTree = false;

function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const given = fields.get("token");
  if (given !== null) {
    sessionStorage.setItem("token", given);
    fields.delete("token");
    history.replaceState(null, "", "#" + fields);
  }
  token = sessionStorage.getItem("token");
  view = VIEWS.includes(fields.get("view")) ? fields.get("view") : "graph";
  picked = fields.get("worker");
  isTree = fields.get("list") === "tree";
  return given !== null;
}
function go(next) {
  const fields = new URLSearchParams(location.hash.slice(1));
  for (const [key, value] of Object.entries(next)) value ? fields.set(key, value) : fields.delete(key);
  if ("#" + fields === location.hash) return;
  history.pushState(null, "", "#" + fields);
  show();
}
addEventListener("popstate", () => {
  const hasToken = readAddress();
  show();
  if (hasToken) follow();
});

async function ask(path, options = {}) {
  const headers = { ...options.headers, authorization: "Bearer " + token };
  const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (answer.ok) return answer;
  let message = answer.statusText;
  try { message = (await answer.json()).message; } catch { /* it has no words */ }
  const error = new Error(message);
  error.status = answer.status;
  throw error;
}
