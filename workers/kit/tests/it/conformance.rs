//! Every worker is as an engine needs it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Exit;
use crankcase_testing::Conformance;
use crankcase_workers::{Ledger, Process, ProcessConfig, Signals, Watcher, WatcherConfig};
use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::running::{TestResult, guarded};

#[tokio::test]
async fn signals_conform() -> TestResult {
    let checks = Conformance::new(|| async { Ok(Signals::new()?) }).report(|signals| {
        let handle = signals.handle();
        move || std::future::ready(handle.counts())
    });

    Ok(guarded(checks.check()).await?)
}

#[tokio::test]
async fn the_watcher_conforms() -> TestResult {
    let folder = tempfile::tempdir()?;
    // Each watches something from its start, so that it has work when it is dropped.
    let start = || async {
        let watcher = Watcher::new(WatcherConfig::default())?;
        let subscription = watcher.handle().watch(folder.path())?;
        std::fs::write(folder.path().join("file"), "changed")?;
        drop(subscription);
        Ok(watcher)
    };

    Ok(guarded(Conformance::new(start).check()).await?)
}

/// The processes that were spawned, to see when they are gone.
#[derive(Clone, Default)]
struct Spawned(Arc<Mutex<Vec<OwnedFd>>>);

impl Spawned {
    fn add(&self, process: &Process) -> Result<(), Exit> {
        let pid = Pid::from_raw(process.pid()).ok_or("no pid")?;
        self.0.lock().push(pidfd_open(pid, PidfdFlags::empty())?);
        Ok(())
    }

    /// Waits until all have ended.
    async fn are_gone(&self) -> Result<(), String> {
        let all = std::mem::take(&mut *self.0.lock());
        for process in all {
            let ended = tokio::time::timeout(Duration::from_secs(20), ended(process)).await;
            ended.map_err(|_| "a process was left")?.map_err(|err| err.to_string())?;
        }
        Ok(())
    }
}

/// Waits until a process has ended.
#[expect(deprecated, reason = "unsound only for a type that closes its descriptor; this owns it")]
async fn ended(process: OwnedFd) -> std::io::Result<()> {
    let process = AsyncFd::with_interest(process, Interest::READABLE)?;
    let _ready = process.readable().await?;
    Ok(())
}

#[tokio::test]
async fn a_process_conforms() -> TestResult {
    let folder = tempfile::tempdir()?;
    let ledger = Ledger::new(folder.path());
    let spawned = Spawned::default();
    let start = || async {
        let command = vec!["sleep".into(), "1000".into()];
        let process = Process::spawn(ProcessConfig::new("sleeper", command), Some(&ledger)).await?;
        spawned.add(&process)?;
        Ok(process)
    };
    let left = spawned.clone();
    let released = move || {
        let left = left.clone();
        async move { left.are_gone().await }
    };

    Ok(guarded(Conformance::new(start).released(released).check()).await?)
}

#[tokio::test]
async fn a_process_that_ends_by_itself_conforms() -> TestResult {
    let start = || async {
        let config = ProcessConfig::new("brief", vec!["true".into()]);
        Ok(Process::spawn(config, None).await?)
    };

    Ok(guarded(Conformance::new(start).ends_by_itself().check()).await?)
}
