//! External commands as workers.

use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;

use crankcase_engine::{Detail, Engine, EventKind, Manifold, Name, WorkerState};
use crankcase_manifolds::process;
use crankcase_testing::{EventRecorder, clean_kill, test_engine, wait_for_state};
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

/// Installs a command that is to fail, and returns why it has.
async fn failure(engine: &Engine, process: ProcessConfig) -> Result<String, Error> {
    engine.install(COMMAND, manifold(process)?).await?;
    guarded(wait_for_state(engine, "command", WorkerState::BackingOff)).await?;
    let report = guarded(engine.report()).await;
    Ok(report.workers["command"].error.clone().ok_or("it has not failed")?.text)
}

#[tokio::test]
async fn those_who_use_it_start_when_it_is_ready() -> TestResult {
    let folder = tempfile::tempdir()?;
    let ledger = Some(Ledger::new(&folder.path().join("processes")));
    let made = folder.path().join("made");
    let script = format!("echo x >{}; echo ready; echo more; exec sleep 1000", made.display());
    let mut process = shell(&script);
    process.readiness = Readiness::Line("ready".to_owned());
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    let user = Manifold::builder().inputs(COMMAND).offers::<()>().run_with(
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
    let engine = test_engine().build()?;

    let text = failure(&engine, ProcessConfig::new("it", vec![program.clone().into()])).await?;

    let expected = format!("cannot execute {program:?} as process \"it\": Permission denied");
    assert!(text.starts_with(&expected), "{text}");
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    engine.bounce(&COMMAND).await?;
    guarded(engine.running(&COMMAND)).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_and_the_process_runs_when_it_is_free() -> TestResult {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, high, middle, low], 20_080));
    let other = TcpListener::bind(address)?;
    let words = [example("03_alone")?.into(), "serve".into(), address.to_string().into()];
    let mut process = ProcessConfig::new("it", words.to_vec());
    process.readiness = Readiness::Port(address);
    let engine = test_engine().build()?;

    let text = failure(&engine, process).await?;

    let expected = format!("cannot run process \"it\": {address} is in use by something else");
    assert_eq!(text, expected);
    drop(other);
    engine.bounce(&COMMAND).await?;
    guarded(engine.running(&COMMAND)).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_process_that_exits_at_once_backs_off_with_its_last_words() -> TestResult {
    let engine = test_engine().build()?;

    let text = failure(&engine, shell("echo out of luck >&2; exit 3")).await?;

    assert_eq!(text, "process \"it\" ended with exit status: 3: out of luck");
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
    let mut process = shell("exit 0");
    process.folder = "srv".into();

    let refused = process::manifold(process::Config { process, ledger: None }, ());

    let text = "folder is srv; expected an absolute path without NUL";
    assert_eq!(refused.expect_err("it is relative").to_string(), text);
}
