//! How an agent ends: after signals, fatal errors, panics, and with workers that do not stop.

use std::os::fd::OwnedFd;
use std::path::Path;

use crankcase_status::wire::{EngineState, Subject, WorkerState};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::process::{Agent, Error, TestResult, guarded};

#[tokio::test]
async fn one_signal_stops_all_workers_in_order() -> TestResult {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir()?;
        let mut agent = Agent::start(folder.path(), &["dependent"]).await?;
        agent.until("the dependent is up").await?;

        agent.send(signal)?;

        agent.until("the dependent stops").await?;
        let (status, log) = agent.end().await?;
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(!folder.path().join("control.sock").exists());
    }
    Ok(())
}

#[tokio::test]
async fn the_second_signal_ends_what_does_not_listen() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["deaf"]).await?;
    agent.until("the deaf worker is up").await?;
    agent.send(Signal::INT)?;
    agent.until("not listening").await?;

    agent.send(Signal::INT)?;

    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(130), "{log}");
    Ok(())
}

/// Starts an agent with a program that ignores its stop signal; returns what tells the program's end.
async fn start_stubborn(folder: &Path, ways: &[&str]) -> Result<(Agent, OwnedFd), Error> {
    let mut agent = Agent::spawn(folder, &[&["json", "stubborn"], ways].concat())?;
    let said = agent.until_all(&["\"line\":\"pid ", "the stubborn program is up"]).await?;
    let line: serde_json::Value = serde_json::from_str(&said[0])?;
    let words = line["fields"]["line"].as_str().unwrap_or_default();
    let pid = words.trim_start_matches("pid ").parse()?;
    let program = pidfd_open(Pid::from_raw(pid).ok_or("no pid")?, PidfdFlags::NONBLOCK)?;
    Ok((agent, program))
}

/// Waits until a program has ended.
#[expect(deprecated, reason = "unsound only for a type that closes its descriptor; this owns it")]
async fn gone(program: OwnedFd) -> TestResult {
    let program = AsyncFd::with_interest(program, Interest::READABLE)?;
    let _ready = guarded(program.readable()).await?;
    Ok(())
}

#[tokio::test]
async fn a_worker_that_is_aborted_at_the_stop_shows_in_the_exit_code() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["dropped", "dependent"]).await?;
    agent.until("the deaf worker is up").await?;

    agent.send(Signal::TERM)?;

    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(1), "{log}");
    let said = "worker /agent/dropped did not stop in time and had to be aborted";
    assert!(log.contains(said), "{log}");
    Ok(())
}

#[tokio::test]
async fn the_second_signal_leaves_no_program() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (mut agent, program) = start_stubborn(folder.path(), &[]).await?;
    agent.send(Signal::TERM)?;
    agent.until("SIGTERM").await?;

    agent.send(Signal::TERM)?;

    assert_eq!(agent.end().await?.0.code(), Some(130));
    gone(program).await
}

#[tokio::test]
async fn what_is_left_behind_at_the_stop_deadline_leaves_no_program() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (agent, program) = start_stubborn(folder.path(), &["hasty"]).await?;

    agent.send(Signal::TERM)?;

    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("left behind: /agent/stubborn"), "{log}");
    gone(program).await
}

#[tokio::test]
async fn an_agent_that_stops_still_says_what_it_waits_for() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["deaf"]).await?;
    agent.until("the deaf worker is up").await?;
    agent.send(Signal::TERM)?;
    agent.until("not listening").await?;

    let report = agent.client().await?.report(None).await?;

    let Subject::Engine(report) = report else { return Err("a worker".into()) };
    assert_eq!(report.state, EngineState::Stopping);
    assert_eq!(report.workers["deaf"].state, WorkerState::Stopping);
    agent.send(Signal::TERM)?;
    assert_eq!(agent.end().await?.0.code(), Some(130));
    Ok(())
}

#[tokio::test]
async fn a_fatal_error_is_the_exit_code_and_is_said_once() -> TestResult {
    let folder = tempfile::tempdir()?;
    let agent = Agent::start(folder.path(), &["fatal"]).await?;
    let mut events = agent.client().await?.events().await?;

    agent.send(Signal::HUP)?;

    while events.next().await?.is_some() {}
    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(1), "{log}");
    assert_eq!(log.matches("the signal hurt").count(), 1, "{log}");
    Ok(())
}

#[tokio::test]
async fn a_fatal_error_is_said_though_a_second_signal_cuts_the_stop_short() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["fatal", "deaf"]).await?;
    agent.until("the deaf worker is up").await?;
    agent.send(Signal::HUP)?;
    agent.until_all(&["failed for good: all are stopped in order", "not listening"]).await?;

    agent.send(Signal::TERM)?;
    agent.until("signal received").await?;
    agent.send(Signal::TERM)?;

    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(130), "{log}");
    assert_eq!(log.matches("the signal hurt").count(), 1, "{log}");
    Ok(())
}

/// Starts an agent with a worker that panics, and returns the backtrace in its log and in its
/// report.
async fn backtraces_of(rust_backtrace: &str) -> Result<[Option<String>; 2], Error> {
    let folder = tempfile::tempdir()?;
    let variables = [("RUST_BACKTRACE", rust_backtrace.as_ref())];
    let mut agent = Agent::spawn_with(folder.path(), &["json", "panicking"], &variables)?;
    let texts = ["\"a panic\"", "a worker has ended", "the control socket listens"];
    agent.until_all(&texts).await?;

    let report = agent.client().await?.report(Some("/agent/panicking")).await?;
    let Subject::Worker(worker) = report else { return Err("it is no worker".into()) };
    agent.send(Signal::TERM)?;
    let (_, log) = agent.end().await?;
    let panic = log.lines().find(|line| line.contains("\"a panic\"")).ok_or("no panic")?;
    let panic: serde_json::Value = serde_json::from_str(panic)?;
    let logged = panic["fields"]["backtrace"].as_str().map(str::to_owned);
    Ok([logged, worker.error.ok_or("no error")?.backtrace])
}

#[tokio::test]
async fn a_panics_backtrace_is_in_the_log_and_in_the_report() -> TestResult {
    let [logged, reported] = backtraces_of("1").await?;

    let reported = reported.ok_or("it is not in the report")?;
    assert_eq!(logged, Some(reported.replace('\n', ", ")));
    let first = reported.lines().next().ok_or("it is empty")?;
    assert!(first.starts_with("_02_misbehaving::panicking::"), "{reported}");
    assert!(first.contains("examples/02_misbehaving.rs:"), "{reported}");
    assert!(reported.lines().all(|line| line.len() < 200), "{reported}");
    assert!(reported.lines().all(|line| line.contains("02_misbehaving")), "{reported}");
    Ok(())
}

#[tokio::test]
async fn a_panic_has_no_backtrace_unless_it_is_asked_for() -> TestResult {
    assert_eq!(backtraces_of("0").await?, [None, None]);
    Ok(())
}

#[tokio::test]
async fn a_panic_does_not_end_the_agent() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["json", "panicking"]).await?;
    let panic: serde_json::Value = serde_json::from_str(&agent.until_line("a panic").await?)?;
    assert_eq!(panic["fields"]["message"], "a panic", "{panic}");
    assert!(panic["fields"]["place"].as_str().is_some_and(|place| place.contains(".rs:")));
    agent.until("a worker has ended").await?;

    let answer = agent.client().await?.why("/agent/panicking").await?;

    assert!(answer.text.contains("panicked: at the start"), "{}", answer.text);
    agent.send(Signal::TERM)?;
    assert_eq!(agent.end().await?.0.code(), Some(0));
    Ok(())
}
