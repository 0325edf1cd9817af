//! What open pages are told of an agent.

use std::time::Duration;

use crankcase_engine::{Change, Manifold, Name, Outcome, Stop, Stopper, Worker};
use crankcase_status::wire::FailureCode;
use crankcase_status::{ClientError, ControlConfig, Page, PageAddress, PageConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};

use crate::world::{Error, SITE, STORE, TestResult, WAITER, World, guarded};

const LATE: Name<()> = Name::new("late");

/// A page that is served for the agent of a folder.
struct Served {
    host: String,
    token: String,
    _stopper: Stopper,
    _serving: JoinSet<Outcome>,
}

impl Served {
    async fn start(folder: &TempDir) -> Result<Self, Error> {
        let address = PageAddress::Tcp(([127, 0, 0, 1], 0).into());
        let page = Page::listen(address, PageConfig::new(folder.path())).await?;
        let url = page.url().trim_start_matches("http://").to_owned();
        let (host, token) = url.split_once("/#token=").ok_or("no token")?;
        let (stopper, stop) = Stop::pair();
        let mut serving = JoinSet::new();
        serving.spawn(page.run(stop));
        let (host, token) = (host.to_owned(), token.to_owned());
        Ok(Self { host, token, _stopper: stopper, _serving: serving })
    }

    /// Opens a stream, and reads the head of the answer.
    async fn open(&self) -> Result<Open, Error> {
        let mut stream = TcpStream::connect(&self.host).await?;
        let Self { host, token, .. } = self;
        // An older version of HTTP has no chunks, so that the lines are as they were written.
        let head = format!("GET /api/stream HTTP/1.0\r\nhost: {host}\r\n");
        let request = format!("{head}authorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut lines = BufReader::new(stream).lines();
        let status = guarded(lines.next_line()).await?.ok_or("no answer")?;
        while guarded(lines.next_line()).await?.is_some_and(|line| !line.is_empty()) {}
        Ok(Open { status, lines })
    }
}

struct Open {
    status: String,
    lines: Lines<BufReader<TcpStream>>,
}

impl Open {
    async fn next(&mut self) -> Result<Value, Error> {
        let line = guarded(self.lines.next_line()).await?.ok_or("the stream has ended")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits for a line with this field.
    async fn until(&mut self, field: &str) -> Result<Value, Error> {
        loop {
            let line = self.next().await?;
            if !line[field].is_null() {
                return Ok(line);
            }
        }
    }
}

fn paths(rows: &Value) -> Vec<&str> {
    rows.as_array().into_iter().flatten().filter_map(|row| row["path"].as_str()).collect()
}

#[tokio::test]
async fn a_page_is_told_the_whole_and_then_what_changes() -> TestResult {
    let world = World::start().await?;
    let served = Served::start(&world.folder).await?;
    let mut page = served.open().await?;

    let whole = page.next().await?;
    let all = ["/agent/site", "/agent/site/page", "/agent/store", "/agent/waiter"];
    assert_eq!(paths(&whole["whole"]["rows"]), all);

    world.engine.apply(Change::new().park(STORE)).await?;
    let parked = page.until("rows").await?;
    assert_eq!(paths(&parked["rows"]), ["/agent/store"]);
    assert_eq!(
        (&parked["rows"][0]["look"], &parked["rows"][0]["state"]),
        (&json!("off"), &json!("parked"))
    );

    // A page that is opened later has the events of the time before too.
    let mut later = served.open().await?;
    let events = later.next().await?["whole"]["events"].clone();
    let events = events.as_array().ok_or("no events")?;
    assert!(events.iter().any(|event| event["text"] == "parked"), "{events:?}");

    world.engine.uninstall(WAITER).await?;
    assert_eq!(page.until("gone").await?["gone"], json!(["/agent/waiter"]));

    // What was in a nested engine goes with it.
    world.engine.uninstall(SITE).await?;
    let mut gone = Vec::new();
    while gone.len() < 2 {
        let line = page.until("gone").await?;
        gone.extend(line["gone"].as_array().into_iter().flatten().cloned());
    }
    gone.sort_by_key(Value::to_string);
    assert_eq!(gone, ["/agent/site", "/agent/site/page"]);
    world.clean_kill().await
}

#[tokio::test]
async fn a_row_changes_when_a_wait_ends_without_a_start_and_nothing_else_happens() -> TestResult {
    let world = World::start().await?;
    let late = Manifold::builder().inputs(STORE).run(|_, up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    world.engine.install(LATE, late.bounce_delay(Duration::from_millis(700))).await?;
    world.engine.running(LATE).await?;
    let served = Served::start(&world.folder).await?;
    let mut page = served.open().await?;
    page.until("whole").await?;

    world.engine.apply(Change::new().bounce(LATE).park(STORE)).await?;

    let is_waiting = |row: &Value| row["path"] == "/agent/late" && row["state"] == "waiting";
    while !page.until("rows").await?["rows"].as_array().into_iter().flatten().any(is_waiting) {}
    world.clean_kill().await
}

#[tokio::test]
async fn all_pages_have_one_follower_and_no_page_has_none() -> TestResult {
    let world = World::start_with(ControlConfig::default().max_followers(1)).await?;
    let served = Served::start(&world.folder).await?;
    let client = world.client().await?;

    let mut pages = Vec::new();
    for _ in 0..5 {
        let mut page = served.open().await?;
        assert!(page.next().await?["whole"].is_object());
        pages.push(page);
    }
    let refused = client.events().await;
    assert!(matches!(refused, Err(ClientError::Refused { code: FailureCode::Busy, .. })));
    world.engine.apply(Change::new().park(STORE)).await?;
    for page in &mut pages {
        assert_eq!(paths(&page.until("rows").await?["rows"]), ["/agent/store"]);
    }

    drop(pages);
    let free = async {
        while client.events().await.is_err() {
            yield_now().await;
        }
    };
    guarded(free).await;
    world.clean_kill().await
}

#[tokio::test]
async fn a_page_is_told_that_the_agent_is_lost_and_goes_on_with_the_next() -> TestResult {
    let world = World::start().await?;
    let served = Served::start(&world.folder).await?;
    let mut page = served.open().await?;
    assert!(page.next().await?["whole"].is_object());

    let folder = world.into_folder().await?;
    assert!(page.until("lost").await?["lost"].is_string());
    // A page that is opened meanwhile is told so too.
    let mut other = served.open().await?;
    assert!(other.next().await?["lost"].is_string());

    let world = World::start_in(folder, "", ControlConfig::default()).await?;
    assert!(page.until("whole").await?["whole"]["rows"].is_array());
    assert!(other.until("whole").await?["whole"]["rows"].is_array());
    world.clean_kill().await
}

#[tokio::test]
async fn streams_leave_room_for_requests() -> TestResult {
    let world = World::start().await?;
    let served = Served::start(&world.folder).await?;
    let mut pages = Vec::new();
    for _ in 0..32 {
        pages.push(served.open().await?);
    }

    let refused = served.open().await?;

    assert!(pages.iter().all(|page| page.status.contains(" 200 ")));
    assert!(refused.status.contains(" 503 "), "{}", refused.status);
    world.clean_kill().await
}
