//! Processes that are asked whether they are well.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use crankcase_workers::{HealthCheck, HealthProbe, Ledger, Process};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::shell;
use crate::running::{Running, TestResult, guarded};

/// Returns a check by a script, every millisecond.
fn by(script: &str, failures: u32) -> HealthCheck {
    let command = vec!["sh".into(), "-c".into(), script.into()];
    let check = HealthCheck::new(HealthProbe::Command(command)).failures(failures);
    check.every(Duration::from_millis(1)).timeout(Duration::from_secs(300))
}

/// Returns the error with which a process ends by itself.
async fn error_of(process: Process) -> Result<String, Box<dyn std::error::Error>> {
    match guarded(Running::start(process).end()).await {
        Ok(()) => Err("it has ended well".into()),
        Err(exit) => Ok(exit.to_string()),
    }
}

#[tokio::test]
async fn a_process_whose_checks_fail_in_a_row_is_ended_with_the_reason() -> TestResult {
    let check = by("echo too slow >&2; exit 3", 2);
    let process = Process::spawn(shell("exec sleep 1000").health(check), None).await?;
    let handle = process.handle();

    let error = error_of(process).await?;

    let why = "its health command failed: it exited with code 3: too slow";
    let ended = "was unhealthy and was ended: 2 checks in a row failed";
    assert_eq!(error, format!(r#"process "it" {ended}: {why}"#));
    let unhealthy = handle.status().unhealthy;
    assert_eq!(unhealthy, Some(format!("2 of 2 checks failed: {why}")));
    Ok(())
}

#[tokio::test]
async fn a_check_that_does_not_end_is_ended_and_has_failed() -> TestResult {
    let check = by("exec sleep 1000", 1).timeout(Duration::from_millis(10));
    let process = Process::spawn(shell("exec sleep 1000").health(check), None).await?;

    let error = error_of(process).await?;

    let why = "its health command failed: it took longer than 10ms and was ended";
    let ended = "was unhealthy and was ended: its check failed";
    assert_eq!(error, format!(r#"process "it" {ended}: {why}"#));
    Ok(())
}

#[tokio::test]
async fn a_process_whose_check_cannot_be_made_runs_on() -> TestResult {
    let probe = HealthProbe::Command(vec!["/nowhere/check".into()]);
    let check = HealthCheck::new(probe).failures(1).every(Duration::from_millis(1));
    let process = Process::spawn(shell("exec sleep 1000").health(check), None).await?;
    let mut unhealthy = process.handle().unhealthy();
    let worker = Running::start(process);

    let reason = guarded(unhealthy.wait_for(Option::is_some)).await?.clone().unwrap_or_default();

    assert!(reason.starts_with("it cannot be asked: "), "{reason}");
    guarded(worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
    Ok(())
}

#[tokio::test]
async fn all_checks_of_a_process_share_one_record_which_goes_with_the_process() -> TestResult {
    let (folder, seen) = (TempDir::new()?, TempDir::new()?);
    let (ledger, log) = (Ledger::new(folder.path()), seen.path().join("log"));
    // A record that was written once more would be another file.
    let record = format!("$(stat -c %i {}/$CRANKCASE_PROCESS.process)", folder.path().display());
    let script = format!("echo $CRANKCASE_PROCESS {record} >> {}; exit 1", log.display());
    let config = shell("exec sleep 1000").health(by(&script, 3));
    let process = guarded(Process::spawn(config, Some(&ledger))).await?;

    error_of(process).await?;

    let log = fs::read_to_string(log)?;
    let checks: Vec<_> = log.lines().collect();
    assert_eq!(checks.len(), 3, "{log}");
    assert!(checks.iter().all(|check| *check == checks[0]), "{log}");
    assert_eq!(checks[0].split(' ').count(), 2, "{log}");
    assert_eq!(fs::read_dir(folder.path())?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn a_process_that_is_well_again_runs_on() -> TestResult {
    let folder = TempDir::new()?;
    let ill = folder.path().join("ill");
    fs::write(&ill, "")?;
    let check = by(&format!("test ! -e {}", ill.display()), u32::MAX);
    let process = Process::spawn(shell("exec sleep 1000").health(check), None).await?;
    let handle = process.handle();
    let mut unhealthy = handle.unhealthy();
    let worker = Running::start(process);

    let reason = guarded(unhealthy.wait_for(Option::is_some)).await?.clone();
    fs::remove_file(ill)?;
    guarded(unhealthy.wait_for(Option::is_none)).await?;

    assert!(reason.is_some_and(|reason| reason.contains("it exited with code 1")));
    assert_eq!(handle.status().unhealthy, None);
    guarded(worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
    Ok(())
}

#[tokio::test]
async fn a_process_whose_checks_are_paused_is_not_asked_until_they_are_resumed() -> TestResult {
    let process = Process::spawn(shell("exec sleep 1000").health(by("exit 1", u32::MAX)), None);
    let process = process.await?;
    let handle = process.handle();
    let mut unhealthy = handle.unhealthy();
    let worker = Running::start(process);
    guarded(unhealthy.wait_for(Option::is_some)).await?;

    handle.pause_checks();
    guarded(unhealthy.wait_for(Option::is_none)).await?;
    handle.resume_checks();
    let reason = guarded(unhealthy.wait_for(Option::is_some)).await?.clone().unwrap_or_default();

    assert!(reason.starts_with(&format!("1 of {} checks failed: ", u32::MAX)), "{reason}");
    guarded(worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
    Ok(())
}

#[tokio::test]
async fn a_process_that_does_not_answer_is_ended() -> TestResult {
    // The kernel accepts connections to it, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let (address, path) = (silent.local_addr()?, "/".to_owned());
    let check = HealthCheck::new(HealthProbe::Http { address, path }).failures(2);
    let check = check.every(Duration::from_millis(1)).timeout(Duration::from_millis(20));
    let process = Process::spawn(shell("exec sleep 1000").health(check), None).await?;

    let error = error_of(process).await?;

    let why = format!("GET http://{address}/: no answer within 20ms");
    let ended = "was unhealthy and was ended: 2 checks in a row failed";
    assert_eq!(error, format!(r#"process "it" {ended}: {why}"#));
    Ok(())
}

#[tokio::test]
async fn a_secret_in_what_a_process_is_asked_is_hidden() -> TestResult {
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let (address, path) = (silent.local_addr()?, "/?pin=hunter2hunter2".to_owned());
    let check = HealthCheck::new(HealthProbe::Http { address, path }).failures(1);
    let check = check.every(Duration::from_millis(1)).timeout(Duration::from_millis(20));
    let config = shell("exec sleep 1000").health(check);
    config.secrets.add("hunter2hunter2");
    let process = Process::spawn(config, None).await?;
    let handle = process.handle();

    let error = error_of(process).await?;

    let asked = format!("GET http://{address}/?pin=(sensitive): no answer within 20ms");
    for text in [error, handle.status().unhealthy.unwrap_or_default()] {
        assert!(text.ends_with(&asked), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_process_that_a_signal_suspends_is_ended_though_its_port_accepts() -> TestResult {
    let accepting = TcpListener::bind("127.0.0.1:0")?;
    let check = HealthCheck::new(HealthProbe::Port(accepting.local_addr()?)).failures(2);
    let check = check.every(Duration::from_millis(10)).timeout(Duration::from_secs(300));
    let process = Process::spawn(shell("exec sleep 1000").health(check), None).await?;

    kill_process(Pid::from_raw(process.pid()).ok_or("no pid")?, Signal::STOP)?;
    let error = error_of(process).await?;

    let ended = "was unhealthy and was ended: 2 checks in a row failed";
    assert_eq!(error, format!(r#"process "it" {ended}: a signal has suspended it"#));
    Ok(())
}

#[test]
fn a_check_that_cannot_be_made_is_named() {
    let port = |port: u16| HealthCheck::new(HealthProbe::Port(([127, 0, 0, 1], port).into()));
    for (check, expected) in [
        (port(0), "health is 127.0.0.1:0; expected an address with a port from 1 to 65535"),
        (port(80).failures(0), "health is failures 0; expected at least 1"),
        (port(80).every(Duration::ZERO), "health is every 0ns; expected between 1 ms and 24 h"),
        (
            HealthCheck::new(HealthProbe::Command(Vec::new())),
            "health is a command without words; expected a program first",
        ),
    ] {
        let error = shell("exit 0").health(check).validate().unwrap_err();

        assert_eq!(error.to_string(), expected);
    }
}
