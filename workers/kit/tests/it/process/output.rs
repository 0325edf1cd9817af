//! The logged output of a process, and its environment.

use crankcase_workers::{Condition, Process, ProcessConfig};
use tokio::sync::mpsc::unbounded_channel;

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
async fn lines_are_written_to_a_file_instead_of_the_log() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("output/it.log");
    let config = shell("echo one; printf two").log_file(path.clone());

    let logged = run(config, "output").await?;

    assert!(logged.is_empty(), "{logged:?}");
    assert_eq!(std::fs::read_to_string(path)?, "one\ntwo\n");
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
    let config = shell("seq 200000").lines_per_second(0);

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
async fn what_is_inherited_is_named_one_by_one() -> TestResult {
    let own = std::env::var("CARGO_MANIFEST_DIR")?;
    let mut config = ProcessConfig::new("it", vec!["env".into()]).inherit(vec![
        "CARGO_MANIFEST_DIR".into(),
        "CARGO_PKG_NAME".into(),
        "NOWHERE".into(),
    ]);
    config.environment.insert("CARGO_PKG_NAME".into(), "given".into());

    let lines = run(config, "output").await?;

    let mut lines: Vec<_> = lines.iter().map(|line| line.get("line")).collect();
    lines.retain(|line| line.starts_with("CARGO") || line.starts_with("NOWHERE"));
    lines.sort_unstable();
    assert_eq!(lines, [&*format!("CARGO_MANIFEST_DIR={own}"), "CARGO_PKG_NAME=given"]);
    Ok(())
}

#[tokio::test]
async fn how_much_of_a_line_is_kept_can_be_set() -> TestResult {
    let config = shell("head -c 100 /dev/zero | tr '\\0' x").max_line(64);

    let lines = run(config, "output").await?;

    assert_eq!((lines[0].get("line"), lines[0].get("cut")), (&*"x".repeat(64), "36"));
    Ok(())
}

#[tokio::test]
async fn a_flood_is_told_while_it_lasts_and_all_of_it_is_counted() -> TestResult {
    let (fifo, mut events) = (Fifo::new()?, Events::catch());
    let mut config = shell(&format!("seq 5000; read go <{}", fifo.path().display()));
    config.lines_per_second = 10;
    let (tx, mut told) = unbounded_channel();
    let process = Process::spawn(config, None).await?;
    let (handle, seen) = (process.handle(), process.handle());
    let tell = move |reason: Option<&str>| {
        // Whoever is told may look at the process.
        assert!(seen.status().dropped_lines > 0);
        drop(tx.send(reason.map(str::to_owned)));
    };
    let worker = Running::start(process.telling(Condition::told_to(tell)));

    let reason = guarded(told.recv()).await.flatten().ok_or("in good health")?;

    let text = "it writes more than 10 lines per second to stdout; what is above is dropped";
    assert_eq!(reason, text);
    while guarded(told.recv()).await.ok_or("it has ended")?.is_some() {}
    let status = handle.status();
    assert_eq!(status.lines, 5000);
    assert!(status.dropped_lines > 0);
    guarded(worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
    let dropped = events.caught("output dropped");
    let dropped: Result<Vec<u64>, _> =
        dropped.iter().map(|event| event.get("lines").parse()).collect();
    let dropped: u64 = dropped?.iter().sum();
    assert_eq!(dropped, status.dropped_lines);
    Ok(())
}

#[tokio::test]
async fn a_process_outside_of_the_group_that_holds_the_output_does_not_hold_up_the_end()
-> TestResult {
    let (fifo, mut events) = (Fifo::new()?, Events::catch());
    let script = "setsid sh -c 'echo $$; echo up >fifo; exec sleep 1000' & read up <fifo";
    let config = shell(script).folder(fifo.path().parent().ok_or("no folder")?.to_owned());
    let process = Process::spawn(config, None).await?;
    let mut worker = Running::start(process);
    let escaped: i32 = guarded(events.next("output")).await.get("line").parse()?;

    assert!(guarded(worker.end()).await.is_err());

    guarded(events.next("output held open by a process outside of the group")).await;
    let escaped = rustix::process::Pid::from_raw(escaped).ok_or("no pid")?;
    Ok(rustix::process::kill_process(escaped, rustix::process::Signal::KILL)?)
}
