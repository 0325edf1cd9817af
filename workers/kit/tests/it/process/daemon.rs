//! How the daemon of a program is found by its pid file, and supervised.

use std::fs;
use std::future::ready;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crankcase_engine::{Stop, Worker};
use crankcase_workers::{Fate, Ledger, Leftovers, Process, ProcessConfig, sort_leftovers};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::shell;
use crate::events::Events;
use crate::fifo::{Fifo, holding};
use crate::running::{Running, TestResult, guarded};

/// Returns a program that runs a shell script in `folder`, and leaves a daemon whose pid is in the
/// file `pid` there.
fn leaving(script: &str, folder: &Path) -> ProcessConfig {
    shell(script).folder(folder.to_owned()).pid_file(folder.join("pid"))
}

/// Spawns a program, with a record in the folder `records` of its own.
async fn spawn(config: ProcessConfig) -> Result<Process, Box<dyn std::error::Error>> {
    let ledger = Ledger::new(&config.folder.join("records"));
    Ok(guarded(Process::spawn(config, Some(&ledger))).await?)
}

/// Returns the error of a program that cannot be spawned.
async fn refusal(config: ProcessConfig) -> Result<String, Box<dyn std::error::Error>> {
    let refused = spawn(config).await.err().ok_or("it has left a daemon")?;
    Ok(refused.to_string())
}

/// Returns the pid that is in the file of the program in `folder`.
fn pid(folder: &Path) -> Result<i32, Box<dyn std::error::Error>> {
    Ok(fs::read_to_string(folder.join("pid"))?.trim().parse()?)
}

/// Returns how many files the records in `folder` have.
fn records(folder: &Path) -> std::io::Result<usize> {
    Ok(fs::read_dir(folder.join("records"))?.count())
}

fn send(pid: i32, signal: Signal) -> TestResult {
    Ok(kill_process(Pid::from_raw(pid).ok_or("no pid")?, signal)?)
}

