//! How processes of a killed agent are found by their records, and ended.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use crankcase_workers::{Fate, Ledger, Leftover, Process, end_leftovers};
use rustix::process::{
    Pid, Signal, WaitOptions, geteuid, getpid, kill_process, set_child_subreaper, waitpid,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::shell;
use crate::alone::{example, expect_alone};
use crate::events::Events;
use crate::fifo::{Fifo, holding};
use crate::running::{Running, TestResult, guarded};

/// Starts an agent that runs `script`, and returns it with the pid of its process.
async fn start_agent(
    folder: &Path,
    script: &str,
) -> Result<(Child, i32), Box<dyn std::error::Error>> {
    let mut agent = Command::new(example()?)
        .arg("agent")
        .arg(folder)
        .arg(script)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(agent.stdout.take().ok_or("no stdout")?).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(pid) = line.strip_prefix("pid ") {
            return Ok((agent, pid.parse()?));
        }
    }
    Err("the agent has not said the pid".into())
}

/// Reaps an orphan that this process was given.
async fn reap(id: Pid) -> TestResult {
    let wait = move || waitpid(Some(id), WaitOptions::empty());
    guarded(tokio::task::spawn_blocking(wait)).await??;
    Ok(())
}

/// Changes the one record in `folder`.
fn change_record(folder: &Path, change: impl FnOnce(&mut Value)) -> TestResult {
    let path = std::fs::read_dir(folder)?.next().ok_or("no record")??.path();
    let mut record = serde_json::from_slice(&std::fs::read(&path)?)?;
    change(&mut record);
    Ok(std::fs::write(&path, serde_json::to_vec(&record)?)?)
}

fn records(folder: &Path) -> std::io::Result<usize> {
    Ok(std::fs::read_dir(folder)?.count())
}

fn leftover(pid: Option<i32>, fate: Fate) -> Leftover {
    Leftover { name: "it".to_owned(), pid, fate }
}

#[tokio::test]
async fn the_group_of_a_killed_agent_is_ended() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    set_child_subreaper(Some(getpid()))?;
    let mut writers = fifo.writers();
    let script = holding(&fifo.path(), "sleep 1000 & trap '' TERM; echo up >&3; wait");
    let (mut agent, pid) = guarded(start_agent(folder.path(), &script)).await?;
    writers.come().await?;
    agent.kill().await?;

    let leftovers = guarded(end_leftovers(folder.path())).await?;

    assert_eq!(leftovers, [leftover(Some(pid), Fate::Ended)]);
    assert!(waitpid(Pid::from_raw(pid), WaitOptions::NOHANG)?.is_some(), "it still runs");
    writers.are_gone().await?;
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

#[tokio::test]
async fn a_group_whose_leader_is_gone_is_ended() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    set_child_subreaper(Some(getpid()))?;
    let mut writers = fifo.writers();
    let script = holding(&fifo.path(), "sleep 1000 & echo up >&3; wait");
    let (mut agent, pid) = guarded(start_agent(folder.path(), &script)).await?;
    writers.come().await?;
    agent.kill().await?;
    let leader = Pid::from_raw(pid).ok_or("no pid")?;
    kill_process(leader, Signal::KILL)?;
    reap(leader).await?;

    let leftovers = guarded(end_leftovers(folder.path())).await?;

    assert_eq!(leftovers, [leftover(Some(pid), Fate::Ended)]);
    writers.are_gone().await?;
    Ok(())
}

#[tokio::test]
async fn a_leader_that_has_moved_to_another_group_is_ended() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    let mut writers = fifo.writers();
    let script = format!("exec {} moved {}", example()?.display(), fifo.path().display());
    let (mut agent, pid) = guarded(start_agent(folder.path(), &script)).await?;
    writers.come().await?;
    agent.kill().await?;

    let leftovers = guarded(end_leftovers(folder.path())).await?;

    assert_eq!(leftovers, [leftover(Some(pid), Fate::Ended)]);
    writers.are_gone().await?;
    assert_eq!(records(folder.path())?, 0);
    Ok(())
}

