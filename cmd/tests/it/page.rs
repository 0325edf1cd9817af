//! The status page in a real browser.

use crankcase_workers::printable_lines;
use fantoccini::Locator;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::agent::Agent;
use crate::browser::Browser;
use crate::door::Page;
use crate::hostile_texts::HOSTILE;
use crate::machine::{Machine, within};
use crate::world::{Error, TestResult};

/// A page in a browser, and the agent that it shows.
struct Scene {
    browser: Browser,
    machine: Machine,
    agent: Agent,
    page: Page,
}

impl Scene {
    /// Opens the page of a settled agent in a window of this size; none if there is no browser.
    async fn open(
        size: (u32, u32),
        manifest: &str,
        arguments: &[&str],
    ) -> Result<Option<Self>, Error> {
        let Some(browser) = Browser::start(size).await? else { return Ok(None) };
        let machine = Machine::new(manifest)?;
        let mut agent = Agent::start(&machine).await?;
        agent.until_logged(&["the site is settled"]).await?;
        let page = Page::start(&machine, arguments).await?;
        within(browser.client.goto(&page.url)).await??;
        Ok(Some(Self { browser, machine, agent, page }))
    }

    async fn close(self) -> TestResult {
        self.browser.close().await?;
        self.page.close().await?;
        self.agent.clean_kill(&self.machine).await
    }
}

const ONE: &str = "resources:\n  one: {type: noop}\n";

const BROKEN: &str = r#"resources:
  root: {type: file, config: {path: "@/root/", state: exists}}
  page: {type: file, dependencies: [root], config: {path: "@/root/page", content: "one\n"}}
  license: {type: file, config: {path: "/proc/nowhere/license", content: b}}
  banner: {type: file, dependencies: [license], config: {path: "@/root/banner", content: b}}
  motd: {type: file, dependencies: [banner], config: {path: "@/root/motd", content: b}}
  feed: {type: exec, config: {command: [sh, -c, "echo no seat is free >&2; exit 3"]}}
  mail: {type: file, config: {path: "/proc/nowhere/mail", content: b}}
  home:
    type: file
    for_each: [a, b, c, d, e, f]
    dependencies: [root]
    config: {path: "@/root/{{ item }}", content: b}
"#;

#[tokio::test]
async fn the_first_screen_names_the_root_causes_and_a_click_says_why() -> TestResult {
    let Some(scene) = Scene::open((1280, 860), BROKEN, &[]).await? else { return Ok(()) };
    let browser = &scene.browser;
    browser.text("#view[data-drawn=graph] svg").await?;
    browser.text("[data-row='/agent/resources/license'].trouble").await?;
    let list = browser.text("#list").await?;
    let first: Vec<_> = list.lines().filter(|line| line.starts_with('✗')).collect();
    assert_eq!(first.len(), 3, "{list}");
    for cause in ["resources/license", "resources/feed", "resources/mail"] {
        assert!(first.iter().any(|line| line.contains(cause)), "{list}");
    }
    assert!(list.contains("no seat is free"), "{list}");

    // The token is taken out of the address; what is picked comes in.
    browser.click("[data-row='/agent/resources/motd']").await?;
    let detail = browser.text("#right[data-drawn='/agent/resources/motd']").await?;
    let why = "/agent/resources/motd waits for /agent/resources/banner, which waits for \
               /agent/resources/license, which is not up yet";
    assert!(detail.contains(why), "{detail}");
    let address = browser.client.current_url().await?.to_string();
    assert!(!address.contains("token") && address.contains("worker=%2Fagent"), "{address}");
    browser.text("svg .picked").await?;
    assert_eq!(browser.run("return document.querySelectorAll('svg .blame').length").await?, 2);
    browser.picture("page.png").await?;

    // Each step of the chain can be picked, and back works.
    browser.run("document.querySelector('#right ol li:last-child a').click()").await?;
    browser.text("#right[data-drawn='/agent/resources/license']").await?;
    within(browser.client.back()).await??;
    browser.text("#right[data-drawn='/agent/resources/motd']").await?;

    browser.click("#tab-boot").await?;
    let boot = browser.text("#view[data-drawn=boot] svg").await?;
    assert!(boot.contains("/agent/resources/page"), "{boot}");
    browser.click("#tab-changes").await?;
    let changes = browser.text("#view[data-drawn=changes]").await?;
    assert!(changes.contains("changed: create"), "{changes}");

    scene.close().await
}

