//! Programs that are asked whether they are well.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;

use crankcase_engine::{Detail, EventKind as EngineEvent};
use crankcase_kinds::builtin;
use crankcase_resources::report::EventKind;
use rustix::process::{Pid, Signal, kill_process};

use crate::site::machine::{Machine, TestResult, quick};
use crate::site::seen::Seen;

/// Begins to keep a site; returns once its program runs, with its events.
async fn running(site: &str) -> TestResult<(Machine, Arc<Seen>)> {
    let (seen, observer) = Seen::pair();
    let setting = (quick(), builtin());
    let machine = Machine::observed(tempfile::tempdir()?, site, setting, observer).await?;
    machine.running("server").await?;
    Ok((machine, seen))
}

#[tokio::test]
async fn a_program_that_a_signal_suspends_is_found_and_started_again() -> TestResult {
    let (machine, seen) = running(
        "resources:\n  server:\n    type: process\n    config:\n      command: [sleep, \"1000\"]\n      \
         health: {command: [\"true\"], every: 10ms, failures: 2}\n",
    )
    .await?;
    let started = seen.first("server", EventKind::Started).await?;

    let pid = started.pid.and_then(Pid::from_raw).ok_or("no process")?;
    kill_process(pid, Signal::STOP)?;
    let ended = seen.first("server", EventKind::Ended).await?;
    let restarted = seen.first("server", EventKind::Restarted).await?;

    let why = "2 checks in a row failed: a signal has suspended it";
    assert_eq!(ended.why, format!("process \"server\" was unhealthy and was ended: {why}"));
    assert_eq!((ended.pid, &restarted.why), (started.pid, &ended.why));
    assert_ne!(restarted.pid, started.pid);
    machine.stop().await
}

#[tokio::test]
async fn a_program_that_was_adopted_is_asked_for_its_health_too() -> TestResult {
    let accepting = TcpListener::bind("127.0.0.1:0")?;
    let port = accepting.local_addr()?.port();
    let (machine, seen) = running(&format!(
        "resources:\n  server:\n    type: process\n    config:\n      command: [sleep, \"1000\"]\n      \
         health: {{port: {port}, every: 10ms, failures: 2}}\n"
    ))
    .await?;
    machine.restart().await?;
    let adopted = seen.first("server", EventKind::Adopted).await?;

    let pid = adopted.pid.and_then(Pid::from_raw).ok_or("no process")?;
    kill_process(pid, Signal::STOP)?;
    let ended = seen.first("server", EventKind::Ended).await?;
    let restarted = seen.first("server", EventKind::Restarted).await?;

    let why = "2 checks in a row failed: a signal has suspended it";
    assert_eq!(ended.why, format!("process \"server\" was unhealthy and was ended: {why}"));
    assert_eq!(ended.pid, adopted.pid);
    assert_ne!(restarted.pid, adopted.pid);
    machine.stop().await
}

#[tokio::test]
async fn a_program_that_is_left_alone_is_not_asked_whether_it_is_well() -> TestResult {
    let site = "resources:\n  server:\n    type: process\n    config:\n      command: [sleep, \
                \"1000\"]\n      health: {command: [\"false\"], every: 10ms, failures: 1000000}\n";
    let (machine, _) = running(site).await?;
    machine.degraded_by("server", "unhealthy").await?;
    let mut events = machine.resources().await?.events();

    machine.swap(&format!("{site}    meta: {{noop: true}}\n")).await?;

    machine.happened(&mut events, "server", &EngineEvent::Health { degraded: None }).await;
    machine.stop().await
}

#[tokio::test]
async fn a_program_is_shown_as_unhealthy_until_it_is_well_again() -> TestResult {
    let (machine, seen) = running(
        "resources:\n  server:\n    type: process\n    config:\n      command: [sleep, \"1000\"]\n      \
         health: {command: [sh, -c, 'test ! -e @/ill'], every: 50ms, failures: 1000000}\n",
    )
    .await?;
    let mut events = machine.resources().await?.events();

    machine.write("ill", "")?;
    let reason = machine.degraded_by("server", "unhealthy").await?;
    let report = machine.resources().await?.report().await;
    fs::remove_file(machine.path("ill"))?;
    machine.happened(&mut events, "server", &EngineEvent::Health { degraded: None }).await;

    assert!(reason.ends_with("its health command failed: it exited with code 1"), "{reason}");
    let Some(Detail::Value(own)) = &report.workers["server"].report else {
        return Err(format!("nothing of its own: {report}").into());
    };
    let unhealthy = own["program"]["unhealthy"].as_str().unwrap_or_default();
    assert!(unhealthy.contains(" of 1000000 checks failed: "), "{own}");
    let has_ended = seen.events().iter().any(|event| event.event == EventKind::Ended);
    assert!(!has_ended, "{:?}", seen.events());
    machine.stop().await
}