/// A process that is just being executed has no environment for a moment. Here it has none until a file is there.
#[tokio::test]
async fn a_group_is_ended_whose_last_member_is_still_to_be_executed() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    set_child_subreaper(Some(getpid()))?;
    let mut writers = fifo.writers();
    let begun = folder.path().join("begun");
    let member = format!(
        "mark=$(env | grep ^CRANKCASE_PROCESS); export mark; \
         env -i sh -c \"until test -e {}; do :; done; export $mark; exec sleep 1000\" & \
         echo up >&3; wait",
        begun.display()
    );
    let records = folder.path().join("records");
    std::fs::create_dir(&records)?;
    let script = holding(&fifo.path(), &member);
    let (mut agent, pid) = guarded(start_agent(&records, &script)).await?;
    writers.come().await?;
    agent.kill().await?;
    let leader = Pid::from_raw(pid).ok_or("no pid")?;
    kill_process(leader, Signal::KILL)?;
    reap(leader).await?;

    let told = async { std::fs::write(&begun, "") };
    let (leftovers, told) = guarded(async { tokio::join!(end_leftovers(&records), told) }).await;

    told?;
    assert_eq!(leftovers?, [leftover(Some(pid), Fate::Ended)]);
    writers.are_gone().await?;
    Ok(())
}

#[tokio::test]
async fn a_process_that_was_not_recorded_in_time_is_found_by_its_mark() -> TestResult {
    let (folder, fifo) = (TempDir::new()?, Fifo::new()?);
    let mut writers = fifo.writers();
    let script = holding(&fifo.path(), "sleep 1000 & echo up >&3; wait");
    let (mut agent, _) = guarded(start_agent(folder.path(), &script)).await?;
    writers.come().await?;
    agent.kill().await?;
    change_record(folder.path(), |record| record["process"] = Value::Null)?;

    let leftovers = guarded(end_leftovers(folder.path())).await?;

    assert_eq!(leftovers, [leftover(None, Fate::Ended)]);
    writers.are_gone().await?;
    Ok(())
}

