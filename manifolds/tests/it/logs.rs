//! How an agent writes its log, and the exit code of its worst error.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use crankcase_status::Follower;
use crankcase_status::wire::EventLine;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixDatagram;
use tokio::process::Command;

use crate::process::{Agent, Error, TestResult, example, guarded};

const JOURNAL: &str = "/run/systemd/journal";

#[tokio::test]
async fn json_is_an_object_on_each_line() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::spawn(folder.path(), &["json"])?;
    agent.until("the control socket listens").await?;
    agent.send(Signal::TERM)?;

    let (_, log) = agent.end().await?;

    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        assert!(line["fields"]["message"].is_string(), "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn each_line_says_which_worker_it_comes_from() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::spawn(folder.path(), &["json"])?;
    agent.until("the site is up").await?;
    agent.send(Signal::TERM)?;

    let (_, log) = agent.end().await?;

    let line = log.lines().find(|line| line.contains("the site is up")).ok_or("it is not up")?;
    let line: serde_json::Value = serde_json::from_str(line)?;
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["span"]["worker"], "/agent/site");
    Ok(())
}

/// Starts an agent and has it log more than a pipe holds, which nobody reads.
async fn start_unread(folder: &Path, ways: &[&str]) -> Result<Agent, Error> {
    let agent = Agent::start(folder, ways).await?;
    let mut events = agent.client().await?.events().await?;
    agent.send(Signal::HUP)?;
    until_chatty(&mut events).await?;
    Ok(agent)
}

/// Waits until the worker is up that has logged so much before.
async fn until_chatty(events: &mut Follower) -> TestResult {
    loop {
        let event = guarded(events.next()).await?.ok_or("it has ended")?;
        if let EventLine::Event(event) = event
            && (&*event.path, &*event.text) == ("/agent/chatty", "started, generation 1")
        {
            return Ok(());
        }
    }
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_neither_the_work_nor_the_end() -> TestResult {
    let folder = tempfile::tempdir()?;
    let agent = start_unread(folder.path(), &["chatty"]).await?;

    agent.send(Signal::TERM)?;

    let (status, log) = agent.end_unread().await?;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("so much is to be said") && !log.contains("the last word"), "{log}");
    Ok(())
}

#[tokio::test]
async fn who_reads_the_log_again_is_told_how_many_lines_are_missing() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = start_unread(folder.path(), &["json", "chatty"]).await?;
    for _ in 0..200 {
        agent.until("so much is to be said").await?;
    }

    agent.send(Signal::HUP)?;
    let missing = agent.until_line("nobody has read them in time").await?;
    agent.until("signal received").await?;

    let missing: serde_json::Value = serde_json::from_str(&missing)?;
    agent.send(Signal::TERM)?;
    let (_, log) = agent.end().await?;
    let lines = log.lines().filter(|line| line.contains("so much is to be said")).count();
    // What else was said meanwhile may be among them.
    let missed = missing["fields"]["lines"].as_u64().ok_or("no number")?;
    assert!((5_000..5_010).contains(&(lines as u64 + missed)), "{lines} and {missing}");
    assert!(missing["timestamp"].is_string() && missing["level"] == "WARN", "{missing}");
    Ok(())
}

#[tokio::test]
async fn a_log_whose_reader_has_gone_away_does_not_end_the_agent() -> TestResult {
    let folder = tempfile::tempdir()?;
    let agent = Agent::start(folder.path(), &["chatty"]).await?;
    let mut events = agent.client().await?.events().await?;
    let process = Pid::from_raw(i32::try_from(agent.pid()?)?).ok_or("no process")?;

    let mut child = agent.stop_reading();
    kill_process(process, Signal::HUP)?;
    until_chatty(&mut events).await?;
    kill_process(process, Signal::TERM)?;

    assert_eq!(guarded(child.wait()).await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn what_a_worker_misses_is_no_warning() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::spawn(folder.path(), &["json", "missing"])?;
    agent.until("the bill is to be paid").await?;
    agent.send(Signal::TERM)?;

    let (_, log) = agent.end().await?;

    let line = log.lines().find(|line| line.contains("the bill")).ok_or("it misses nothing")?;
    let line: serde_json::Value = serde_json::from_str(line)?;
    assert_eq!(
        (&line["level"], &line["fields"]["worker"]),
        (&"INFO".into(), &"/agent/missing".into())
    );
    Ok(())
}

#[tokio::test]
async fn a_journal_that_is_not_there_is_said_on_stderr() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = in_namespace(folder.path().as_os_str(), "true");

    let output = guarded(agent.output()).await?;

    let log = String::from_utf8(output.stderr)?;
    assert!(log.contains("there is no journal: logging to stderr"), "{log}");
    assert!(log.contains("the disk hurt"), "{log}");
    Ok(())
}

#[tokio::test]
async fn the_journal_gets_events_with_their_fields() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (outside, inside) = (folder.path().join("journal"), format!("{JOURNAL}/socket"));
    let journal = UnixDatagram::bind(&outside)?;
    let setup = format!("mkdir -p {JOURNAL} && ln -s {} {inside}", outside.display());
    let mut agent = in_namespace(folder.path().join("state").as_os_str(), &setup);

    let output = guarded(agent.output()).await?;

    let mut buffer = vec![0; 65_536];
    let mut entries = String::new();
    while !entries.contains("the disk hurt") {
        let length = guarded(journal.recv(&mut buffer)).await?;
        entries += &String::from_utf8_lossy(&buffer[..length]);
    }
    assert!(entries.contains("SYSLOG_IDENTIFIER"), "{entries}");
    assert!(entries.contains("PRIORITY\n\u{1}\0\0\0\0\0\0\x003\n"), "{entries}");
    assert!(entries.contains("F_PATH\n"), "{entries}");
    assert_eq!(String::from_utf8(output.stderr)?, "");
    Ok(())
}

/// Returns an agent that logs to the journal and fails, in a namespace whose `/run` is empty but for
/// what `setup` makes in it.
fn in_namespace(folder: &OsStr, setup: &str) -> Command {
    let script = format!("mount -t tmpfs none /run && {setup} && exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    let program = example("02_misbehaving").unwrap_or_default();
    command.args(["-Urm", "sh", "-c", &script]).arg(program).arg(folder);
    command.args(["journald", "fatal-io"]).env("RUST_LOG", "info");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

#[tokio::test]
async fn a_filter_that_cannot_be_read_is_named_and_nothing_is_started() -> TestResult {
    let folder = tempfile::tempdir()?;
    let state_dir = folder.path().join("state");

    let (status, log) = Agent::spawn(&state_dir, &["mumbling"])?.end().await?;

    assert_eq!(status.code(), Some(65), "{log}");
    let expected = "filter is loud=very; expected error, warn, info, debug or trace";
    assert!(log.contains(expected), "{log}");
    assert!(!fs::exists(&state_dir)?);
    Ok(())
}

#[tokio::test]
async fn the_worst_error_decides_over_the_exit_code() -> TestResult {
    let folder = tempfile::tempdir()?;

    let (status, log) = Agent::spawn(folder.path(), &["fatal-io"])?.end().await?;

    assert_eq!(status.code(), Some(74), "{log}");
    assert_eq!(log.matches("the disk hurt").count(), 1, "{log}");
    Ok(())
}
