//! How a process ends, by itself or because its worker ends, and what is reported of it.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crankcase_engine::owner;
use crankcase_engine::{Outcome, Stop, Worker};
use crankcase_workers::{Ledger, Process, ProcessConfig, ProcessError, Readiness};
use rustix::process::{Pid, test_kill_process};
use tokio::task::yield_now;

use super::shell;
use crate::alone::{can_unshare, expect_alone};
use crate::events::Events;
use crate::fifo::{Fifo, holding};
use crate::running::{Running, TestResult, guarded};

/// Returns the status in the failure that a process ended with.
fn status(outcome: Outcome) -> ExitStatus {
    let exit = outcome.expect_err("an end by itself is a failure");
    match exit.error().and_then(|error| error.downcast_ref()) {
        Some(ProcessError::Exited { status, .. }) => *status,
        _ => panic!("not the end of a process: {exit}"),
    }
}

#[tokio::test]
async fn an_exit_with_0_is_a_failure_with_its_status() -> TestResult {
    let process = Process::spawn(shell("exit 0"), None).await?;

    let outcome = guarded(Running::start(process).end()).await;

    assert_eq!(status(outcome).code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn an_exit_with_3_is_a_failure_with_its_status() -> TestResult {
    let process = Process::spawn(shell("exit 3"), None).await?;

    let outcome = guarded(Running::start(process).end()).await;

    assert_eq!(status(outcome).code(), Some(3));
    Ok(())
}

#[tokio::test]
async fn the_last_words_on_stderr_are_in_the_failure() -> TestResult {
    let script = "echo out; echo first >&2; echo 'bind: address in use' >&2; echo >&2; exit 1";
    let process = Process::spawn(shell(script), None).await?;

    let exit = guarded(Running::start(process).end()).await.expect_err("it has failed");

    let text = r#"process "it" ended with exit status: 1: bind: address in use"#;
    assert_eq!(exit.to_string(), text);
    Ok(())
}

#[tokio::test]
async fn no_terminal_obeys_the_last_words() -> TestResult {
    let script = r"printf 'it \033[31mis\a red\342\200\256der\r\n' >&2; exit 1";
    let process = Process::spawn(shell(script), None).await?;

    let exit = guarded(Running::start(process).end()).await.expect_err("it has failed");

    let text = r#"process "it" ended with exit status: 1: it  [31mis  red der"#;
    assert_eq!(exit.to_string(), text);
    Ok(())
}

#[tokio::test]
async fn a_death_by_a_signal_is_a_failure_with_the_signal() -> TestResult {
    let process = Process::spawn(shell("kill -USR1 $$"), None).await?;

    let outcome = guarded(Running::start(process).end()).await;

    assert_eq!(status(outcome).signal(), Some(rustix::process::Signal::USR1.as_raw()));
    Ok(())
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_is_named_with_the_cause() {
    let missing = ProcessConfig::new("it", vec!["/nowhere/program".into()]);

    let error = Process::spawn(missing, None).await.expect_err("there is no such program");

    assert_eq!(error.to_string(), r#"cannot execute "/nowhere/program" as process "it""#);
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("No such file or directory (os error 2)"));
}

#[tokio::test]
async fn a_missing_interpreter_is_not_blamed_on_the_script() -> TestResult {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("script");
    std::fs::write(&script, "#! /no/such/interpreter -x\necho hello\n")?;
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755))?;
    let config = ProcessConfig::new("it", vec![script.into()]);

    let error = Process::spawn(config, None).await.expect_err("there is no such interpreter");

    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("its interpreter \"/no/such/interpreter\" does not exist"));
    Ok(())
}

#[tokio::test]
async fn a_missing_working_folder_is_not_blamed_on_the_program() {
    let config = shell("exit 0").folder("/nowhere".into());

    let error = Process::spawn(config, None).await.expect_err("there is no such folder");

    assert!(matches!(error, ProcessError::Folder { .. }));
}

#[tokio::test]
async fn a_stopped_process_gets_its_stop_signal_and_is_done() -> TestResult {
    let mut events = Events::catch();
    let script = "trap 'echo asked; exit 5' TERM; echo ready; sleep 1000 & wait";
    let worker = Running::start(Process::spawn(shell(script), None).await?);
    guarded(events.line("ready")).await;

    let outcome = guarded(worker.clean_kill()).await;

    assert!(outcome.is_ok());
    guarded(events.line("asked")).await;
    Ok(())
}

