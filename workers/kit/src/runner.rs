//! A dynamic set of named workers that do not depend on each other.
//!
//! A *stay* is the time of one spec under a name, through all its restarts. One task keeps it: it
//! starts the worker, drops it when its grace is over, and waits before the next start.
//!
//! Invariants:
//! 1. A name has one present stay at most, and one that waits for its end. A stay's worker is started
//!    only by its own task, and only while it is the present one.
//! 2. A stay is over after its worker's future was dropped and nothing lingers of it; then, in this
//!    order, the name is free or its successor's, and those who wait are told.
//! 3. A stay that was told to end starts nothing any more: no backoff outlives a stop.
//! 4. No code of a worker's runs under a lock. The table is locked before a stay, never after.
//! 5. What a stay's task is to look at is set before the task is woken; it looks at all of it each
//!    time.

use std::fmt;
use std::sync::Arc;

use crankcase_engine::{ConfigError, Outcome, Stop, Worker};
use tokio::time::timeout;

pub use self::config::RunnerConfig;
pub use self::error::RunnerError;
pub use self::handle::{ChildWatch, RunnerHandle};
pub use self::report::{RunnerChild, RunnerChildError, RunnerReport};
pub use self::restart::Restart;
pub use self::spec::{ChildContext, ChildSpec};
pub use self::stay::Ending;

use self::table::Shared;
use crate::child::{caught, passing_on_loss};
use crate::left_behind::LeftBehind;

mod body;
mod config;
mod error;
mod handle;
mod names;
mod report;
mod restart;
mod spec;
mod stay;
mod table;

/// A worker that runs a set of named workers, which come and go while it runs.
///
/// It is for many of a kind that know nothing of each other, such as one worker for each tenant or
/// device. What depends on something belongs in an engine; what makes no sense alone in a
/// [`Catacomb`](crate::Catacomb).
///
/// A [`ChildSpec`] says how to get a worker and when it is started again:
///
/// | a worker's end | permanent | transient | temporary |
/// | --- | --- | --- | --- |
/// | `Ok(())` | backoff | leaves | leaves |
/// | failed, panicked, missing | backoff | backoff | leaves |
/// | [`Exit::Bounce`](crankcase_engine::Exit::Bounce) | bounce delay | bounce delay | leaves |
/// | [`Exit::Uninstall`](crankcase_engine::Exit::Uninstall) | leaves | leaves | leaves |
/// | [`Exit::Fatal`](crankcase_engine::Exit::Fatal) | ends the runner | ends the runner | ends the runner |
/// | told to stop by `stop` or `replace` | leaves | leaves | leaves |
///
/// Backoff, bounce delay, start timeout, graces and intensity are the engine's. A permanent worker
/// that ends well has failed: it was to run for ever. One that fails more often than its intensity
/// allows is *spent*: it stays in the set with its last error, until it is stopped, replaced or
/// bounced.
///
/// # Guarantees
///
/// - Never two workers of one name at once: a successor is started when the one before is gone, with
///   all that lingers of it.
/// - A worker that was told to stop by `stop` or `replace` is never started again, and its end is no
///   failure.
/// - No error is lost: the first fatal one ends the runner, and all others are logged, also of workers
///   that were told to stop. So are those that do not end in their grace, and are dropped.
/// - When an input of the runner's own worker is lost, its workers are told.
/// - When the runner stops, so do all its workers, each in its own grace; it ends after them. One
///   that ends in no way is named in the log and, if there is no other error, in a [`LeftBehind`].
/// - Every call that waits is answered, also when the runner ends or is dropped.
/// - What a worker logs stands in a span `child` with its `name`, at level debug, in the span in which
///   the runner was made.
/// - When it is dropped, so are its workers. An engine does not take it for ended before they are
///   gone: from when it runs on, or from the beginning if it was made by [`new_for`](Self::new_for).
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Outcome, Stop, Worker};
/// use crankcase_workers::{ChildSpec, Ending, Runner, RunnerConfig};
///
/// struct Tenant(u32);
///
/// impl Worker for Tenant {
///     async fn run(self, stop: Stop) -> Outcome {
///         stop.wait().await;
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runner = Runner::new(RunnerConfig::default())?;
/// let tenants = runner.handle();
/// let (stopper, stop) = Stop::pair();
/// let work = async {
///     tenants.start("ada", ChildSpec::permanent(|_ctx| async { Ok(Tenant(1)) })).await?;
///     tenants.running("ada").await?;
///     assert_eq!(tenants.names(), ["ada"]);
///
///     tenants.replace("ada", ChildSpec::permanent(|_ctx| async { Ok(Tenant(2)) })).await?;
///     assert!(matches!(tenants.stop("ada").await?, Ending::Well));
///
///     let backup = ChildSpec::temporary(|_ctx| async { Err::<Tenant, _>("no space".into()) });
///     let Ending::Failed(exit) = tenants.start("backup", backup).await?.ended().await else {
///         return Err("it did not fail".into());
///     };
///     assert_eq!(exit.to_string(), "no space");
///     stopper.stop();
///     Ok::<(), Box<dyn std::error::Error>>(())
/// };
/// let (ended, worked) = tokio::join!(runner.run(stop), work);
/// worked?;
/// assert!(ended.is_ok());
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "its workers are stopped when it is dropped"]
pub struct Runner {
    owned: Owned,
}

impl Runner {
    /// Returns a runner without workers.
    ///
    /// It is for a worker that makes it when it runs. One that is made in a start, and given workers
    /// there, is made by [`new_for`](Self::new_for).
    ///
    /// # Errors
    ///
    /// When the policy cannot be used; it names the field at fault.
    pub fn new(config: RunnerConfig) -> Result<Self, ConfigError> {
        config.policy.validate()?;
        Ok(Self { owned: Owned { shared: Arc::new(Shared::new(config)) } })
    }

    /// Returns a runner without workers for the worker that has this `stop`.
    ///
    /// When it is dropped before it runs, as in a start that is stopped half way, the worker does not
    /// count as ended before the runner's workers are gone: an engine starts no other meanwhile.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn new_for(stop: &Stop, config: RunnerConfig) -> Result<Self, ConfigError> {
        let runner = Self::new(config)?;
        runner.owned.shared.belong_to(stop);
        Ok(runner)
    }

    /// Returns the handle that starts and stops workers. It may be given to them.
    pub fn handle(&self) -> RunnerHandle {
        RunnerHandle::new(Arc::clone(&self.owned.shared))
    }
}

impl Worker for Runner {
    async fn run(self, stop: Stop) -> Outcome {
        let shared = &self.owned.shared;
        shared.belong_to(&stop);
        let life = async {
            tokio::select! {
                biased;
                () = stop.wait() => {}
                () = shared.failed() => {}
            }
            let patience = shared.stop_all();
            // What is left then is seen below.
            drop(timeout(patience, shared.emptied()).await);
        };
        passing_on_loss(life, &stop, || shared.lose_input()).await;
        let (fatal, left) = shared.end();
        if !left.is_empty() {
            let left = LeftBehind::new(left);
            tracing::error!(names = ?left.names(), "workers of a runner were left behind");
            return Err(fatal.unwrap_or_else(|| left.into()));
        }
        fatal.map_or(Ok(()), Err)
    }
}

/// The runner's own hold on its workers: they end with it, also when it is dropped.
struct Owned {
    shared: Arc<Shared>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        let ended = self.shared.end();
        self.shared.stop_all();
        self.shared.abort_all();
        // A fatal error may panic when it is dropped; nothing is left to be told then.
        drop(caught(|| drop(ended)));
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
