//! The status page in a real browser.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::agent::Agent;
use crate::machine::{Machine, within};
use crate::world::{Error, TestResult};

/// A browser with its driver; both end with it.
struct Browser {
    client: Client,
    driver: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser; none if it is not installed.
    #[expect(clippy::print_stderr, reason = "a test that was left out says so")]
    async fn start((width, height): (u32, u32)) -> Result<Option<Self>, Error> {
        let mut driver = Command::new("chromedriver");
        driver.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut driver = match driver.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("left out: the browser's driver is not installed");
                return Ok(None);
            }
            driver => driver?,
        };
        let mut lines = BufReader::new(driver.stdout.take().ok_or("no stdout")?).lines();
        let port = loop {
            let line = within(lines.next_line()).await??.ok_or("the driver has ended")?;
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        let profile = tempfile::tempdir()?;
        // The window of a browser is never as narrow as a phone; what it emulates is.
        let screen = json!({"deviceMetrics": {"width": width, "height": height, "pixelRatio": 1}});
        let options = json!({"mobileEmulation": screen, "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--window-size=1280,1024",
            format!("--user-data-dir={}", profile.path().display()),
        ]});
        let mut capabilities = Capabilities::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let connector = HttpConnector::new();
        let mut builder = ClientBuilder::new(connector);
        builder.capabilities(capabilities);
        let client = within(builder.connect(&format!("http://127.0.0.1:{port}"))).await??;
        Ok(Some(Self { client, driver, _profile: profile }))
    }

    async fn close(mut self) -> TestResult {
        within(self.client.clone().close()).await??;
        self.driver.kill().await?;
        Ok(())
    }

    /// Waits until something is in the document, and returns its text.
    async fn text(&self, selector: &str) -> Result<String, Error> {
        let text = self.until(selector, "it.innerText ?? it.textContent").await?;
        Ok(text.as_str().ok_or("it has no text")?.to_owned())
    }

    async fn click(&self, selector: &str) -> TestResult {
        self.until(selector, "(it.click(), true)").await.map(drop)
    }

    /// Waits until something is in the document, and returns what a script says of it then. In one step: what was
    /// found may be drawn anew at any time.
    async fn until(&self, selector: &str, script: &str) -> Result<Value, Error> {
        let selector = json!(selector);
        let script = format!(
            "const it = document.querySelector({selector}); return it === null ? null : {script}"
        );
        let waited = async {
            loop {
                let found = self.client.execute(&script, Vec::new()).await?;
                if !found.is_null() {
                    return Ok::<_, Error>(found);
                }
            }
        };
        let late = |_| format!("nothing is {selector}");
        within(waited).await.map_err(late)?
    }

    async fn run(&self, script: &str) -> Result<Value, Error> {
        Ok(within(self.client.execute(script, Vec::new())).await??)
    }

    /// Saves a picture of the page for the documentation, if that is asked for.
    async fn picture(&self, name: &str) -> TestResult {
        if std::env::var_os("CRANKCASE_WRITE_PAGES").is_some() {
            let picture = within(self.client.screenshot()).await??;
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/seeing").join(name);
            std::fs::write(file, picture)?;
        }
        Ok(())
    }
}

/// A `crankcase page`, and its address.
struct Page {
    child: Child,
    url: String,
    _rest: Lines<BufReader<ChildStdout>>,
}

impl Page {
    async fn start(machine: &Machine, arguments: &[&str]) -> Result<Self, Error> {
        let mut program = machine.program(&[&["page"], arguments].concat());
        let mut child = program.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
        let url = within(lines.next_line()).await??.ok_or("it printed no address")?;
        Ok(Self { child, url, _rest: lines })
    }

    fn host(&self) -> &str {
        let host = self.url.trim_start_matches("http://");
        host.split_once('/').map_or(host, |(host, _)| host)
    }

