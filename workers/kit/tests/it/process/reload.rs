//! Processes that are told to read their configuration anew.

use std::fs;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::{Process, ProcessConfig, Reload, StopSignal};
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;

use super::shell;
use crate::events::Events;
use crate::running::{Running, TestResult, guarded};

/// Returns a reload of a process by a script.
fn by(script: &str, timeout: Duration) -> Reload {
    Reload::Command { command: vec!["sh".into(), "-c".into(), script.into()], timeout }
}

/// Returns why a process that runs is not reloaded; it runs on.
async fn refusal(config: ProcessConfig) -> Result<String, Box<dyn std::error::Error>> {
    let process = Process::spawn(config, None).await?;
    let (_stopper, stop) = Stop::pair();
    let refused = guarded(process.handle().reload(&stop)).await;
    test_kill_process(Pid::from_raw(process.pid()).ok_or("no pid")?)?;
    end(process).await?;
    Ok(refused.err().ok_or("it is reloaded")?.to_string())
}

async fn end(process: Process) -> TestResult {
    Ok(guarded(Running::start(process).clean_kill()).await.map_err(|exit| exit.to_string())?)
}

#[tokio::test]
async fn a_signal_reloads_a_process() -> TestResult {
    let mut events = Events::catch();
    let script = "trap 'echo reloaded' HUP; echo up; while :; do sleep 1000 & wait; done";
    let config = shell(script).reload(Reload::Signal(StopSignal::Hangup));
    let process = Process::spawn(config, None).await?;
    let handle = process.handle();
    guarded(events.line("up")).await;
    let (_stopper, stop) = Stop::pair();

    handle.reload(&stop).await?;
    guarded(events.line("reloaded")).await;
    end(process).await?;
    let late = handle.reload(&stop).await.err().ok_or("it has ended")?;

    let gone = r#"cannot reload process "it": cannot send HUP: No such process (os error 3)"#;
    assert_eq!(late.to_string(), gone);
    Ok(())
}

#[tokio::test]
async fn a_command_reloads_a_process_in_its_environment() -> TestResult {
    let folder = TempDir::new()?;
    let script = "echo $WHO in $(pwd) >reloaded";
    let mut config = shell("exec sleep 1000").reload(by(script, Duration::from_secs(300)));
    config.environment.insert("WHO".into(), "ada".into());
    config.folder = folder.path().to_owned();
    let process = Process::spawn(config, None).await?;
    let (_stopper, stop) = Stop::pair();

    guarded(process.handle().reload(&stop)).await?;

    let reloaded = fs::read_to_string(folder.path().join("reloaded"))?;
    assert_eq!(reloaded, format!("ada in {}\n", folder.path().display()));
    end(process).await
}

#[tokio::test]
async fn a_process_that_cannot_be_reloaded_runs_on_and_the_reason_is_told() -> TestResult {
    let (long, short) = (Duration::from_secs(300), Duration::from_millis(10));
    for (reload, why) in [
        (None, "its config does not say how"),
        (
            Some(by("echo no luck >&2; exit 3", long)),
            "its reload command failed: it exited with code 3: no luck",
        ),
        (
            Some(by("exec sleep 1000", short)),
            "its reload command failed: it took longer than 10ms and was ended",
        ),
    ] {
        let mut config = shell("exec sleep 1000");
        config.reload = reload;

        let text = refusal(config).await?;

        assert_eq!(text, format!(r#"cannot reload process "it": {why}"#));
    }
    Ok(())
}

#[test]
fn a_command_that_cannot_reload_is_named() {
    let empty = Reload::Command { command: Vec::new(), timeout: Duration::from_secs(1) };
    let late = by("true", Duration::MAX);

    let texts = [empty, late].map(|reload| shell("exit 0").reload(reload).validate().unwrap_err());

    let [empty, late] = texts.map(|error| error.to_string());
    assert_eq!(empty, "reload is a command without words; expected a program first");
    assert!(late.ends_with("; expected one between 1 ms and 24 h"), "{late}");
}
