//! External commands as workers.

use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use crankcase_engine::{Backoff, Detail, EventKind, Manifold, Name};
use crankcase_manifolds::process;
use crankcase_testing::{EventRecorder, clean_kill, test_engine};
use crankcase_workers::{Ledger, ProcessConfig, ProcessHandle, Readiness};

use crate::process::{Error, TestResult, example, guarded};

const COMMAND: Name<ProcessHandle> = Name::new("command");
const USER: Name<()> = Name::new("user");

fn shell(script: &str) -> ProcessConfig {
    ProcessConfig::new("it", vec!["sh".into(), "-c".into(), script.into()])
}

fn manifold(process: ProcessConfig) -> Result<Manifold, Error> {
    Ok(process::manifold(process::Config { process, ledger: None }, ())?)
}

/// Expects that a command fails, backs off, and is up by itself when the cause is gone; returns why
/// it has failed.
async fn failure(
    process: ProcessConfig,
    mend: impl FnOnce() -> TestResult,
) -> Result<String, Error> {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let often = Duration::from_millis(10);
    let backoff = Backoff::default().initial(often).max(often);
    engine.install(COMMAND, manifold(process)?.backoff(backoff)).await?;
    let is_failure = |kind: &EventKind| matches!(kind, EventKind::Ended { error: Some(_), .. });
    let ended = guarded(events.wait_for(|event| is_failure(&event.kind))).await?;
    let EventKind::Ended { error: Some(text), .. } = ended.kind else { return Err("well".into()) };
    let is_backoff = |kind: &EventKind| matches!(kind, EventKind::Waiting { failures: 1, .. });
    guarded(events.wait_for(|event| is_backoff(&event.kind))).await?;

    mend()?;

    guarded(engine.running(COMMAND)).await?;
    clean_kill(engine).await?;
    Ok(text)
}

