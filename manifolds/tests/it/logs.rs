//! How an agent writes its log, and the exit code of its worst error.

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use tokio::net::UnixDatagram;
use tokio::process::Command;

use crate::process::{Agent, TestResult, example, guarded};

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
    assert_eq!(line["span"]["path"], "/agent/site");
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
    let mut agent = in_namespace(folder.path().as_os_str(), &setup);

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
