//! What tells that a resource may have changed, as its kind names it.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;

use crate::base::error::BoxError;
use crate::state::world::WatchedFact;

/// How to learn that a resource's state may have changed: any of these, or several.
///
/// A resource is looked at after its watch is armed, so that nothing is missed between the two.
/// What comes while it is looked at or acted on is seen afterwards, as one event. A watch that fails
/// is asked for again after a backoff, and until then nothing is done to the resource.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use crankcase_resources::Watch;
/// use tokio::sync::mpsc;
///
/// let (bus, signals) = mpsc::channel(1);
/// let watch = Watch::never().path("/etc/motd").every(Duration::from_secs(60)).signals(signals);
/// // The listener sends on each event. If the channel is full, an event is pending already.
/// let _ = bus.try_send(Ok(()));
/// # drop(watch);
/// ```
#[derive(Default)]
#[must_use]
pub struct Watch {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) reads: Vec<PathBuf>,
    pub(crate) every: Option<Duration>,
    pub(crate) instants: Vec<Instants>,
    pub(crate) signals: Vec<mpsc::Receiver<Result<(), BoxError>>>,
    pub(crate) facts: Vec<WatchedFact>,
}

/// Returns the first instant after this one.
pub(crate) type Instants = Box<dyn Fn(SystemTime) -> Option<SystemTime> + Send + Sync>;

impl Watch {
    /// Returns the watch of what changes only by the resource's own actions.
    pub fn never() -> Self {
        Self::default()
    }

    /// Watches a file or folder, whether it exists or not. A relative path begins at the agent's
    /// working directory.
    pub fn path(self, path: impl Into<PathBuf>) -> Self {
        self.paths([path.into()])
    }

    /// Watches these files and folders, whether they exist or not.
    pub fn paths(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.paths.extend(paths);
        self
    }

    /// Watches files that the resource reads and that people edit, such as templates. After a change the resource is
    /// looked at only when they were left alone for a while, so that it never takes a part of an edit for the whole:
    /// for 500 ms unless [`Reconcile::quiet`](crate::run::Reconcile::quiet) says otherwise.
    pub fn reads(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.reads.extend(paths);
        self
    }

    /// Has the resource looked at again at this interval, at least 10 ms, give or take the jitter
    /// of the agent.
    pub fn every(mut self, interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(10));
        self.every = Some(self.every.map_or(interval, |other| other.min(interval)));
        self
    }

    /// Has it looked at again at certain instants, without jitter.
    ///
    /// `next` returns the first one after the time that it is given, if there is another. It is
    /// asked again after each of them, and once a minute, as somebody may set the clock.
    pub fn instants(
        mut self,
        next: impl Fn(SystemTime) -> Option<SystemTime> + Send + Sync + 'static,
    ) -> Self {
        self.instants.push(Box::new(next));
        self
    }

    /// Has it looked at again when the kind itself says so: an error, or the end of the channel, is
    /// a failure of the watch.
    pub fn signals(mut self, signals: mpsc::Receiver<Result<(), BoxError>>) -> Self {
        self.signals.push(signals);
        self
    }

    /// Has it looked at again when a fact has changed.
    pub fn fact(mut self, fact: WatchedFact) -> Self {
        self.facts.push(fact);
        self
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Watch");
        shown.field("paths", &self.paths).field("reads", &self.reads).field("every", &self.every);
        shown.field("instants", &self.instants.len()).field("signals", &self.signals.len());
        shown.field("facts", &self.facts);
        shown.finish()
    }
}