#[tokio::test]
async fn those_who_use_it_start_when_it_is_ready() -> TestResult {
    let folder = tempfile::tempdir()?;
    let ledger = Some(Ledger::new(&folder.path().join("processes")));
    let made = folder.path().join("made");
    let script = format!("echo x >{}; echo ready; echo more; exec sleep 1000", made.display());
    let process = shell(&script).readiness(Readiness::Line("ready".to_owned()));
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let user = Manifold::builder().inputs(COMMAND).run_with(
        made,
        |made, handle: ProcessHandle, up| async move {
            assert!(handle.status().is_ready);
            assert!(made.exists(), "the process has not come so far");
            up.ready(()).wait().await;
            Ok(())
        },
    );
    engine.install(USER, user).await?;

    engine.install(COMMAND, process::manifold(process::Config { process, ledger }, ())?).await?;

    let is_up = |kind: &EventKind| *kind == EventKind::Started { generation: 1 };
    guarded(events.wait_for(|event| event.path() == "/user" && is_up(&event.kind))).await?;
    let report = guarded(engine.report()).await;
    let Some(Detail::Value(status)) = &report.workers["command"].report else {
        return Err("no report".into());
    };
    assert_eq!((&status["is_ready"], &status["dropped_lines"]), (&true.into(), &0.into()));
    let handle = guarded(engine.output(COMMAND).into_future()).await?;
    assert_eq!(status["pid"], handle.pid());
    assert_eq!(fs::read_dir(folder.path().join("processes"))?.count(), 1);
    clean_kill(engine).await?;
    assert_eq!(fs::read_dir(folder.path().join("processes"))?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_is_said_and_runs_when_it_can() -> TestResult {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("program");
    fs::write(&program, "#!/bin/sh\nexec sleep 1000\n")?;
    let mend = || Ok(fs::set_permissions(&program, Permissions::from_mode(0o755))?);

    let text = failure(ProcessConfig::new("it", vec![program.clone().into()]), mend).await?;

    let expected = format!("cannot execute {program:?} as process \"it\": Permission denied");
    assert!(text.starts_with(&expected), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_program_that_is_not_there_is_said_and_runs_when_it_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("program");
    let mend = || Ok(symlink("/bin/sleep", &program)?);
    let command = vec![program.clone().into(), "1000".into()];
    let text = failure(ProcessConfig::new("it", command), mend).await?;

    let expected =
        format!("cannot execute {program:?} as process \"it\": No such file or directory");
    assert!(text.starts_with(&expected), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_and_the_process_runs_when_it_is_free() -> TestResult {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, high, middle, low], 20_080));
    let other = TcpListener::bind(address)?;
    let words = [example("03_alone")?.into(), "serve".into(), address.to_string().into()];
    let process = ProcessConfig::new("it", words.to_vec()).readiness(Readiness::Port(address));

    let text = failure(process, || {
        drop(other);
        Ok(())
    });

    let (comm, pid) = (fs::read_to_string("/proc/self/comm")?, std::process::id());
    let holder = format!("{:?} (pid {pid})", comm.trim_end());
    let expected = format!("cannot run process \"it\": {address} is held by {holder}");
    assert_eq!(text.await?, expected);
    Ok(())
}

#[tokio::test]
async fn a_process_that_exits_at_once_backs_off_with_its_last_words() -> TestResult {
    let folder = tempfile::tempdir()?;
    let luck = folder.path().join("luck");
    let script = "test -e $0 || { echo out of luck >&2; exit 3; }; exec sleep 1000";
    let mut process = shell(script);
    process.command.push(luck.clone().into());

    let text = failure(process, || Ok(fs::write(luck, "")?)).await?;

    assert_eq!(text, "process \"it\" ended with exit status: 3: out of luck");
    Ok(())
}

#[tokio::test]
async fn a_process_that_leaves_others_behind_is_said_and_they_are_gone() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (left, calm) = (folder.path().join("left"), folder.path().join("calm"));
    let script = "test -e $1 && exec sleep 1000
        (trap '' TERM HUP; exec sleep 1000) & echo $! >$0; exit 4";
    let mut process = shell(script);
    process.command.extend([left.clone().into(), calm.clone().into()]);

    let text = failure(process, || Ok(fs::write(calm, "")?)).await?;

    let expected =
        "process \"it\" ended with exit status: 4, and left a process behind that was killed";
    assert_eq!(text, expected);
    let left: i32 = fs::read_to_string(left)?.trim().parse()?;
    let stat = fs::read_to_string(format!("/proc/{left}/stat"));
    assert!(stat.as_ref().map_or(true, |stat| stat.contains(") Z")), "{stat:?}");
    Ok(())
}

#[tokio::test]
async fn a_process_that_ignores_its_stop_signal_is_killed_and_started_again() -> TestResult {
    let folder = tempfile::tempdir()?;
    let pids = folder.path().join("pids");
    let mut process = shell("trap '' TERM; echo $$ >>$0; echo up; while :; do sleep 1000; done");
    process.command.push(pids.clone().into());
    process.readiness = Readiness::Line("up".to_owned());
    process.grace = Duration::from_millis(1);
    let engine = test_engine().build()?;
    engine.install(COMMAND, manifold(process)?).await?;
    guarded(engine.running(COMMAND)).await?;

    guarded(engine.bounce(COMMAND)).await?;
    let first = fs::read_to_string(&pids)?.lines().next().ok_or("no pid")?.to_owned();
    assert!(!fs::exists(format!("/proc/{first}"))?);
    guarded(engine.running(COMMAND)).await?;

    assert_eq!(fs::read_to_string(&pids)?.lines().count(), 2);
    let report = guarded(engine.report()).await;
    assert!(report.workers["command"].error.is_none(), "it is no failure");
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_process_that_floods_its_output_is_degraded() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let mut process = shell("seq 5000; exec sleep 1000");
    process.lines_per_second = 10;
    engine.install(COMMAND, manifold(process)?).await?;

    let text = "it writes more than 10 lines per second to stdout; what is above is dropped";
    let health = |degraded: Option<&str>| EventKind::Health { degraded: degraded.map(Into::into) };
    guarded(events.wait_for(|event| event.kind == health(Some(text)))).await?;
    guarded(events.wait_for(|event| event.kind == health(None))).await?;

    assert_eq!(guarded(engine.report()).await.workers["command"].generation, 1);
    Ok(clean_kill(engine).await?)
}

#[test]
fn a_field_that_cannot_be_used_is_named_when_the_manifold_is_built() {
    let process = shell("exit 0").folder("srv".into());

    let refused = process::manifold(process::Config { process, ledger: None }, ());

    let text = "folder is srv; expected an absolute path without NUL";
    assert_eq!(refused.expect_err("it is relative").to_string(), text);
}