#[tokio::test]
async fn no_text_from_elsewhere_hides_on_the_page() -> TestResult {
    let manifest = r#"resources:
  fails: {type: exec, config: {command: [sh, -c, "echo \"$0\" >&2; exit 3", "HOST"]}}
  each: {type: file, for_each: ["HOST"], config: {path: "@/HOST", content: "HOST"}}
"#;
    let manifest = manifest.replace("HOST", HOSTILE);
    let Some(scene) = Scene::open((1280, 860), &manifest, &[]).await? else { return Ok(()) };
    let browser = &scene.browser;
    browser.text("#view[data-drawn=graph] svg").await?;
    browser.click("[data-row='/agent/resources/fails']").await?;
    browser.text("#right[data-drawn='/agent/resources/fails']").await?;

    for view in ["graph", "boot", "events", "changes"] {
        browser.click(&format!("#tab-{view}")).await?;
        browser.text(&format!("#view[data-drawn={view}]")).await?;
        let text = browser.run("return document.body.innerText + document.title").await?;
        let text = text.as_str().ok_or("no text")?;
        // The page has spaces of its own that do not break.
        assert_eq!(printable_lines(text), text, "{view}");
        assert!(text.contains("\\u{202e}"), "{view}: {text}");
    }
    scene.close().await
}

#[tokio::test]
async fn a_repair_is_seen_with_its_diff_and_a_worker_is_parked_in_ones_name() -> TestResult {
    let phone = Scene::open((360, 740), BROKEN, &["--allow-changes"]).await?;
    let Some(scene) = phone else { return Ok(()) };
    let Scene { browser, machine, .. } = &scene;
    browser.click("[data-row='/agent/resources/page']").await?;
    browser.text("#right[data-drawn='/agent/resources/page']").await?;
    let widths = "return [innerWidth, document.documentElement.scrollWidth]";
    assert_eq!(browser.run(widths).await?, json!([360, 360]));

    machine.write("root/page", "two\n")?;

    let added = browser.text("#right pre .add").await?;
    assert_eq!(added.trim(), "+one");

    let reason = "<img src=x onerror=alert(1)>";
    browser.run("document.activeElement.blur(); document.body.focus()").await?;
    within(browser.client.find(Locator::Css("body"))).await??.send_keys("p").await?;
    let effect = browser.text("dialog[open] #effect[data-known]").await?;
    assert!(effect == "It bounces no other worker of its engine.", "{effect}");
    within(browser.client.find(Locator::Css("#reason"))).await??.send_keys(reason).await?;
    browser.click("dialog[open] button[value=yes]").await?;
    browser.text("[data-row='/agent/resources/page'].off").await?;
    let why = machine.run(&["why", "resources/page"]).await?;
    assert!(why.stdout.contains(reason) && !why.stdout.contains("the page"), "{why:?}");
    let small = browser.text("[data-row='/agent/resources/page'] small").await?;
    assert!(small.contains(reason), "{small}");
    assert_eq!(browser.run("return document.querySelectorAll('img').length").await?, 0);

    scene.close().await
}

#[tokio::test]
async fn a_worker_is_paused_and_resumed_by_keys_and_found_by_its_state() -> TestResult {
    let Some(scene) = Scene::open((1280, 860), ONE, &["--allow-changes"]).await? else {
        return Ok(());
    };
    let Scene { browser, .. } = &scene;
    browser.click("[data-row='/agent/resources/one']").await?;
    browser.text("#right[data-drawn='/agent/resources/one']").await?;
    for (key, look, is_paused) in [("P", "off", true), ("r", "well", false)] {
        browser.run("document.activeElement.blur(); document.body.focus()").await?;
        within(browser.client.find(Locator::Css("body"))).await??.send_keys(key).await?;
        let effect = browser.text("dialog[open] #effect[data-known]").await?;
        assert!(effect.starts_with("It stops no worker: "), "{effect}");
        within(browser.client.find(Locator::Css("#reason"))).await??.send_keys("a look").await?;
        browser.click("dialog[open] button[value=yes]").await?;

        browser.text(&format!("[data-row='/agent/resources/one'].{look}")).await?;

        let counts = browser.text("#counts").await?;
        assert_eq!(counts.contains("paused 1"), is_paused, "{counts}");
    }
    scene.close().await
}

#[tokio::test]
async fn a_page_says_that_the_agent_is_gone_and_goes_on_with_the_next_one() -> TestResult {
    let Some(scene) = Scene::open((1280, 860), ONE, &[]).await? else { return Ok(()) };
    let Scene { browser, machine, agent, page } = scene;
    browser.text("body[data-state=live] [data-row='/agent/resources/one'].well").await?;

    agent.dirty_kill().await?;
    let lost = browser.text("body[data-state=lost] #lost").await?;
    assert!(lost.starts_with("The connection is lost: ") && lost.contains("s old"), "{lost}");
    // A sign of life of the page's own process does not bring the agent back.
    browser.run("take({})").await?;
    browser.text("body[data-state=lost]").await?;

    machine.write("site.yaml", "resources:\n  two: {type: noop}\n")?;
    let agent = Agent::start(&machine).await?;
    browser.text("body[data-state=live] [data-row='/agent/resources/two'].well").await?;
    let gone = "return document.querySelector(\"[data-row='/agent/resources/one']\") === null";
    assert_eq!(browser.run(gone).await?, json!(true));
    Scene { browser, machine, agent, page }.close().await
}

