use crankcase_workers::{Process, ProcessConfig};

use super::shell;
use crate::events::{Events, Fields};
use crate::fifo::Fifo;
use crate::running::{Running, TestResult, guarded};

/// Runs a process to its own end and returns the events with this message.
async fn run(
    config: ProcessConfig,
    message: &str,
) -> Result<Vec<Fields>, Box<dyn std::error::Error>> {
    let mut events = Events::catch();
    let process = Process::spawn(config, None).await?;
    assert!(guarded(Running::start(process).end()).await.is_err());
    Ok(events.caught(message))
}

#[tokio::test]
async fn both_streams_are_logged_line_by_line() -> TestResult {
    let lines = run(shell("echo one; echo two >&2; printf three"), "output").await?;

    let mut lines: Vec<_> =
        lines.iter().map(|line| (line.get("stream"), line.get("line"))).collect();
    lines.sort_unstable();
    assert_eq!(lines, [("stderr", "two"), ("stdout", "one"), ("stdout", "three")]);
    Ok(())
}

#[tokio::test]
async fn a_very_long_line_is_cut_and_says_by_how_much() -> TestResult {
    let script = "head -c 20000 /dev/zero | tr '\\0' x; echo; echo next";

    let lines = run(shell(script), "output").await?;

    assert_eq!(lines[0].get("line"), "x".repeat(8192));
    assert_eq!(lines[0].get("cut"), (20000 - 8192).to_string());
    assert_eq!((lines[1].get("line"), lines[1].get("cut")), ("next", ""));
    Ok(())
}

#[tokio::test]
async fn invalid_utf8_is_replaced() -> TestResult {
    let lines = run(shell(r"printf 'a\377b\n'"), "output").await?;

    assert_eq!(lines[0].get("line"), "a\u{fffd}b");
    Ok(())
}

#[tokio::test]
async fn a_flood_of_lines_is_dropped_and_counted_and_never_blocks_the_process() -> TestResult {
    let mut config = shell("seq 200000");
    config.lines_per_second = 0;

    let dropped = run(config, "output dropped").await?;

    let lines: Vec<_> = dropped.iter().map(|event| event.get("lines")).collect();
    assert_eq!(lines, ["200000"]);
    Ok(())
}

#[tokio::test]
async fn the_environment_is_clean_but_for_what_is_given() -> TestResult {
    let mut config = ProcessConfig::new("it", vec!["env".into()]);
    config.environment.insert("GIVEN".into(), "yes".into());
    config.environment.insert("HOME".into(), "/srv".into());

    let lines = run(config, "output").await?;

    let mut names: Vec<_> =
        lines.iter().filter_map(|line| line.get("line").split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["GIVEN", "HOME", "LANG", "PATH"]);
    assert!(lines.iter().any(|line| line.get("line") == "HOME=/srv"));
    Ok(())
}

#[tokio::test]
async fn a_process_outside_of_the_group_that_holds_the_output_does_not_hold_up_the_end()
-> TestResult {
    let (fifo, mut events) = (Fifo::new()?, Events::catch());
    let script = "setsid sh -c 'echo $$; echo up >fifo; exec sleep 1000' & read up <fifo";
    let mut config = shell(script);
    config.folder = fifo.path().parent().ok_or("no folder")?.to_owned();
    let process = Process::spawn(config, None).await?;
    let mut worker = Running::start(process);
    let escaped: i32 = guarded(events.next("output")).await.get("line").parse()?;

    assert!(guarded(worker.end()).await.is_err());

    guarded(events.next("output held open by a process outside of the group")).await;
    let escaped = rustix::process::Pid::from_raw(escaped).ok_or("no pid")?;
    Ok(rustix::process::kill_process(escaped, rustix::process::Signal::KILL)?)
}
