//! Programs that are ready some time after they were started.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use crankcase_engine::Detail;
use crankcase_kinds::builtin;
use crankcase_resources::Event;
use crankcase_resources::report::EventKind;
use serde_json::Value;

use crate::process::example;
use crate::site::machine::{Machine, TestResult, quick};
use crate::site::seen::Seen;

/// A program that goes on when a line is written to a pipe, and a copy of what it writes then.
fn site(ready: &str, then: &str) -> String {
    format!(
        "resources:\n  server: {{type: process, config: {{command: [sh, -c, 'read line < @/pipe; \
         echo proof > @/proof; {then}'], ready: {ready}, ready_timeout: 5m}}}}\n  copy: {{type: \
         exec, dependencies: [server], config: {{command: [cp, '@/proof', '@/copy'], creates: \
         '@/copy'}}}}\n"
    )
}

/// A program that is not ready for longer than a test may take, and a file that notifies it.
fn slow(ready: &str, on_change: &str) -> String {
    format!(
        "resources:\n  conf: {{type: file, config: {{path: '@/conf', content: right}}}}\n  \
         server:\n    type: process\n    dependencies: {{conf: {{resource: conf, on_change: \
         {on_change}}}}}\n    config: {{command: [sh, -c, 'echo started >> @/log; echo up; exec \
         sleep 1000'], ready: {ready}, ready_timeout: 24h, reload: {{signal: HUP}}}}\n"
    )
}

/// Begins to keep a site whose events are seen, in a folder with a pipe.
async fn observed(site: &str) -> TestResult<(Machine, Arc<Seen>)> {
    let (seen, observer) = Seen::pair();
    let folder = tempfile::tempdir()?;
    let machine = Machine::observed(folder, "{}", (quick(), builtin()), observer).await?;
    assert!(Command::new("mkfifo").arg(machine.path("pipe")).status()?.success());
    machine.swap(site).await?;
    Ok((machine, seen))
}

/// Returns what the report says of the program.
async fn program(machine: &Machine) -> TestResult<Value> {
    let report = machine.resources().await?.report().await;
    match &report.workers["server"].report {
        Some(Detail::Value(own)) => Ok(own["program"].clone()),
        _ => Err(format!("nothing of its own: {report}").into()),
    }
}

#[tokio::test]
async fn what_depends_on_a_program_waits_until_the_program_is_ready() -> TestResult {
    let alone = example("03_alone")?.display().to_string();
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, high, middle, low], 20_081));
    let port = format!("{{port: '{address}'}}");
    let (serve, notify) = (format!("exec {alone} serve {address}"), format!("exec {alone} notify"));
    for (ready, then, waits_for) in [
        (
            "{line: now up}",
            "echo now up; exec sleep 1000",
            Some("it has written no line with \"now up\""),
        ),
        ("{notify: true}", notify.as_str(), Some("it has not sent READY=1")),
        ("{file: '@/up'}", "echo > @/up; exec sleep 1000", None),
        (port.as_str(), serve.as_str(), None),
    ] {
        let (machine, seen) = observed(&site(ready, then)).await?;
        seen.first("server", EventKind::Started).await?;

        let waiting = program(&machine).await?;
        let pipe = machine.path("pipe");
        tokio::task::spawn_blocking(move || fs::write(pipe, "go\n")).await??;
        machine.until("copy", |text| text == "proof\n").await?;

        assert_eq!(waiting["is_ready"], false, "{ready}: {waiting}");
        if waits_for.is_some() {
            assert_eq!(waiting["waits_for"].as_str(), waits_for, "{ready}: {waiting}");
        }
        let ready_now = program(&machine).await?;
        assert_eq!((&ready_now["is_ready"], ready_now.get("waits_for")), (&true.into(), None));
        let is_failure = |event: &Event| event.event == EventKind::Failed;
        assert!(!seen.events().iter().any(is_failure), "{ready}: {:?}", seen.events());
        machine.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_program_that_was_left_before_it_was_ready_is_waited_for_again() -> TestResult {
    let site = site("{file: '@/up'}", "echo > @/up; exec sleep 1000");
    let (machine, seen) = observed(&site).await?;
    seen.first("server", EventKind::Started).await?;

    machine.restart().await?;
    seen.first("server", EventKind::Adopted).await?;
    let waiting = program(&machine).await?;
    let pipe = machine.path("pipe");
    tokio::task::spawn_blocking(move || fs::write(pipe, "go\n")).await??;
    machine.until("copy", |text| text == "proof\n").await?;

    assert_eq!(waiting["adopted"], true, "{waiting}");
    assert_eq!(waiting["is_ready"], false, "{waiting}");
    machine.stop().await
}

#[tokio::test]
async fn a_program_that_is_not_ready_in_time_has_failed_and_is_started_again() -> TestResult {
    let site = site("{line: up}", "exec sleep 1000").replace("5m", "1ms");
    let (machine, seen) = observed(&site).await?;

    let started = seen.first("server", EventKind::Started).await?;
    let ended = seen.first("server", EventKind::Ended).await?;
    let failed = seen.first("server", EventKind::Failed).await?;
    seen.first("server", EventKind::Restarted).await?;

    let late = "process \"server\" was not ready within 1ms: it has written no line with \"up\"";
    assert_eq!((ended.pid, &*ended.why), (started.pid, late));
    assert_eq!(failed.error.as_deref(), Some(late));
    assert_eq!(machine.read("copy"), None);
    machine.stop().await
}

#[tokio::test]
async fn a_mended_config_is_taken_over_while_the_program_is_waited_for() -> TestResult {
    let (machine, seen) = observed(&slow("{line: never}", "check")).await?;
    let started = seen.first("server", EventKind::Started).await?;

    machine.swap(&slow("{line: up}", "check")).await?;
    let restarted = seen.first("server", EventKind::Restarted).await?;
    machine.running("server").await?;

    assert_ne!(restarted.pid, started.pid);
    machine.stop().await
}

#[tokio::test]
async fn a_program_that_is_waited_for_starts_anew_once_for_a_notification_also_to_reload()
-> TestResult {
    for on_change in ["notify", "reload"] {
        let (machine, seen) = observed(&slow("{file: '@/up'}", on_change)).await?;
        let started = seen.first("server", EventKind::Started).await?;

        machine.write("conf", "wrong")?;
        let restarted = seen.first("server", EventKind::Restarted).await?;
        machine.until("log", |text| text == "started\nstarted\n").await?;
        // It has the wait ended once more, and does not notify the program.
        machine.board().await?.renew(["server"], || {});
        machine.write("up", "")?;
        machine.running("server").await?;

        assert_eq!(restarted.notified_by, ["conf"], "{on_change}");
        assert_ne!(restarted.pid, started.pid, "{on_change}");
        let log = machine.read("log");
        assert_eq!(log.as_deref(), Some("started\nstarted\n"), "{on_change}");
        let is_failure = |event: &Event| event.event == EventKind::Failed;
        assert!(!seen.events().iter().any(is_failure), "{on_change}: {:?}", seen.events());
        machine.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_program_that_is_told_to_stop_before_it_is_ready_ends_in_good_order() -> TestResult {
    let (machine, _) = observed(
        "resources:\n  server: {type: process, config: {command: [sh, -c, 'trap \"echo bye > \
         @/bye; exit\" TERM; echo $$ > @/pid; sleep 1000 & wait'], ready: {line: up}}}\n",
    )
    .await?;
    machine.until("pid", |text| text.ends_with('\n')).await?;

    machine.swap("{}").await?;

    machine.until("bye", |text| text == "bye\n").await?;
    machine.stop().await
}
