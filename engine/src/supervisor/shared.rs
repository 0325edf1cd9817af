use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::EventLoop;
use super::inbox::Inbox;
use super::last_report::LastReport;
use super::life::Life;
use super::tree::Tree;
use crate::worker::host::{Environment, Host, Identity};
use crate::worker::message::Message;
use crate::worker::stop::Stop;

/// What an engine's handles and its loop share.
pub(crate) struct Shared {
    pub(crate) inbox: Inbox<EventLoop>,
    pub(crate) environment: Environment,
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
}

impl Shared {
    /// Returns what the engine of a worker shares with its handles.
    pub(crate) fn of(identity: &Identity) -> Arc<Self> {
        let shared = Arc::clone(&identity.host).into_any().downcast();
        shared.unwrap_or_else(|_| unreachable!("no other type is a host"))
    }

    /// Whether it is one of the engines of its tree: a nested engine that has ended is not.
    pub(crate) fn is_listed(&self) -> bool {
        self.outer.is_none() || !self.inbox.is_closed()
    }

    /// Returns the workers that were left behind; none before the engine's end.
    pub(crate) fn left_behind(&self) -> &[String] {
        self.left_behind.get().map_or(&[], Vec::as_slice)
    }
}

impl Host for Shared {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn send(&self, message: Message) {
        self.inbox.send(message);
    }

    fn linger_outside(&self) -> Option<Box<dyn Send>> {
        Some(Box::new(self.outer.as_ref()?.linger()))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tree.leave(&self.environment.path);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.environment.own_path()).finish_non_exhaustive()
    }
}
