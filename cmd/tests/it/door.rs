//! Who may ask the page, as a program that is no browser sees it.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout};

use crate::agent::Agent;
use crate::machine::{Machine, within};
use crate::world::{Error, TestResult};

/// A `crankcase page`, and its address.
pub(crate) struct Page {
    child: Child,
    pub(crate) url: String,
    _rest: Lines<BufReader<ChildStdout>>,
}

impl Page {
    pub(crate) async fn start(machine: &Machine, arguments: &[&str]) -> Result<Self, Error> {
        let mut program = machine.program(&[&["page"], arguments].concat());
        let mut child = program.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
        let url = within(lines.next_line()).await??.ok_or("it printed no address")?;
        Ok(Self { child, url, _rest: lines })
    }

    pub(crate) fn host(&self) -> &str {
        let host = self.url.trim_start_matches("http://");
        host.split_once('/').map_or(host, |(host, _)| host)
    }

    pub(crate) async fn close(mut self) -> TestResult {
        self.child.kill().await?;
        Ok(())
    }
}

/// Sends a request and returns the answer.
pub(crate) async fn send(host: &str, request: &str) -> Result<String, Error> {
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
        ("GET /api/resume", known.clone(), "", "405"),
        ("POST /api/park", known, wish, "415"),
        // It is for looking only.
        ("POST /api/park", json.clone(), wish, "403"),
        ("POST /api/pause", json.clone(), wish, "403"),
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