#[tokio::test]
async fn a_daemon_outside_of_the_group_is_asked_to_end_when_its_worker_stops() -> TestResult {
    let (folder, mut events) = (TempDir::new()?, Events::catch());
    let script = "setsid -f sh -c 'trap \"echo asked; exit\" TERM; echo $$ >pid; echo up; \
                  sleep 1000 & wait'";
    let process = spawn(leaving(script, folder.path())).await?;
    guarded(events.line("up")).await;
    let status = process.handle().status();

    let outcome = guarded(Running::start(process).clean_kill()).await;

    outcome.map_err(|exit| exit.to_string())?;
    guarded(events.line("asked")).await;
    assert_eq!((status.pid, status.is_adopted), (pid(folder.path())?, false));
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_daemon_in_the_group_of_its_command_is_ended_with_the_group() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    let writers = fifo.writers();
    let script = holding(&fifo.path(), "echo up >&3; sleep 1000 & sleep 1000 & echo $! >pid");
    let process = spawn(leaving(&script, folder.path())).await?;
    assert_eq!(process.pid(), pid(folder.path())?);

    let outcome = guarded(Running::start(process).clean_kill()).await;

    outcome.map_err(|exit| exit.to_string())?;
    writers.are_gone().await?;
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_ends_has_failed_and_how_is_unknown() -> TestResult {
    let folder = TempDir::new()?;
    let script = "setsid -f sh -c 'echo $$ >pid; exec sleep 1000'";
    let mut worker = Running::start(spawn(leaving(script, folder.path())).await?);

    send(pid(folder.path())?, Signal::KILL)?;
    let outcome = guarded(worker.end()).await;

    let exit = outcome.expect_err("it has ended by itself");
    assert_eq!(exit.to_string(), r#"process "it" ended; how is unknown, as it is a daemon"#);
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_was_left_is_adopted() -> TestResult {
    let folder = TempDir::new()?;
    let script = "setsid -f sh -c 'echo $$ >pid; sleep 1000 & wait'";
    let config = leaving(script, folder.path()).survives(true).digest("as it was".to_owned());
    let process = spawn(config.clone()).await?;
    let daemon = process.pid();
    let (_stopper, stop) = Stop::pair();
    let left = guarded(process.run_or_leave(stop, ready(()))).await;
    left.map_err(|exit| exit.to_string())?;
    let sorted = guarded(sort_leftovers(&folder.path().join("records"))).await?;
    let Leftovers { survivors, .. } = sorted;
    let survivor = survivors.first().ok_or("there is no survivor")?;

    let (stopper, stop) = Stop::pair();
    let adopted = guarded(Process::adopt_for(&stop, config, None, survivor)).await?;

    let adopted = adopted.ok_or("it is gone")?;
    assert_eq!((survivor.pid(), adopted.pid()), (daemon, pid(folder.path())?));
    stopper.stop();
    guarded(adopted.run(stop)).await.map_err(|exit| exit.to_string())?;
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_pid_file_that_names_a_stranger_is_refused_with_its_pid_and_name() -> TestResult {
    let folder = TempDir::new()?;
    let mut stranger = Command::new("sleep").arg("1000").process_group(0).spawn()?;
    let script = format!("echo {} >pid", stranger.id());

    let refused = refusal(leaving(&script, folder.path())).await?;

    let path = folder.path().join("pid");
    let named = format!(r#"{path:?} names "sleep" (pid {})"#, stranger.id());
    let text = format!(r#"process "it" has left no daemon: {named}, which it has not started"#);
    assert_eq!(refused, text);
    assert_eq!(records(folder.path())?, 0);
    // A signal that came before would have ended it.
    send(i32::try_from(stranger.id())?, Signal::TERM)?;
    assert_eq!(stranger.wait()?.signal(), Some(Signal::TERM.as_raw()));
    Ok(())
}

#[tokio::test]
async fn a_daemon_without_a_pid_file_is_ended_after_the_time_to_be_ready() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    let writers = fifo.writers();
    let daemon = "setsid -f sh -c 'echo up >&3; echo up >up; exec sleep 1000'; \
                  until test -s up; do :; done";
    let config = leaving(&holding(&fifo.path(), daemon), folder.path());

    let refused = refusal(config.ready_timeout(Duration::from_secs(2))).await?;

    let text = r#"process "it" has left no daemon: after 2s, "#;
    assert!(refused.starts_with(text), "{refused}");
    writers.are_gone().await?;
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_pid_file_from_before_the_start_names_no_daemon() -> TestResult {
    let folder = TempDir::new()?;
    fs::write(folder.path().join("pid"), std::process::id().to_string())?;

    let config = leaving("exit 0", folder.path()).ready_timeout(Duration::from_secs(2));
    let refused = refusal(config).await?;

    let path = folder.path().join("pid");
    let missing = format!("it has not written {path:?} since it was started");
    assert_eq!(refused, format!(r#"process "it" has left no daemon: after 2s, {missing}"#));
    Ok(())
}

#[tokio::test]
async fn a_command_that_fails_leaves_no_daemon() -> TestResult {
    let folder = TempDir::new()?;

    let refused = refusal(leaving("echo no luck >&2; exit 3", folder.path())).await?;

    let text = r#"process "it" ended with exit status: 3 before it was ready: no luck"#;
    assert_eq!(refused, text);
    Ok(())
}

#[tokio::test]
async fn a_daemon_of_a_command_that_fails_is_ended() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    let writers = fifo.writers();
    let daemon = "setsid -f sh -c 'echo up >&3; echo up >up; exec sleep 1000'; \
                  until test -s up; do :; done; exit 3";

    let refused = refusal(leaving(&holding(&fifo.path(), daemon), folder.path())).await?;

    let text = r#"process "it" ended with exit status: 3 before it was ready"#;
    assert_eq!(refused, text);
    writers.are_gone().await?;
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_was_not_found_before_its_agent_died_is_ended_by_the_next_one() -> TestResult
{
    for survives in [false, true] {
        let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
        let mut writers = fifo.writers();
        let daemon = "setsid -f sh -c 'until grep -q start_time records/*.process; do :; done; \
                      echo up >&3; exec sleep 1000'";
        let config = leaving(&holding(&fifo.path(), daemon), folder.path()).survives(survives);
        let ledger = Ledger::new(&folder.path().join("records"));
        let mut spawning = Box::pin(Process::spawn(config, Some(&ledger)));
        tokio::select! {
            biased;
            spawned = &mut spawning => return Err(format!("{spawned:?}").into()),
            come = writers.come() => come?,
        }

        // An agent that is killed drops nothing.
        std::mem::forget(spawning);
        let sorted = guarded(sort_leftovers(&folder.path().join("records"))).await?;

        writers.are_gone().await?;
        let fates: Vec<_> = sorted.ended.iter().map(|leftover| leftover.fate).collect();
        assert_eq!((fates, sorted.survivors.len()), (vec![Fate::Ended], 0));
    }
    Ok(())
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_waits_for_no_daemon() -> TestResult {
    let folder = TempDir::new()?;
    let (stopper, stop) = Stop::pair();
    stopper.stop();
    let ledger = Ledger::new(&folder.path().join("records"));
    let config = leaving("sleep 1000", folder.path());

    let refused = guarded(Process::spawn_for(&stop, config, Some(&ledger))).await;

    let error = refused.err().ok_or("it has left a daemon")?;
    let text = r#"process "it" has left no daemon: it was told to stop"#;
    assert_eq!(error.to_string(), text);
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_command_whose_daemon_is_waited_for_is_asked_to_end_at_a_stop() -> TestResult {
    let (folder, mut events) = (TempDir::new()?, Events::catch());
    let ledger = Ledger::new(&folder.path().join("records"));
    let (stopper, stop) = Stop::pair();
    let script = "trap 'echo asked; exit' TERM; echo up; sleep 1000 & wait";
    let spawning = Process::spawn_for(&stop, leaving(script, folder.path()), Some(&ledger));

    let (refused, ()) = guarded(async {
        tokio::join!(spawning, async {
            events.line("up").await;
            stopper.stop();
        })
    })
    .await;

    assert!(refused.is_err());
    guarded(events.line("asked")).await;
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_program_without_a_ledger_may_leave_no_daemon() -> TestResult {
    let folder = TempDir::new()?;
    let config = leaving("exit 0", folder.path());

    let refused = guarded(Process::spawn(config, None)).await;

    let error = refused.err().ok_or("it has left a daemon")?;
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(cause.ends_with("expected none without a ledger"), "{cause}");
    Ok(())
}
