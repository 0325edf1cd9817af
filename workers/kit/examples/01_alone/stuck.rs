//! A process that the kernel does not let go of.

use std::error::Error;
use std::fs;
use std::process::Command;

use crankcase_engine::{Stop, Worker};
use crankcase_workers::{Ledger, Process, ProcessConfig};
use rustix::thread::UnshareFlags;
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;

use crate::running::TestResult;

/// Ends a process that stays after it was killed, and expects that it is given up, and on record.
///
/// Who is the first in a pid namespace ends after all others of it are reaped: one of them is a child
/// of this process, which does not reap it.
pub(crate) fn stuck() -> TestResult {
    let scene = std::thread::spawn(|| {
        let mut builder = Builder::new_current_thread();
        // In another namespace than its children a thread can begin no others.
        let runtime = builder.enable_all().start_paused(true).max_blocking_threads(1).build();
        let runtime = runtime.map_err(|err| err.to_string())?;
        runtime.block_on(async { in_vain().await.map_err(|err| err.to_string()) })
    });
    Ok(scene.join().map_err(|_| "the scene panicked")??)
}

async fn in_vain() -> TestResult {
    spawn_blocking(|| ()).await?;
    own_namespace()?;
    let folder = TempDir::new()?;
    let config = ProcessConfig::new("it", vec!["sleep".into(), "1000".into()]);
    let process = Process::spawn(config, Some(&Ledger::new(folder.path()))).await?;
    let mut other = Command::new("sleep").arg("1000").spawn()?;
    let (stopper, stop) = Stop::pair();
    stopper.stop();

    let outcome = process.run(stop).await;

    let exit = outcome.err().ok_or("it is gone")?;
    let cause = exit.error().and_then(Error::source).map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("killed, and not gone after 5s"), "{exit}");
    assert_eq!(fs::read_dir(folder.path())?.count(), 1);
    other.wait()?;
    Ok(())
}

#[expect(
    deprecated,
    reason = "unsound only for threads that share file descriptors, which stay shared; the \
              replacement needs unsafe code"
)]
fn own_namespace() -> rustix::io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWPID)
}