#[tokio::test]
async fn lists_are_cut_and_folded_boxes_open() -> TestResult {
    let Some(scene) = Scene::open((1280, 860), BROKEN, &[]).await? else { return Ok(()) };
    let browser = &scene.browser;

    // By the keyboard alone.
    browser.text("#view[data-drawn=graph] [data-folded='7']").await?;
    let press = "const box = document.querySelector('[data-folded]'); box.focus();
                 box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))";
    browser.run(press).await?;
    browser.text("#view svg [data-path='/agent/resources/home..c']").await?;
    assert_eq!(browser.run("return picked").await?, Value::Null, "it is opened, not picked");

    // In the tree what comes later stands in its engine too.
    browser.click("#mode").await?;
    browser.text("#mode[aria-pressed=true]").await?;
    let rows = "for (let at = 0; at < 10000; at++)
                  rows.set('/agent/resources/x' + at, {path: '/agent/resources/x' + at, name: 'x' + at,
                    state: 'running', look: 'well', generation: 1});
                drawList(); return [...document.querySelectorAll('[data-row]')].map(it => it.dataset.row)";
    let drawn = browser.run(rows).await?;
    let drawn = drawn.as_array().ok_or("no rows")?;
    let drawn: Vec<_> = drawn.iter().filter_map(Value::as_str).collect();
    assert_eq!(drawn.len(), 200);
    let engine = drawn.iter().position(|row| *row == "/agent/resources").ok_or("no engine")?;
    let inside = &drawn[engine + 1..];
    assert!(inside.iter().all(|row| row.starts_with("/agent/resources/")), "{drawn:?}");
    let last = "step(Infinity); return document.activeElement.dataset.row";
    assert_eq!(browser.run(last).await?, "/agent/watches");
    scene.close().await
}

#[tokio::test]
async fn no_other_page_can_ask_for_anything() -> TestResult {
    let Some(scene) = Scene::open((800, 600), ONE, &["--allow-changes"]).await? else {
        return Ok(());
    };
    let Scene { browser, machine, page, .. } = &scene;
    // A page of the same host on another port, which knows the token even. What the browser itself lets through is
    // refused by the rules that `guard.rs` tests one by one.
    let evil = TcpListener::bind("127.0.0.1:0").await?;
    let port = evil.local_addr()?.port();
    let mut serving: JoinSet<std::io::Result<()>> = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = evil.accept().await?;
            // A browser makes connections ahead, on which nothing comes.
            connections.spawn(async move {
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n";
                drop(stream.read(&mut [0; 4096]).await);
                drop(stream.write_all(format!("{head}<title>evil</title>").as_bytes()).await);
            });
        }
    });
    let token = page.url.split_once("token=").ok_or("no token")?.1;
    let body = r#"{"path":"/agent/resources/one","why":"evil"}"#;
    let script = format!(
        "const [done] = arguments; const at = 'http://{host}'; const tried = [];
         const ask = (path, options) => fetch(at + path, options).then(it => it.type + it.status, () => 'refused');
         (async () => {{
           for (const mode of ['cors', 'no-cors']) {{
             tried.push(await ask('/api/park', {{mode, method: 'POST', body: '{body}', credentials: 'include'}}));
             tried.push(await ask('/api/boot', {{mode, credentials: 'include'}}));
           }}
           tried.push(await ask('/api/park', {{method: 'POST', body: '{body}',
             headers: {{authorization: 'Bearer {token}', 'content-type': 'application/json'}}}}));
           const frame = document.createElement('iframe');
           frame.src = at + '/'; document.body.append(frame);
           frame.onload = () => {{ let inside; try {{ inside = frame.contentDocument; }} catch {{ inside = null; }}
             tried.push(inside === null ? 'closed' : 'open'); done(tried); }};
         }})()",
        host = page.host(),
    );
    for host in ["127.0.0.1", "localhost"] {
        within(browser.client.goto(&format!("http://{host}:{port}/"))).await??;

        let tried = within(browser.client.execute_async(&script, Vec::new())).await??;

        let refused = json!(["refused", "refused", "refused", "refused", "refused", "closed"]);
        assert_eq!(tried, refused, "{host}");
    }
    // The page under another name of the same host.
    let other = page.url.replace("127.0.0.1", "localhost");
    within(browser.client.goto(&other)).await??;
    assert!(browser.text("body").await?.contains("this is another host"));
    let report = machine.run(&["why", "resources/one"]).await?;
    assert!(report.stdout.contains("is running"), "{report:?}");
    scene.close().await
}
