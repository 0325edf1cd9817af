//! The subscription that tells of changes at one path, and the handle that makes it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crankcase_engine::Live;

use super::error::{WatchError, WatchProblem};
use super::looks::WatchStatus;
use super::notifier::{Changes, Writing};
use super::shared::Shared;

/// Makes subscriptions on one [`Watcher`](crate::Watcher). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Watches {
    shared: Arc<Shared>,
}

impl Watches {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

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
        let path: Arc<Path> = path.into();
        let mut table = self.shared.table.lock();
        let (id, changes) = table.add(&path).ok_or(WatchError::Ended)?;
        if changes.problem().is_some() {
            self.shared.woken.notify_one();
        }
        Ok(Subscription { id, path, changes, shared: Arc::clone(&self.shared) })
    }

    /// Returns what is watched now.
    pub fn status(&self) -> WatchStatus {
        self.shared.table.lock().status()
    }
}

/// Where a worker has its [`Watches`] from: from one watcher for good, or from each that an engine
/// has in turn.
///
/// With a [`Live`] input a watcher that fails and comes back costs no bounce of those who follow
/// files.
#[derive(Debug, Clone)]
pub struct WatchesInput(Source);

#[derive(Debug, Clone)]
enum Source {
    Fixed(Watches),
    Live(Live<Watches>),
}

impl WatchesInput {
    /// Watches a path; from a live input, as soon as there is a watcher that runs.
    pub(crate) async fn watch(&mut self, path: &Path) -> Result<Subscription, WatchError> {
        let live = match &mut self.0 {
            Source::Fixed(watches) => return watches.watch(path),
            Source::Live(live) => live,
        };
        let mut next = live.get();
        loop {
            match next.map(|watches| watches.watch(path)) {
                // It has ended, and the engine is about to say so.
                Some(Err(WatchError::Ended)) | None => {
                    next = live.changed().await.map_err(|_gone| WatchError::Ended)?;
                }
                Some(watched) => return watched,
            }
        }
    }
}

impl From<Watches> for WatchesInput {
    fn from(watches: Watches) -> Self {
        Self(Source::Fixed(watches))
    }
}

impl From<Live<Watches>> for WatchesInput {
    fn from(watches: Live<Watches>) -> Self {
        Self(Source::Live(watches))
    }
}

/// Tells that one path may have changed, until it is dropped.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    id: u64,
    path: Arc<Path>,
    changes: Changes,
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
        self.changes.changed().await.map_err(|_ended| WatchError::Ended)
    }

    /// Returns whether the file at the path is being written, as far as changes were reported until now. Of a folder
    /// it says nothing.
    pub fn writing(&self) -> Writing {
        self.changes.writing()
    }

    /// Returns why the kernel does not watch the whole path; `None` if it does.
    ///
    /// With a problem, [`changed`](Self::changed) also returns within each
    /// [`look_every`](crate::WatcherConfig::look_every), when the watch is tried again; so it does
    /// when the problem is gone.
    pub fn problem(&self) -> Option<Arc<WatchProblem>> {
        self.changes.problem()
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
