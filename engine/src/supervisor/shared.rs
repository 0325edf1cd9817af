use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::engine::Life;
use crate::machine::NodeId;
use crate::seen::log::Log;
use crate::supervisor::inbox::Inbox;
use crate::supervisor::tree::Tree;
use crate::supervisor::{EventLoop, LastReport, Message};
use crate::vocabulary::clock::Clock;
use crate::vocabulary::policy::Policy;
use crate::vocabulary::settings::{Classifier, Filter, Settings};
use crate::worker::observe::Metrics;
use crate::worker::stop::Stop;
use crate::worker::wrap::Wrap;

/// What an engine's handles, its loop and its workers' tasks all see.
pub(crate) struct Shared {
    pub(crate) inbox: Inbox<EventLoop>,
    /// The engine's path: empty for one that has no name.
    pub(crate) path: Arc<str>,
    pub(crate) policy: Arc<Policy>,
    /// Of the order of starts and the jitter.
    pub(crate) seed: u64,
    pub(crate) filter: Option<Filter>,
    pub(crate) classifier: Classifier,
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
    /// What stands around all workers, also those of nested engines.
    pub(crate) wrap: Option<Arc<dyn Wrap>>,
    pub(crate) workers: Handle,
    pub(crate) driver: Handle,
    pub(crate) log: Arc<Log>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) life: watch::Receiver<Life>,
    /// The worker that a nested engine is in the outer one: it is not gone before the workers are
    /// that run in it.
    pub(crate) outer: Option<Stop>,
    /// The workers that were left behind at its end, those of nested engines too, by path.
    pub(crate) left_behind: OnceLock<Vec<String>>,
    /// Those that engines nested in it have left behind for good, until its own end.
    pub(crate) left_inside: Mutex<Vec<String>>,
    pub(crate) last_report: LastReport,
    pub(crate) clock: Clock,
}

impl Shared {
    /// Whether it is one of the engines of its tree: a nested engine that has ended is not.
    pub(crate) fn is_listed(&self) -> bool {
        self.outer.is_none() || !self.inbox.is_closed()
    }

    /// Returns the workers that were left behind; none before the engine's end.
    pub(crate) fn left_behind(&self) -> &[String] {
        self.left_behind.get().map_or(&[], Vec::as_slice)
    }

    /// Returns where a worker with these settings runs.
    pub(crate) fn runtime_of(&self, settings: Option<&Settings>) -> &Handle {
        let is_beside = settings.is_some_and(|settings| settings.is_beside_engine);
        if is_beside { &self.driver } else { &self.workers }
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        [&*self.path, "/", name].concat()
    }

    /// The engine's own path as it is shown.
    pub(crate) fn own_path(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tree.leave(&self.path);
    }
}

/// Keeps a name while someone outside follows it.
pub(crate) struct Pinned {
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: NodeId,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.shared.inbox.send(Message::Unpin(self.node));
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pinned")
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.own_path()).finish_non_exhaustive()
    }
}