/// Runs a process, changes its record, and expects that it is taken for another and lives on.
async fn expect_left_alone(change: impl FnOnce(&mut Value)) -> TestResult {
    let (folder, mut events) = (TempDir::new()?, Events::catch());
    let ledger = Ledger::new(folder.path());
    let script = "trap 'echo alive; exit' TERM; echo ready; sleep 1000 & wait";
    let worker = Running::start(Process::spawn(shell(script), Some(&ledger)).await?);
    guarded(events.line("ready")).await;
    change_record(folder.path(), change)?;

    let leftovers = guarded(end_leftovers(folder.path())).await?;

    assert_eq!((leftovers.len(), leftovers[0].fate), (1, Fate::Gone));
    assert_eq!(records(folder.path())?, 0);
    guarded(worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
    guarded(events.line("alive")).await;
    Ok(())
}

#[tokio::test]
async fn a_process_with_another_start_time_is_left_alone() -> TestResult {
    expect_left_alone(|record| {
        let start = record["process"]["start_time"].as_u64().unwrap_or_default();
        record["process"]["start_time"] = (start + 1).into();
    })
    .await
}

#[tokio::test]
async fn a_process_of_another_boot_is_left_alone() -> TestResult {
    expect_left_alone(|record| record["boot_id"] = "another".into()).await
}

#[tokio::test]
async fn a_record_of_which_nothing_has_run_is_removed_and_not_told() -> TestResult {
    let folder = TempDir::new()?;
    let ledger = Ledger::new(folder.path());
    let worker = Running::start(Process::spawn(shell("exec sleep 1000"), Some(&ledger)).await?);
    change_record(folder.path(), |record| {
        record["process"] = Value::Null;
        record["token"] = "another".into();
    })?;

    let leftovers = guarded(end_leftovers(folder.path())).await?;

    assert_eq!((leftovers, records(folder.path())?), (vec![], 0));
    guarded(worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
    Ok(())
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stays_and_is_told() -> TestResult {
    let folder = TempDir::new()?;
    std::fs::write(folder.path().join("x.process"), "{")?;

    let leftovers = guarded(end_leftovers(folder.path())).await?;

    assert_eq!(leftovers[0].fate, Fate::Unreadable);
    assert_eq!(records(folder.path())?, 1);
    Ok(())
}

#[tokio::test]
async fn a_process_is_on_record_as_long_as_it_runs() -> TestResult {
    let folder = TempDir::new()?;
    let ledger = Ledger::new(&folder.path().join("made/when/needed"));
    let process = Process::spawn(shell("exit 0"), Some(&ledger)).await?;
    let on_record = records(&folder.path().join("made/when/needed"))?;

    let outcome = guarded(Running::start(process).end()).await;

    assert!(outcome.is_err());
    assert_eq!((on_record, records(&folder.path().join("made/when/needed"))?), (1, 0));
    Ok(())
}

#[tokio::test]
async fn records_and_their_folder_are_for_their_owner_alone() -> TestResult {
    let mode = |path: &Path| Ok::<_, std::io::Error>(path.metadata()?.permissions().mode() & 0o777);
    let outer = TempDir::new()?;
    let folder = outer.path().join("processes");
    std::fs::create_dir(&folder)?;
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755))?;

    let process = Process::spawn(shell("exit 0"), Some(&Ledger::new(&folder))).await?;

    let record = std::fs::read_dir(&folder)?.next().ok_or("no record")??.path();
    assert_eq!((mode(&folder)?, mode(&record)?), (0o700, 0o600));
    assert!(guarded(Running::start(process).end()).await.is_err());
    Ok(())
}

#[tokio::test]
async fn records_are_in_no_folder_that_a_symlink_leads_to() -> TestResult {
    let outer = TempDir::new()?;
    let (other, link) = (outer.path().join("other"), outer.path().join("processes"));
    std::fs::create_dir(&other)?;
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o755))?;
    std::os::unix::fs::symlink("other", &link)?;

    let spawned = Process::spawn(shell("exit 0"), Some(&Ledger::new(&link))).await;

    assert!(spawned.is_err());
    assert_eq!(other.metadata()?.permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read_dir(&other)?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn a_record_is_removed_from_no_folder_that_a_symlink_leads_to() -> TestResult {
    let outer = TempDir::new()?;
    let (folder, other) = (outer.path().join("processes"), outer.path().join("other"));
    let process = Process::spawn(shell("exit 0"), Some(&Ledger::new(&folder))).await?;
    std::fs::rename(&folder, &other)?;
    std::os::unix::fs::symlink("other", &folder)?;

    assert!(guarded(Running::start(process).end()).await.is_err());
    assert!(guarded(end_leftovers(&folder)).await.is_err());

    assert_eq!(records(&other)?, 1);
    Ok(())
}

#[tokio::test]
async fn a_record_that_cannot_be_written_leaves_no_file() -> TestResult {
    // As on a full disk: what is too large is an error, and no signal.
    let limited = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    expect_alone(&["sh", "-c", limited, "sh"], "unwritten").await
}

#[tokio::test]
async fn a_process_that_cannot_be_put_on_record_is_gone() -> TestResult {
    let limited = "trap '' XFSZ; exec \"$@\"";
    expect_alone(&["sh", "-c", limited, "sh"], "unrecorded").await
}

/// The first process of the pid namespace keeps its capabilities, those that follow have none.
#[tokio::test]
async fn processes_that_may_not_be_looked_at_hide_no_others() -> TestResult {
    let script = "mount -t proc -o hidepid=1 proc /proc && \
                  setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \"$@\"; exit $?";
    let mut words = vec!["unshare", "-Urpfm", "sh", "-c", script, "sh"];
    if geteuid().is_root() {
        // A member of root's group may look at all processes.
        words.splice(0..0, ["setpriv", "--regid=1", "--clear-groups"]);
    }
    let probe = Command::new(words[0]).args(&words[1..]).arg("true").output().await;
    if !probe.is_ok_and(|output| output.status.success()) {
        return Err("needs user, pid and mount namespaces: unshare -Urpfm".into());
    }
    expect_alone(&words, "hidden").await
}

#[tokio::test]
async fn a_folder_that_does_not_exist_has_no_leftovers() -> TestResult {
    assert_eq!(end_leftovers(Path::new("/nowhere/at/all")).await?, []);
    Ok(())
}