#[tokio::test]
async fn a_process_that_ignores_its_stop_signal_is_killed_after_the_grace_period() -> TestResult {
    let mut events = Events::catch();
    let fifo = Fifo::new()?;
    let writers = fifo.writers();
    let script = holding(
        &fifo.path(),
        "trap '' TERM; echo up >&3; echo ready; while :; do sleep 1000; done",
    );
    let config = shell(&script).grace(Duration::from_millis(1));
    let worker = Running::start(Process::spawn(config, None).await?);
    guarded(events.line("ready")).await;

    let outcome = guarded(worker.clean_kill()).await;

    assert!(outcome.is_ok());
    guarded(events.next("process killed after its grace period")).await;
    writers.are_gone().await?;
    Ok(())
}

#[tokio::test]
async fn a_suspended_process_can_end_within_its_grace_period() -> TestResult {
    let mut events = Events::catch();
    let script = "trap 'echo asked; exit 0' TERM; echo ready; sleep 1000 & wait";
    let config = shell(script).grace(Duration::from_secs(3600));
    let process = Process::spawn(config, None).await?;
    let group = Pid::from_raw(process.pid()).ok_or("no pid")?;
    let worker = Running::start(process);
    guarded(events.line("ready")).await;
    rustix::process::kill_process_group(group, rustix::process::Signal::STOP)?;

    let outcome = guarded(worker.clean_kill()).await;

    assert!(outcome.is_ok());
    guarded(events.line("asked")).await;
    Ok(())
}

#[tokio::test]
async fn grandchildren_do_not_outlive_a_leader_that_ends_by_itself() -> TestResult {
    let fifo = Fifo::new()?;
    let writers = fifo.writers();
    let script = holding(&fifo.path(), "(trap '' TERM HUP; sleep 1000; :) & echo up >&3; exit 4");
    let process = Process::spawn(shell(&script), None).await?;

    let outcome = guarded(Running::start(process).end()).await;

    let exit = outcome.expect_err("an end by itself is a failure");
    let Some(ProcessError::Exited { status, end, .. }) =
        exit.error().and_then(|error| error.downcast_ref())
    else {
        return Err(exit.to_string().into());
    };
    assert_eq!(status.code(), Some(4));
    assert!(end.left_behind > 0, "{exit}");
    assert!(exit.to_string().contains("behind that "), "{exit}");
    assert!(!end.has_daemonised, "{exit}");
    writers.are_gone().await?;
    Ok(())
}

/// What is said to a program that has daemonised.
const DAEMONISED: &str = "; it has daemonised: keep it in the foreground, such as nginx -g \"daemon off;\", \
     or give daemon: {pid_file: PATH}";

