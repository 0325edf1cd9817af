//! What commands run on.

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Builder;

/// How long what still blocks a thread may hold up the end of the program.
const LAST: Duration = Duration::from_secs(1);

/// How many threads look at files and change them. Each reserves 64 MiB of addresses for what it
/// allocates, which counts for `ulimit -v`.
const THREADS: usize = 4;

/// Runs a command that asks the agent.
pub(super) fn ask<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot begin to wait for an answer")?.block_on(command)
}

/// Runs a command that works on resources.
pub(super) fn work<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    require_threads()?;
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(THREADS).build();
    let runtime = runtime.context("cannot begin to work")?;
    let ended = runtime.block_on(command);
    // After an interrupt a thread may still look at a file, of a dead server for instance.
    runtime.shutdown_timeout(LAST);
    ended
}

/// Looks whether a thread can be made: a runtime panics where it cannot make its first one.
pub(super) fn require_threads() -> anyhow::Result<()> {
    let made = std::thread::Builder::new().spawn(|| {}).context("cannot make a thread")?;
    made.join().map_err(|_| anyhow::anyhow!("a thread that does nothing has failed"))
}
