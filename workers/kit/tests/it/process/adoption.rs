//! How processes outlive an agent, and how the next one finds and adopts them.

use std::fs;
use std::future::ready;
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crankcase_engine::{Stop, Worker};
use crankcase_workers::{
    Fate, HealthCheck, HealthProbe, Ledger, Leftovers, Process, ProcessConfig, Readiness, Reload,
    StopSignal, Survivor, end_leftovers, find_survivors, sort_leftovers,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use super::shell;
use crate::events::Events;
use crate::fifo::{Fifo, holding};
use crate::running::{Running, TestResult, guarded};

/// Says a word when it is asked by SIGUSR1, then writes a line to the FIFO.
const ASKED: &str = "trap 'echo two; echo said >&3' USR1; echo one; \
                     while :; do sleep 1000 & wait; done";

fn surviving(script: &str) -> ProcessConfig {
    shell(script).survives(true).digest("as it was".to_owned())
}

/// Ends the worker of a process as an agent that leaves the process does.
async fn leave(process: Process) -> TestResult {
    let (_stopper, stop) = Stop::pair();
    Ok(guarded(process.run_or_leave(stop, ready(()))).await.map_err(|exit| exit.to_string())?)
}

fn send(pid: i32, signal: Signal) -> TestResult {
    Ok(kill_process(Pid::from_raw(pid).ok_or("no pid")?, signal)?)
}

/// Returns the one survivor in `folder`.
async fn survivor(folder: &Path) -> Result<Survivor, Box<dyn std::error::Error>> {
    let Leftovers { ended, survivors, .. } = guarded(sort_leftovers(folder)).await?;
    assert_eq!((ended.len(), survivors.len()), (0, 1), "{ended:?} {survivors:?}");
    Ok(survivors.into_iter().next().ok_or("nobody")?)
}

/// Returns how many files are in `folder`.
fn count(folder: &Path) -> std::io::Result<usize> {
    Ok(fs::read_dir(folder)?.count())
}

#[tokio::test]
async fn a_process_that_was_left_is_adopted_and_its_output_is_read_on() -> TestResult {
    let (folder, fifo, mut events) = (TempDir::new()?, Fifo::new()?, Events::catch());
    let config = surviving(&holding(&fifo.path(), ASKED));
    let mut writers = fifo.writers();
    let ledger = Ledger::new(folder.path());
    let process = guarded(Process::spawn(config.clone(), Some(&ledger))).await?;
    let pid = process.pid();
    guarded(events.line("one")).await;
    leave(process).await?;
    send(pid, Signal::USR1)?;
    writers.come().await?;
    let found = survivor(folder.path()).await?;

    let (stopper, stop) = Stop::pair();
    let adopted = guarded(Process::adopt_for(&stop, config, None, &found)).await?;

    let adopted = adopted.ok_or("it is gone")?;
    let line = guarded(events.next("output")).await;
    assert_eq!((line.get("line"), line.get("stream")), ("two", "stdout"));
    let status = adopted.handle().status();
    assert_eq!((status.pid, status.is_adopted, status.is_ready), (pid, true, true));
    assert_eq!((found.name(), found.pid(), found.digest()), ("it", pid, "as it was"));
    stopper.stop();
    guarded(adopted.run(stop)).await.map_err(|exit| exit.to_string())?;
    writers.are_gone().await?;
    assert_eq!(count(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn an_adopted_process_that_ends_has_failed_and_how_is_unknown() -> TestResult {
    let (folder, fifo, mut events) = (TempDir::new()?, Fifo::new()?, Events::catch());
    let script = "trap 'echo no luck >&2; exit 3' USR1; sleep 1000 & echo up >&3; echo one; wait";
    let config = surviving(&holding(&fifo.path(), script));
    let writers = fifo.writers();
    let ledger = Ledger::new(folder.path());
    let process = guarded(Process::spawn(config.clone(), Some(&ledger))).await?;
    let pid = process.pid();
    guarded(events.line("one")).await;
    leave(process).await?;
    let found = survivor(folder.path()).await?;
    let (_stopper, stop) = Stop::pair();
    let adopted = guarded(Process::adopt_for(&stop, config, None, &found)).await?;
    let mut running = Running::start(adopted.ok_or("it is gone")?);

    send(pid, Signal::USR1)?;
    let outcome = guarded(running.end()).await;

    let exit = outcome.expect_err("it has ended by itself");
    let text = "process \"it\" ended; how is unknown, as it was adopted, and left a process behind \
                that was killed: no luck";
    assert_eq!(exit.to_string(), text);
    writers.are_gone().await?;
    assert_eq!(count(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn an_adopted_process_that_a_signal_suspends_is_unhealthy_and_ended() -> TestResult {
    let (folder, mut events) = (TempDir::new()?, Events::catch());
    let accepting = TcpListener::bind("127.0.0.1:0")?;
    let check = HealthCheck::new(HealthProbe::Port(accepting.local_addr()?)).failures(1);
    let check = check.every(Duration::from_millis(10)).timeout(Duration::from_secs(300));
    let config = surviving("echo one; exec sleep 1000").health(check);
    let ledger = Ledger::new(folder.path());
    let process = guarded(Process::spawn(config.clone(), Some(&ledger))).await?;
    guarded(events.line("one")).await;
    leave(process).await?;
    let found = survivor(folder.path()).await?;
    let (_stopper, stop) = Stop::pair();
    let adopted = guarded(Process::adopt_for(&stop, config, None, &found)).await?;
    let mut running = Running::start(adopted.ok_or("it is gone")?);

    send(found.pid(), Signal::STOP)?;
    let outcome = guarded(running.end()).await;

    let exit = outcome.expect_err("it is unhealthy");
    let ended = "was unhealthy and was ended: its check failed";
    assert_eq!(exit.to_string(), format!(r#"process "it" {ended}: a signal has suspended it"#));
    assert_eq!(count(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn an_adopted_process_is_reloaded_by_its_signal() -> TestResult {
    let (folder, mut events) = (TempDir::new()?, Events::catch());
    let script = "trap 'echo reloaded' HUP; echo one; while :; do sleep 1000 & wait; done";
    let config = surviving(script).reload(Reload::Signal(StopSignal::Hangup));
    let ledger = Ledger::new(folder.path());
    let process = guarded(Process::spawn(config.clone(), Some(&ledger))).await?;
    guarded(events.line("one")).await;
    leave(process).await?;
    let found = survivor(folder.path()).await?;
    let (stopper, stop) = Stop::pair();
    let adopted = guarded(Process::adopt_for(&stop, config, None, &found)).await?;
    let adopted = adopted.ok_or("it is gone")?;

    guarded(adopted.handle().reload(&stop)).await?;

    guarded(events.line("reloaded")).await;
    stopper.stop();
    Ok(guarded(adopted.run(stop)).await.map_err(|exit| exit.to_string())?)
}

#[tokio::test]
async fn an_adopted_process_waits_until_it_is_ready_unless_it_was() -> TestResult {
    let (folder, mut events) = (TempDir::new()?, Events::catch());
    let up = folder.path().join("up");
    let config = surviving("echo one; exec sleep 1000").readiness(Readiness::File(up.clone()));
    let records = folder.path().join("records");
    let ledger = Ledger::new(&records);
    let process = guarded(Process::spawn(config.clone(), Some(&ledger))).await?;
    guarded(events.line("one")).await;
    leave(process).await?;
    let found = survivor(&records).await?;
    let (stopper, stop) = Stop::pair();
    let adopted = guarded(Process::adopt_for(&stop, config.clone(), None, &found)).await?;
    let adopted = adopted.ok_or("it is gone")?;
    let was_ready = adopted.handle().status().is_ready;
    fs::write(&up, "")?;
    leave(guarded(adopted.ready_unless(&stop)).await?).await?;
    fs::remove_file(&up)?;
    let found = survivor(&records).await?;

    let adopted = guarded(Process::adopt_for(&stop, config, None, &found)).await?;

    let adopted = adopted.ok_or("it is gone")?;
    assert_eq!((was_ready, adopted.handle().status().is_ready), (false, true));
    stopper.stop();
    Ok(guarded(adopted.run(stop)).await.map_err(|exit| exit.to_string())?)
}

#[tokio::test]
async fn what_a_process_wrote_last_that_ended_unseen_is_logged() -> TestResult {
    let (folder, fifo, mut events) = (TempDir::new()?, Fifo::new()?, Events::catch());
    let script = "trap 'echo bye; exit' USR1; sleep 1000 3>&- & echo up >&3; echo one; wait";
    let config = surviving(&holding(&fifo.path(), script));
    let writers = fifo.writers();
    let ledger = Ledger::new(folder.path());
    let process = guarded(Process::spawn(config.clone(), Some(&ledger))).await?;
    let pid = process.pid();
    guarded(events.line("one")).await;
    leave(process).await?;
    send(pid, Signal::USR1)?;
    writers.are_gone().await?;
    let found = survivor(folder.path()).await?;

    let (_stopper, stop) = Stop::pair();
    let adopted = guarded(Process::adopt_for(&stop, config, None, &found)).await?;

    assert!(adopted.is_none());
    assert_eq!(guarded(events.next("output")).await.get("line"), "bye");
    assert_eq!(count(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_survivor_is_ended_as_its_own_config_says() -> TestResult {
    let (folder, fifo, mut events) = (TempDir::new()?, Fifo::new()?, Events::catch());
    let bye = folder.path().join("bye");
    let script = format!(
        "trap 'echo > {}; exit' INT; sleep 1000 & echo up >&3; echo one; wait",
        bye.display()
    );
    let config = surviving(&holding(&fifo.path(), &script)).stop_signal(StopSignal::Interrupt);
    let writers = fifo.writers();
    let records = folder.path().join("records");
    let ledger = Ledger::new(&records);
    let process = guarded(Process::spawn(config, Some(&ledger))).await?;
    guarded(events.line("one")).await;
    leave(process).await?;

    guarded(survivor(&records).await?.end()).await?;

    assert!(bye.exists());
    writers.are_gone().await?;
    assert_eq!(count(&records)?, 0);
    Ok(())
}

#[tokio::test]
async fn survivors_that_are_only_looked_at_stay_for_another_agent() -> TestResult {
    let (folder, mut events) = (TempDir::new()?, Events::catch());
    let ledger = Ledger::new(folder.path());
    let config = surviving("echo one; exec sleep 1000");
    let process = guarded(Process::spawn(config, Some(&ledger))).await?;
    let pid = process.pid();
    guarded(events.line("one")).await;
    leave(process).await?;

    let found = guarded(find_survivors(folder.path())).await?;

    assert_eq!(found.iter().map(Survivor::pid).collect::<Vec<_>>(), [pid]);
    guarded(survivor(folder.path()).await?.end()).await?;
    assert_eq!(guarded(find_survivors(folder.path())).await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn all_leftovers_are_ended_where_nobody_adopts() -> TestResult {
    let (folder, fifo, mut events) = (TempDir::new()?, Fifo::new()?, Events::catch());
    let config = surviving(&holding(&fifo.path(), "echo up >&3; echo one; sleep 1000"));
    let writers = fifo.writers();
    let ledger = Ledger::new(folder.path());
    let process = guarded(Process::spawn(config, Some(&ledger))).await?;
    guarded(events.line("one")).await;
    leave(process).await?;

    let ended = guarded(end_leftovers(folder.path())).await?;

    assert_eq!(ended.first().map(|leftover| leftover.fate), Some(Fate::Ended));
    writers.are_gone().await?;
    assert_eq!(count(folder.path())?, 0);
    Ok(())
}

/// Returns when a process started, in clock ticks after the boot.
fn start_time(pid: i32) -> Result<u64, Box<dyn std::error::Error>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
    Ok(fields.split_ascii_whitespace().nth(19).ok_or("too short")?.parse()?)
}

#[tokio::test]
async fn a_stranger_that_a_record_names_is_neither_adopted_nor_signalled() -> TestResult {
    let (folder, mut events) = (TempDir::new()?, Events::catch());
    let ledger = Ledger::new(folder.path());
    let config = surviving("echo one; exec sleep 1000");
    let process = guarded(Process::spawn(config, Some(&ledger))).await?;
    let own = process.pid();
    guarded(events.line("one")).await;
    leave(process).await?;
    let before = survivor(folder.path()).await?;
    let mut stranger = Command::new("sleep").arg("1000").process_group(0).spawn()?;
    let pid = i32::try_from(stranger.id())?;
    let mut paths = fs::read_dir(folder.path())?.filter_map(|entry| Some(entry.ok()?.path()));
    let path = paths.find(|path| path.extension().is_some_and(|it| it == "process"));
    let path = path.ok_or("no record")?;
    let mut record: Value = serde_json::from_slice(&fs::read(&path)?)?;
    record["process"]["id"] = pid.into();
    record["process"]["start_time"] = start_time(pid)?.into();
    fs::write(&path, serde_json::to_vec(&record)?)?;

    let leftovers = guarded(sort_leftovers(folder.path())).await?;

    assert_eq!((leftovers.ended.len(), leftovers.survivors.len()), (1, 0));
    assert_eq!(leftovers.ended[0].fate, Fate::Gone);
    assert_eq!(count(folder.path())?, 0);
    // A signal that came before would have ended it.
    send(pid, Signal::TERM)?;
    assert_eq!(stranger.wait()?.signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(before.pid(), own);
    Ok(kill_process_group(Pid::from_raw(own).ok_or("no pid")?, Signal::KILL)?)
}

#[tokio::test]
async fn a_process_that_does_not_survive_is_not_left() -> TestResult {
    let fifo = Fifo::new()?;
    let mut writers = fifo.writers();
    // It asks to survive, and is on no record.
    let config = surviving(&holding(&fifo.path(), "echo up >&3; exec sleep 1000"));
    let process = guarded(Process::spawn(config, None)).await?;
    assert!(!process.survives());
    let (stopper, stop) = Stop::pair();
    writers.come().await?;
    stopper.stop();

    let outcome = guarded(process.run_or_leave(stop, ready(()))).await;

    outcome.map_err(|exit| exit.to_string())?;
    writers.are_gone().await
}
