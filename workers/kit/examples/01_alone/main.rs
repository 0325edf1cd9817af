//! What the tests of this crate look at in a process of its own: `01_alone SCENE [ARGUMENT...]`.

mod contained;
mod launching;
mod limits;
#[path = "../../tests/it/running.rs"]
mod running;
mod servers;
mod sharing;
mod stuck;
#[path = "../../tests/it/watching.rs"]
mod watching;

use std::io::{ErrorKind, Write};
use std::path::Path;

use crankcase_engine::{Stop, Worker};
use crankcase_workers::{Fate, Ledger, Process, ProcessConfig, Readiness, end_leftovers};
use running::{Running, TestResult};
use rustix::io::Errno;
use rustix::process::{
    Resource, Rlimit, Signal, WaitOptions, getpgid, getpid, getppid, getrlimit, kill_process,
    setpgid, setrlimit, wait,
};
use serde_json::Value;
use tempfile::TempDir;

#[tokio::main(flavor = "current_thread")]
async fn main() -> TestResult {
    crankcase_workers::launch();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["watches"] => limits::watches().await,
        ["instances"] => limits::instances().await,
        ["mounts"] => limits::mounts().await,
        ["many_files"] => sharing::many_files().await,
        ["releasing"] => sharing::releasing().await,
        ["moving"] => sharing::moving().await,
        ["serve", address] => servers::serve(address),
        ["serve_http", address] => servers::serve_http(address),
        ["notify"] => servers::notify(),
        ["notified", folder] => notified(Path::new(folder)).await,
        ["unwritten"] => unwritten().await,
        ["unrecorded"] => unrecorded().await,
        ["hidden"] => hidden().await,
        ["moved", fifo] => moved(Path::new(fifo)),
        ["inherited"] => launching::inherited().await,
        ["bounded"] => launching::bounded().await,
        ["another_user"] => launching::another_user().await,
        ["recorded"] => launching::recorded().await,
        ["refused"] => launching::refused().await,
        ["unasked"] => launching::unasked().await,
        ["contained_stopped"] => contained::stopped().await,
        ["contained_ended"] => contained::ended().await,
        ["contained_daemonised"] => contained::daemonised().await,
        ["contained_left_behind"] => contained::left_behind().await,
        ["contained_left_running"] => contained::left_running().await,
        ["stuck"] => stuck::stuck(),
        ["agent", folder, script] => agent(Path::new(folder), script).await,
        _ => Err(format!("no such scene: {arguments:?}").into()),
    }
}

/// Runs one process with a notify socket in `folder`, expects no other there, and is killed.
async fn notified(folder: &Path) -> TestResult {
    let config = ProcessConfig::new("it", vec!["sleep".into(), "1000".into()])
        .readiness(Readiness::Notify { folder: folder.to_owned() });
    let _process = Process::spawn(config, None).await?;
    assert_eq!(std::fs::read_dir(folder)?.count(), 1);
    kill_process(getpid(), Signal::KILL)?;
    Ok(())
}

/// Runs no process where no file can be written, and expects that nothing is left of its record.
async fn unwritten() -> TestResult {
    let folder = TempDir::new()?;
    let config = ProcessConfig::new("it", vec!["true".into()]);
    let refused = Process::spawn(config, Some(&Ledger::new(folder.path()))).await;
    let error = refused.err().ok_or("it was spawned")?;
    assert!(error.to_string().starts_with("cannot record"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    Ok(())
}

/// Spawns a process whose pid there is no room for on record, and expects that it is gone.
async fn unrecorded() -> TestResult {
    let folder = TempDir::new()?;
    let ledger = Ledger::new(folder.path());
    let config = ProcessConfig::new("it", vec!["sleep".into(), "1000".into()]);
    let process = Process::spawn(config.clone(), Some(&ledger)).await?;
    let record = std::fs::read_dir(folder.path())?.next().ok_or("no record")??;
    // A pid with its start time takes more.
    let room = record.metadata()?.len() - 10;
    let (stopper, stop) = Stop::pair();
    stopper.stop();
    process.run(stop).await.map_err(|exit| exit.to_string())?;
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: Some(room), maximum })?;

    let refused = Process::spawn(config, Some(&ledger)).await;

    let error = refused.err().ok_or("it was spawned")?;
    assert!(error.to_string().starts_with("cannot record"), "{error}");
    assert_eq!(wait(WaitOptions::NOHANG).err(), Some(Errno::CHILD));
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    Ok(())
}

/// Looks after processes of its own where there is one, the first, that may not be looked at.
async fn hidden() -> TestResult {
    let seen = std::fs::read("/proc/1/stat").map_err(|err| err.kind());
    assert_eq!(seen.err(), Some(ErrorKind::PermissionDenied));
    let shell =
        |script: &str| ProcessConfig::new("it", vec!["sh".into(), "-c".into(), script.into()]);

    let script = "sleep 1000 >/dev/null 2>&1 & exit 4";
    let ended = Running::start(Process::spawn(shell(script), None).await?).end().await;
    let exit = ended.err().ok_or("it was stopped")?;
    assert!(exit.to_string().ends_with(", and left a process behind that was killed"), "{exit}");

    let folder = TempDir::new()?;
    let ledger = Ledger::new(folder.path());
    let _process = Process::spawn(shell("sleep 1000"), Some(&ledger)).await?;
    let path = std::fs::read_dir(folder.path())?.next().ok_or("no record")??.path();
    let mut strange: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    strange["process"]["id"] = 1.into();
    strange["token"] = "another".into();
    let strange_path = folder.path().join("strange.process");
    std::fs::write(&strange_path, serde_json::to_vec(&strange)?)?;
    let fates = end_leftovers(folder.path()).await?.into_iter().map(|leftover| leftover.fate);
    assert_eq!(fates.collect::<Vec<_>>(), [Fate::Ended, Fate::Remains]);
    assert!(!path.exists() && strange_path.exists());
    Ok(())
}

/// Moves to the group of its parent, says so, and holds `fifo` open.
fn moved(fifo: &Path) -> TestResult {
    setpgid(None, Some(getpgid(getppid())?))?;
    let mut fifo = std::fs::OpenOptions::new().write(true).open(fifo)?;
    writeln!(fifo, "moved")?;
    loop {
        std::thread::park();
    }
}

/// Runs one process on record in `folder`, says its pid, and waits for its end or its own.
async fn agent(folder: &Path, script: &str) -> TestResult {
    let config = ProcessConfig::new("it", vec!["sh".into(), "-c".into(), script.into()]);
    let process = Process::spawn(config, Some(&Ledger::new(folder))).await?;
    #[expect(clippy::disallowed_methods, reason = "the tests read it")]
    writeln!(std::io::stdout(), "pid {}", process.pid())?;
    Ok(Running::start(process).end().await.map_err(|exit| exit.to_string())?)
}
