//! Tells when files and folders may have changed.
//!
//! One inotify instance serves all subscriptions. It watches folders: for a path, every folder in
//! which one of its components is looked up, through symlinks, from `/` on. So whatever changes the
//! meaning of the path is an event in a watched folder, and the deepest folder that exists tells when
//! the next component appears. A file that has several names, or is a mount, is watched itself too: a
//! change through another name is no event in the folder.
//!
//! Invariants:
//! 1. A folder is watched before an entry is looked up in it; an entry that changes after it was
//!    looked up is an event that is not yet read.
//! 2. A subscriber is told after its path was followed anew, so that everything it then looks at is
//!    watched.
//! 3. The table is changed under its lock only, and a kernel watch is in the table exactly if a
//!    subscriber uses it.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{ConfigError, Outcome, Stop, Worker};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::condition::Condition;

pub use self::error::{WatchError, WatchLimits, WatchProblem};
pub use self::looks::WatchStatus;
pub use self::notifier::Writing;
pub use self::subscription::{Subscription, Watches, WatchesInput};

use self::events::Events;
use self::looks::Looks;
use self::mounts::Mounts;
use self::shared::Shared;
use self::table::Table;

mod error;
mod events;
mod kernel;
mod looks;
mod mounts;
mod notifier;
mod shared;
mod subscription;
mod table;
mod trail;

/// How a [`Watcher`] behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WatcherConfig {
    /// How long at most until a subscription with a [`WatchProblem`] is told to look, and its watch
    /// is tried again: after 1 s at first, then after twice as long each time. Default 30 s, at
    /// least 1 ms, at most 24 h.
    pub look_every: Duration,
}

crankcase_engine::setters! {
    WatcherConfig {
        look_every: Duration,
    }
    optional {}
}

impl Default for WatcherConfig {
    fn default() -> Self {
        Self { look_every: Duration::from_secs(30) }
    }
}

impl WatcherConfig {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first field that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let limits = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);
        if limits.contains(&self.look_every) {
            return Ok(());
        }
        let value = format!("{:?}", self.look_every);
        Err(ConfigError::new("look_every", value, "between 1 ms and 24 h"))
    }
}

/// A worker that reads the kernel's file events and tells subscriptions that their path may have
/// changed.
///
/// A process needs one. It is made before it runs, and subscriptions can be made from then on.
///
/// # Guarantees
///
/// - A subscription is told of every change after [`Watches::watch`] has returned. It may be told of a
///   change more than once, together with other changes, or without a change.
/// - These changes count: writing, truncating, creating, deleting, renaming, changed attributes of the path and,
///   if it is a folder, of its direct entries; and the same for every folder and symlink on the way.
///   Also mounts on the way.
/// - When the kernel drops events, every subscription is told.
/// - Many paths in one folder use one kernel watch, which is released with the last of them.
/// - If the kernel does not watch a folder, because of its limits for example, the watch is tried again until
///   it works. Subscriptions of the folder are told to look meanwhile, and nothing fails.
/// - A change through another hard link of the file, or through the other place of a file that is a mount, counts if
///   the other name was there when the path was followed last. Such a file has a kernel watch of its own.
///
/// These changes do not count, because the kernel does not report them: writing through a shared memory map or through
/// a hard link that was made later, changes made by other hosts on a network file system, and of `/proc` and `/sys`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use crankcase_engine::{Stop, Worker};
/// use crankcase_workers::{Watcher, WatcherConfig};
///
/// # let folder = tempfile::tempdir()?;
/// let watcher = Watcher::new(WatcherConfig::default())?;
/// let watches = watcher.handle();
/// let (stopper, stop) = Stop::pair();
/// let run = watcher.run(stop);
/// let watch = async {
///     let mut subscription = watches.watch(&folder.path().join("new/file"))?;
///     std::fs::create_dir(folder.path().join("new"))?;
///     subscription.changed().await?;
///     stopper.stop();
///     Ok::<(), Box<dyn std::error::Error>>(())
/// };
/// let (outcome, watched) = tokio::join!(run, watch);
/// # watched?;
/// assert!(outcome.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "subscriptions are told nothing until it runs"]
pub struct Watcher {
    owned: Owned,
    mounts: Mounts,
    looks: Looks,
}

impl Watcher {
    /// Opens the inotify instance and returns the worker.
    ///
    /// If there is none to be had, the worker tries again for each periodic look.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid.
    pub fn new(config: WatcherConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let shared = Shared { table: Mutex::new(Table::open()), woken: Notify::new() };
        let owned = Owned { shared: Arc::new(shared) };
        Ok(Self { owned, mounts: Mounts::open(), looks: Looks::new(config.look_every) })
    }

    /// Says whom it tells how well it does: it is degraded while a subscription has a problem, with
    /// how many and the first.
    pub fn telling(mut self, condition: Condition) -> Self {
        self.looks.condition = condition;
        self
    }

    /// Returns a handle that makes subscriptions.
    pub fn handle(&self) -> Watches {
        Watches::new(Arc::clone(&self.owned.shared))
    }
}

impl Worker for Watcher {
    async fn run(self, stop: Stop) -> Outcome {
        let Self { owned, mounts, mut looks } = self;
        let shared = &owned.shared;
        let failed = |source| WatchError::Read { source };
        let mut mounts = mounts.register().map_err(failed)?;
        let mut events = Events::default();
        loop {
            let (instance, problems) = {
                let table = shared.table.lock();
                (table.instance(), table.problems())
            };
            events.follow(instance).map_err(failed)?;
            looks.take(problems);
            // Events are last: they may never end, and the others are rare.
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                () = shared.woken.notified() => {}
                () = looks.next() => shared.table.lock().look(),
                changed = mounts.changed() => {
                    changed.map_err(failed)?;
                    shared.table.lock().on_mounts_changed();
                }
                batch = events.next() => shared.table.lock().on_events(batch.map_err(failed)?),
            }
        }
    }
}

/// The worker's own hold on what is shared: every subscription ends with it, also when the worker
/// is dropped, or never runs.
#[derive(Debug)]
struct Owned {
    shared: Arc<Shared>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.shared.table.lock().end();
    }
}
