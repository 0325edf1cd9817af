//! Tells when files and folders may have changed.
//!
//! One inotify instance serves all subscriptions. What is watched are folders: for a path, every
//! folder in which one of its components is looked up, through symlinks, from `/` on. So whatever
//! changes the meaning of the path is an event in a watched folder, and the deepest folder that
//! exists tells when the next component appears.
//!
//! Invariants:
//! 1. A folder is watched before an entry is looked up in it; an entry that changes after it was
//!    looked up is an event that is not yet read.
//! 2. A subscriber is told after its path was followed anew, so that what it then looks at is
//!    watched.
//! 3. The table is changed under its lock only, and a kernel watch is in the table exactly if a
//!    subscriber uses it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Outcome, Stop, Worker};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::config_error::ConfigError;

use self::events::Events;
use self::mounts::Mounts;
use self::table::Table;

mod events;
mod kernel;
mod mounts;
mod table;
mod trail;

/// How a [`Watcher`] behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WatcherConfig {
    /// How often a subscription with a [`WatchProblem`] is told to look. Default 30 s, at least
    /// 1 ms, at most 24 h.
    pub look_every: Duration,
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
        Err(ConfigError::new("look_every", value, "must be between 1 ms and 24 h"))
    }
}

/// Why a path cannot be watched at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The path does not begin at the root.
    #[error("cannot watch {path:?}: not an absolute path")]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// The watcher has ended; nothing will be told any more.
    #[error("the file watcher has ended")]
    Ended,
    /// The kernel's events cannot be read.
    #[error("cannot read file events")]
    Read {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Why a path is not watched by the kernel, in part or as a whole.
///
/// Its subscription is told periodically instead, until the cause is gone.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WatchProblem {
    /// There is no inotify instance: this process has too many open files, or its user too many
    /// instances (`fs.inotify.max_user_instances`).
    #[error("cannot open an inotify instance")]
    Instance {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The user has too many watches (`fs.inotify.max_user_watches`).
    #[error("cannot watch {folder:?}: the user's limit of inotify watches is reached")]
    Limit {
        /// The folder that is not watched.
        folder: PathBuf,
    },
    /// A folder cannot be watched, most often because it cannot be read.
    #[error("cannot watch {folder:?}")]
    Folder {
        /// The folder that is not watched.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A worker that reads the kernel's file events and tells subscriptions that their path may have
/// changed.
///
/// A process needs one. It is made before it runs, and subscriptions can be made from then on.
///
/// # Guarantees
///
/// - What changes after [`Watches::watch`] returned is told; it may be told more than once, together
///   with other changes, and without a change.
/// - Told are: writing, truncating, creating, deleting, renaming, changed attributes of the path and,
///   if it is a folder, of its direct entries; and the same for every folder and symlink on the way.
///   Also mounts on the way.
/// - When the kernel drops events, every subscription is told.
/// - Many paths in one folder use one kernel watch, which is released with the last of them.
///
/// Not told, because the kernel does not: writing through a shared memory map or through another
/// hard link, changes made by other hosts on a network file system, and of `/proc` and `/sys`.
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
    look_every: Duration,
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
        Ok(Self { owned, mounts: Mounts::open(), look_every: config.look_every })
    }

    /// Returns a handle that makes subscriptions.
    pub fn handle(&self) -> Watches {
        Watches { shared: Arc::clone(&self.owned.shared) }
    }
}

impl Worker for Watcher {
    async fn run(self, stop: Stop) -> Outcome {
        let Self { owned, mounts, look_every } = self;
        let shared = &owned.shared;
        let failed = |source| WatchError::Read { source };
        let mut look = interval(look_every);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut mounts = mounts.register().map_err(failed)?;
        let mut events = Events::default();
        loop {
            let (instance, has_problem) = {
                let table = shared.table.lock();
                (table.instance(), table.has_problem())
            };
            events.follow(instance).map_err(failed)?;
            // Events are last: they may never end, and the others are rare.
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                () = shared.woken.notified() => {}
                _ = look.tick(), if has_problem => shared.table.lock().look(),
                changed = mounts.changed() => {
                    changed.map_err(failed)?;
                    shared.table.lock().on_mounts_changed();
                }
                batch = events.next() => shared.table.lock().on_events(batch.map_err(failed)?),
            }
        }
    }
}

/// What the worker, the handles and the subscriptions share.
struct Shared {
    table: Mutex<Table>,
    /// Wakes the worker when a subscription has a problem from the start.
    woken: Notify,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.lock().fmt(f)
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

/// Makes subscriptions on one [`Watcher`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Watches {
    shared: Arc<Shared>,
}

impl Watches {
    /// Watches an absolute path, whether or not anything is there.
    ///
    /// Subscribe first, then look: no change after this returns is missed. It makes a few system
    /// calls for each component of the path, and so waits for a file system that does not answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is relative or the watcher has ended. A path that the kernel
    /// cannot watch is no error, see [`Subscription::problem`].
    pub fn watch(&self, path: &Path) -> Result<Subscription, WatchError> {
        if !path.is_absolute() {
            return Err(WatchError::Relative { path: path.to_owned() });
        }
        let mut table = self.shared.table.lock();
        let (id, told) = table.add(path).ok_or(WatchError::Ended)?;
        if told.borrow().is_some() {
            self.shared.woken.notify_one();
        }
        Ok(Subscription { id, path: path.to_owned(), told, shared: Arc::clone(&self.shared) })
    }
}

/// Tells that one path may have changed, until it is dropped.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    id: u64,
    path: PathBuf,
    told: watch::Receiver<Option<Arc<WatchProblem>>>,
    shared: Arc<Shared>,
}

impl Subscription {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the path may have changed since the last return, or since the subscription.
    ///
    /// Any number of changes in between are one.
    ///
    /// # Errors
    ///
    /// Returns [`WatchError::Ended`] when the watcher has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn changed(&mut self) -> Result<(), WatchError> {
        self.told.changed().await.map_err(|_| WatchError::Ended)
    }

    /// Returns why the kernel does not watch the whole path; `None` if it does.
    ///
    /// With a problem, [`changed`](Self::changed) also returns every
    /// [`look_every`](WatcherConfig::look_every), and the watch is tried again; so it does when the
    /// problem is gone.
    pub fn problem(&self) -> Option<Arc<WatchProblem>> {
        self.told.borrow().clone()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("path", &self.path)
            .field("problem", &self.problem())
            .finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.table.lock().remove(self.id);
    }
}