    async fn close(mut self) -> TestResult {
        self.child.kill().await?;
        Ok(())
    }
}

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
    let Some(browser) = Browser::start((1280, 860)).await? else { return Ok(()) };
    let machine = Machine::new(BROKEN)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["everything is settled"]).await?;
    let page = Page::start(&machine, &[]).await?;

    within(browser.client.goto(&page.url)).await??;
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

    browser.close().await?;
    page.close().await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_repair_is_seen_with_its_diff_and_a_worker_is_parked_in_ones_name() -> TestResult {
    let Some(browser) = Browser::start((360, 740)).await? else { return Ok(()) };
    let machine = Machine::new(BROKEN)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["everything is settled"]).await?;
    let page = Page::start(&machine, &["--allow-changes"]).await?;
    within(browser.client.goto(&page.url)).await??;
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
    assert!(effect == "It concerns no other worker that is up.", "{effect}");
    within(browser.client.find(Locator::Css("#reason"))).await??.send_keys(reason).await?;
    browser.click("dialog[open] button[value=yes]").await?;
    browser.text("[data-row='/agent/resources/page'].off").await?;
    let why = machine.run(&["why", "resources/page"]).await?;
    assert!(why.stdout.contains(reason) && !why.stdout.contains("the page"), "{why:?}");
    let small = browser.text("[data-row='/agent/resources/page'] small").await?;
    assert!(small.contains(reason), "{small}");
    assert_eq!(browser.run("return document.querySelectorAll('img').length").await?, 0);

    browser.close().await?;
    page.close().await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_page_says_that_the_agent_is_gone_and_goes_on_with_the_next_one() -> TestResult {
    let Some(browser) = Browser::start((1280, 860)).await? else { return Ok(()) };
    let machine = Machine::new("resources:\n  one: {type: noop}\n")?;
    let agent = Agent::start(&machine).await?;
    let page = Page::start(&machine, &[]).await?;
    within(browser.client.goto(&page.url)).await??;
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
    browser.close().await?;
    page.close().await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn lists_are_cut_and_folded_boxes_open() -> TestResult {
    let Some(browser) = Browser::start((1280, 860)).await? else { return Ok(()) };
    let machine = Machine::new(BROKEN)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["everything is settled"]).await?;
    let page = Page::start(&machine, &[]).await?;
    within(browser.client.goto(&page.url)).await??;

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
    browser.close().await?;
    page.close().await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn no_other_page_can_ask_for_anything() -> TestResult {
    let Some(browser) = Browser::start((800, 600)).await? else { return Ok(()) };
    let machine = Machine::new("resources:\n  one: {type: noop}\n")?;
    let agent = Agent::start(&machine).await?;
    let page = Page::start(&machine, &["--allow-changes"]).await?;
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
    browser.close().await?;
    page.close().await?;
    agent.clean_kill(&machine).await
}

/// Sends a request and returns the answer.
async fn send(host: &str, request: &str) -> Result<String, Error> {
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await??;
    Ok(String::from_utf8(answer)?)
}

#[tokio::test]
async fn requests_are_refused_with_a_status_of_their_own() -> TestResult {
    let machine = Machine::new("resources:\n  one: {type: noop}\n")?;
    let agent = Agent::start(&machine).await?;
    let page = Page::start(&machine, &[]).await?;
    let host = page.host();
    let token = page.url.split_once("token=").ok_or("no token")?.1;
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    let known = format!("host: {host}\r\nauthorization: Bearer {token}\r\n");
    let json = format!("{known}content-type: application/json\r\n");
    let wish = r#"{"path":"/agent/resources/one","why":"x"}"#;
    let large = "x".repeat(20_000);

    for (line, head, body, status) in [
        ("GET /", format!("host: {host}\r\n"), "", "200"),
        ("GET /", "host: evil\r\n".to_owned(), "", "421"),
        ("GET /api/boot", known.clone(), "", "200"),
        ("GET /api/boot", format!("host: {host}\r\n"), "", "401"),
        ("GET /api/boot", format!("{known}origin: http://evil\r\n"), "", "403"),
        ("GET /api/worker?path=/agent/resources/none", known.clone(), "", "404"),
        ("GET /api/worker", known.clone(), "", "400"),
        ("GET /api/other", known.clone(), "", "404"),
        ("DELETE /api/boot", known.clone(), "", "405"),
        ("GET /api/park", known.clone(), "", "405"),
        ("POST /api/park", known, wish, "415"),
        // It is for looking only.
        ("POST /api/park", json.clone(), wish, "403"),
        ("POST /api/park", json.clone(), "{", "400"),
        ("POST /api/park", json, &large, "413"),
    ] {
        let length = body.len();
        let request = format!("{line} HTTP/1.1\r\n{head}content-length: {length}\r\n\r\n{body}");
        let answer = send(host, &request).await?;

        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line} {head}: {answer}");
        assert!(line != "GET /" || answer.len() <= 60 * 1024, "{}", answer.len());
        let hardening = [
            "referrer-policy: no-referrer",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
            "frame-ancestors 'none'",
        ];
        for hardened in hardening {
            assert!(answer.contains(hardened), "{line}: {answer}");
        }
        assert!(!answer.contains("unsafe-inline") && !answer.contains("set-cookie"), "{answer}");
    }
    page.close().await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn the_agent_serves_the_page_only_if_it_is_told_to() -> TestResult {
    let machine = Machine::new("resources:\n  one: {type: noop}\n")?;
    let beyond = machine.run(&["run", "site.yaml", "--page", "0.0.0.0:0"]).await?;
    assert_eq!(beyond.code, Some(64), "{beyond:?}");
    assert!(beyond.stderr.contains("--page-insecure-address"), "{beyond:?}");

    let mut agent =
        Agent::start_with(&machine, &["run", "site.yaml", "--page", "127.0.0.1:0"]).await?;
    agent.until_logged(&["the status page is served"]).await?;
    let url = machine.read("state/page.url").ok_or("there is no address")?;
    let host = url.trim_start_matches("http://").split_once('/').ok_or("no host")?.0;
    let token = url.trim_end().split_once("token=").ok_or("no token")?.1;

    let head = format!("host: {host}\r\nauthorization: Bearer {token}");
    let answer = send(host, &format!("GET /api/boot HTTP/1.1\r\n{head}\r\n\r\n")).await?;

    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(!agent.seen().contains(token), "the token is in the log");
    let mode = std::fs::metadata(machine.path("state/page.url"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    agent.dirty_kill().await?;
    // Pages that are open go on with the next one.
    let mut agent =
        Agent::start_with(&machine, &["run", "site.yaml", "--page", "127.0.0.1:0"]).await?;
    agent.until_logged(&["the status page is served"]).await?;
    assert!(machine.read("state/page.url").ok_or("no address")?.contains(token));
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_page_ends_at_a_signal_and_leaves_no_socket() -> TestResult {
    let machine = Machine::new("resources:\n  one: {type: noop}\n")?;
    let socket = machine.path("page.sock");
    let path = socket.to_str().ok_or("no text")?;
    // One that was killed has left its socket.
    Page::start(&machine, &["--socket", path]).await?.close().await?;
    assert!(socket.exists());
    let mut page = Page::start(&machine, &["--socket", path]).await?;
    assert!(page.url.starts_with("http://localhost/#token="), "{}", page.url);
    assert_eq!(std::fs::metadata(&socket)?.permissions().mode() & 0o777, 0o600);

    crate::machine::signal(&page.child.id().ok_or("it has ended")?.to_string(), Signal::TERM)?;

    assert!(within(page.child.wait()).await??.success());
    assert!(!socket.exists());
    for address in ["0.0.0.0", "::"] {
        let wrong = machine.run(&["page", "--page-insecure-address", address]).await?;
        assert!(wrong.stderr.contains("name the address that people will open"), "{wrong:?}");
    }
    Ok(())
}