#[tokio::test]
async fn a_program_that_leaves_its_group_running_is_told_to_stay_in_the_foreground() -> TestResult {
    let fifo = Fifo::new()?;
    let writers = fifo.writers();
    let script = holding(&fifo.path(), "sleep 1000 & echo up >&3; exit 0");
    let process = Process::spawn(shell(&script), None).await?;

    let outcome = guarded(Running::start(process).end()).await;

    let exit = outcome.expect_err("an end by itself is a failure");
    let left = ", and left a process behind that was killed";
    let text = format!(r#"process "it" ended with exit status: 0{left}{DAEMONISED}"#);
    assert_eq!(exit.to_string(), text);
    writers.are_gone().await?;
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_has_left_the_group_is_named() -> TestResult {
    let (records, fifo) = (tempfile::tempdir()?, Fifo::new()?);
    let script = "setsid -f sh -c 'echo $$ >pid; read up <fifo' >/dev/null 2>&1; \
                  until test -s pid; do :; done";
    let config = shell(script).folder(fifo.path().parent().ok_or("no folder")?.to_owned());
    let process = Process::spawn(config, Some(&Ledger::new(records.path()))).await?;

    let outcome = guarded(Running::start(process).end()).await;

    let pid: i32 = std::fs::read_to_string(fifo.path().with_file_name("pid"))?.trim().parse()?;
    let daemon = Pid::from_raw(pid).ok_or("no pid")?;
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL)?;
    let exit = outcome.expect_err("an end by itself is a failure");
    let named = format!(r#", and "sh" (pid {pid}) runs on outside of its group"#);
    let text = format!(r#"process "it" ended with exit status: 0{named}{DAEMONISED}"#);
    assert_eq!(exit.to_string(), text);
    Ok(())
}

#[tokio::test]
async fn what_has_left_the_group_of_a_process_on_record_ends_when_that_is_stopped() -> TestResult {
    let (records, fifo) = (tempfile::tempdir()?, Fifo::new()?);
    let mut writers = fifo.writers();
    let script = "setsid -f sh -c 'echo up >&3; exec sleep 1000'; exec sleep 1000";
    let config = shell(&holding(&fifo.path(), script));
    let process = Process::spawn(config, Some(&Ledger::new(records.path()))).await?;
    writers.come().await?;

    let outcome = guarded(Running::start(process).clean_kill()).await;

    outcome.map_err(|exit| exit.to_string())?;
    writers.are_gone().await
}

#[tokio::test]
async fn what_has_left_the_group_of_a_process_that_is_not_ready_in_time_ends_too() -> TestResult {
    let (records, fifo) = (tempfile::tempdir()?, Fifo::new()?);
    let mut writers = fifo.writers();
    let script = "setsid -f sh -c 'echo up >&3; exec sleep 1000'; exec sleep 1000";
    let config = shell(&holding(&fifo.path(), script));
    let config = config.readiness(Readiness::Line("never".to_owned()));
    let config = config.ready_timeout(Duration::from_millis(10));
    let process = Process::spawn(config, Some(&Ledger::new(records.path()))).await?;
    writers.come().await?;

    let error = guarded(process.ready()).await.err().ok_or("it is ready")?;

    assert!(matches!(error, ProcessError::NotReady { .. }), "{error}");
    writers.are_gone().await
}

#[tokio::test]
async fn the_leader_is_reaped_when_the_worker_has_ended() -> TestResult {
    let process = Process::spawn(shell("exit 0"), None).await?;
    let pid = Pid::from_raw(process.pid()).ok_or("no pid")?;

    let outcome = guarded(Running::start(process).end()).await;

    assert!(outcome.is_err());
    assert_eq!(test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    Ok(())
}

#[tokio::test]
async fn dropping_the_running_worker_kills_the_whole_group() -> TestResult {
    let mut events = Events::catch();
    let fifo = Fifo::new()?;
    let writers = fifo.writers();
    let script =
        holding(&fifo.path(), "(trap '' TERM; sleep 1000; :) & echo up >&3; echo ready; wait");
    let worker = Running::start(Process::spawn(shell(&script), None).await?);
    guarded(events.line("ready")).await;

    drop(worker);
    yield_now().await;

    writers.are_gone().await?;
    Ok(())
}

#[tokio::test]
async fn dropping_a_process_that_was_never_run_kills_the_whole_group() -> TestResult {
    let fifo = Fifo::new()?;
    let mut writers = fifo.writers();
    let script = holding(&fifo.path(), "sleep 1000 & echo up >&3; wait");
    let process = Process::spawn(shell(&script), None).await?;

    writers.come().await?;
    drop(process);

    writers.are_gone().await?;
    Ok(())
}

#[tokio::test]
async fn all_of_a_group_is_gone_when_the_worker_has_ended() -> TestResult {
    let mut events = Events::catch();
    // They hold no output open, so that nothing else waits for them.
    let script = "for i in $(seq 100); do sleep 1000 >/dev/null 2>&1 & echo $!; done; exit 4";

    let outcome = guarded(Running::start(Process::spawn(shell(script), None).await?).end()).await;

    assert_eq!(status(outcome).code(), Some(4));
    let mut started = 0;
    for line in events.caught("output") {
        // Not reaped by whoever has taken it over is gone as well.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", line.get("line")));
        let is_gone = stat.as_ref().map_or(true, |stat| stat.contains(") Z"));
        assert!(is_gone, "{stat:?}");
        started += 1;
    }
    assert_eq!(started, 100);
    Ok(())
}

/// Drops what holds a process for a worker, and expects that the worker ends only after the process.
async fn expect_gone_before<T>(dropped: T, stop: Stop, pid: i32) -> TestResult {
    let pid = Pid::from_raw(pid).ok_or("no pid")?;
    let (told, ended) = tokio::sync::oneshot::channel();

    drop(dropped);
    owner::once_gone(&stop, move || {
        let _nobody_waits = told.send(test_kill_process(pid));
    });

    assert_eq!(guarded(ended).await?, Err(rustix::io::Errno::SRCH));
    Ok(())
}

#[tokio::test]
async fn a_worker_that_is_dropped_ends_after_its_process() -> TestResult {
    let process = Process::spawn(shell("sleep 1000"), None).await?;
    let (pid, (_stopper, stop)) = (process.pid(), Stop::pair());
    let mut run = Box::pin(process.run(stop.clone()));
    tokio::select! {
        biased;
        _ = &mut run => return Err("it has ended".into()),
        () = yield_now() => {}
    }

    expect_gone_before(run, stop, pid).await
}

#[tokio::test]
async fn a_start_that_is_dropped_ends_after_its_process() -> TestResult {
    let (_stopper, stop) = Stop::pair();
    let process = Process::spawn_for(&stop, shell("sleep 1000"), None).await?;
    let pid = process.pid();

    expect_gone_before(process, stop, pid).await
}

#[tokio::test]
async fn a_process_that_the_kernel_does_not_let_go_of_is_given_up_and_stays_on_record() -> TestResult
{
    if !can_unshare().await? {
        return Err("needs user and pid namespaces: unshare -Ur".into());
    }
    expect_alone(&["unshare", "-Ur"], "stuck").await
}
