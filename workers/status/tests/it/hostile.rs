//! Malformed, endless and foreign requests to the control socket.

use std::time::Duration;

use crankcase_status::ControlConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::world::{STORE, TestResult, World, guarded, send};
use crankcase_status::wire::Subject;

fn request(line: &str, body: &str) -> Vec<u8> {
    let head = "host: agent\r\ncontent-type: application/json";
    format!("{line} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

#[tokio::test]
async fn malformed_requests_get_an_answer_that_says_what_is_wrong() -> TestResult {
    let world = World::start().await?;
    let cases = [
        ("GET /", "", "404", "there is no"),
        ("GET /v2/report", "", "404", "there is no"),
        ("POST /v1/report", "", "405", "asked with GET"),
        ("GET /v1/bounce", "", "405", "asked with POST"),
        ("GET /v1/why", "", "400", "is missing"),
        ("GET /v1/report?path=a&path=b", "", "400", "twice"),
        ("GET /v1/graph?path=a&depth=-1", "", "400", "is a whole number below 2^63"),
        ("GET /v1/events?since=-1", "", "400", "is a whole number below 2^63"),
        ("GET /v1/events?since=9223372036854775808", "", "400", "is a whole number below 2^63"),
        ("GET /v1/report?only=red", "", "400", "is trouble or a state"),
        ("GET /v1/report?inputs=no", "", "400", "is true or false"),
        ("GET /v1/counts?path=nowhere", "", "404", "nothing has the path"),
        ("GET /v1/graph?depth=1", "", "400", "for a graph near a path"),
        ("GET /v1/why?path=a&depth=1", "", "400", "unknown parameter"),
        ("GET /v1/report?colour=red", "", "400", "unknown parameter"),
        ("GET /v1/report?path=%ff%00", "", "404", "nothing has the path"),
        ("POST /metrics", "", "405", "asked with GET"),
        ("GET /metrics?path=site", "", "400", "unknown parameter"),
        ("GET /v1/park", "", "405", "asked with POST"),
        ("POST /v1/unpark?path=site", "{}", "400", "unknown parameter"),
        ("POST /v1/bounce", "", "400", "not as expected"),
        ("POST /v1/bounce?force=yes", "", "400", "true or false"),
        ("POST /v1/park?force=true", "", "400", "unknown parameter"),
        ("POST /v1/bounce", "[[[[", "400", "not as expected"),
        ("POST /v1/bounce", r#"{"path": "site"}"#, "400", "missing field"),
        ("POST /v1/bounce", r#"{"path":"site","who":"a","why":"\u001b[2J"}"#, "400", "control"),
        ("POST /v1/bounce", r#"{"path":"site","who":"a","why":"b","x":1}"#, "400", "unknown field"),
    ];

    for (line, body, status, message) in cases {
        let answer = send(&world.socket(), &request(line, body)).await?;

        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
        assert!(answer.contains(message) && answer.contains(r#""version":1"#), "{line}: {answer}");
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_page_in_a_browser_is_refused() -> TestResult {
    let world = World::start().await?;
    let body = r#"{"path":"site","who":"a","why":"b"}"#;
    let cases = [
        ("GET /v1/report", "origin: http://evil", ""),
        ("GET /v1/events", "Sec-Fetch-Site: same-origin", ""),
        ("POST /v1/bounce", "content-type: application/json\r\nOrigin: null", body),
        ("POST /v1/bounce", "content-type: text/plain", body),
        ("POST /v1/bounce", "x: y", body),
        // What a page sends whose name leads to a forwarded socket, and what other programs send wrong.
        ("GET /v1/report", "host: agent", ""),
        ("GET http://evil/v1/report", "x: y", ""),
    ];

    for (line, header, body) in cases {
        let head = format!("{line} HTTP/1.1\r\nhost: agent\r\n{header}");
        let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let answer = send(&world.socket(), request.as_bytes()).await?;

        assert!(answer.starts_with("HTTP/1.1 400 "), "{line} {header}: {answer}");
    }
    for (host, status) in [
        ("evil.example:8000", 400),
        ("localhost.evil", 400),
        ("10.0.0.1", 400),
        ("agent:x", 400),
        ("", 400),
        ("localhost", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
    ] {
        let request = format!("GET /v1/report HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let answer = send(&world.socket(), request.as_bytes()).await?;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
    let report = world.client().await?.report(Some("site")).await?;
    assert!(matches!(report, Subject::Worker(worker) if worker.generation == 1));
    world.clean_kill().await
}

#[tokio::test]
async fn what_is_not_http_is_dropped() -> TestResult {
    let world = World::start().await?;

    for bytes in [&b"\x16\x03\x01\x02\x00"[..], b"GET\r\n\r\n", &[0; 1024]] {
        let answer = send(&world.socket(), bytes).await?;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }

    world.client().await?.report(None).await?;
    world.clean_kill().await
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() -> TestResult {
    let world = World::start().await?;
    let body = format!(r#"{{"path": "{}"}}"#, "x".repeat(70 * 1024));

    let answer = send(&world.socket(), &request("POST /v1/bounce", &body)).await?;

    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    world.clean_kill().await
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() -> TestResult {
    const MAX_HEAD: usize = 16 * 1024;
    let world = World::start().await?;

    for (length, status) in [(MAX_HEAD, "200"), (MAX_HEAD + 1, "431")] {
        let mut head = b"GET /v1/report HTTP/1.1\r\nhost: agent\r\nx: ".to_vec();
        head.resize(length - b"\r\n\r\n".len(), b'x');
        head.extend(b"\r\n\r\n");

        let answer = send(&world.socket(), &head).await?;

        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{length}: {answer}");
    }
    world.clean_kill().await
}

/// A configuration in which no time runs out during a test.
fn patient() -> ControlConfig {
    let hour = Duration::from_secs(60 * 60);
    ControlConfig::default().read_timeout(hour).write_timeout(hour)
}

#[tokio::test]
async fn half_sent_requests_keep_nobody_from_an_answer() -> TestResult {
    let world = World::start_with(patient()).await?;
    let halves = [
        &b""[..],
        b"GET /v1/report HTTP/1.1\r\nx: ",
        b"POST /v1/park HTTP/1.1\r\nhost: agent\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    ];
    let mut streams = Vec::new();
    // Three times as many as there are places.
    for half in halves.repeat(64) {
        let mut stream = UnixStream::connect(world.socket()).await?;
        // One that has had to give way already takes nothing.
        drop(stream.write_all(half).await);
        streams.push(stream);
    }

    guarded(world.client().await?.report(None)).await?;

    drop(streams);
    world.clean_kill().await
}

#[tokio::test]
async fn a_half_sent_request_gives_way_and_a_whole_one_does_not() -> TestResult {
    let world = World::start_with(patient().max_connections(2)).await?;
    let client = world.client().await?;
    let mut events = client.events().await?;
    let mut half = UnixStream::connect(world.socket()).await?;
    half.write_all(b"GET /v1/report HTTP/1.1\r\nx: ").await?;

    guarded(client.report(None)).await?;

    assert_eq!(guarded(half.read(&mut [0; 8])).await.unwrap_or_default(), 0);
    world.engine.bounce(STORE).await?;
    assert!(guarded(events.next()).await?.is_some());
    world.clean_kill().await
}

#[tokio::test]
async fn clients_that_never_finish_their_request_give_way() -> TestResult {
    let config =
        ControlConfig::default().max_connections(2).read_timeout(Duration::from_millis(250));
    let world = World::start_with(config).await?;
    let mut silent = UnixStream::connect(world.socket()).await?;
    let mut slow = UnixStream::connect(world.socket()).await?;
    slow.write_all(b"GET /v1/report HTTP/1.1\r\nx: ").await?;

    guarded(world.client().await?.report(None)).await?;

    let mut rest = Vec::new();
    drop(guarded(silent.read_to_end(&mut rest)).await);
    drop(guarded(slow.read_to_end(&mut rest)).await);
    world.clean_kill().await
}

#[tokio::test]
async fn a_body_that_never_comes_is_given_up() -> TestResult {
    let config = ControlConfig::default().read_timeout(Duration::from_millis(250));
    let world = World::start_with(config).await?;
    let head = b"POST /v1/bounce HTTP/1.1\r\nhost: agent\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";

    let answer = send(&world.socket(), head).await?;

    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    world.clean_kill().await
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_answer_is_dropped() -> TestResult {
    let config =
        ControlConfig::default().max_connections(1).write_timeout(Duration::from_millis(50));
    let world = World::start_with(config).await?;
    for index in 0..5000 {
        let name = crankcase_engine::Name::<u32>::parse(&format!("w{index}"))?;
        world.engine.provide(name, index).await?;
    }
    let mut stalled = UnixStream::connect(world.socket()).await?;
    stalled.write_all(&request("GET /v1/report", "")).await?;

    // The socket takes this answer at once, so its reader need not be quick.
    guarded(world.client().await?.report(Some("/agent/w0"))).await?;

    let mut taken = Vec::new();
    drop(guarded(stalled.read_to_end(&mut taken)).await);
    let head = String::from_utf8_lossy(&taken);
    let (_, length) = head.split_once("content-length: ").ok_or("no length")?;
    let length: usize = length.split_once('\r').ok_or("no end")?.0.parse()?;
    assert!(taken.len() < length, "{} of {length} bytes", taken.len());
    world.clean_kill().await
}
