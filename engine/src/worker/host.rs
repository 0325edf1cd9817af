//! What a worker sees of its engine.

use std::any::Any;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use tokio::runtime::Handle;

use super::message::Message;
use super::metrics::Metrics;
use crate::machine::{Generation, NodeId};
use crate::seen::log::Log;
use crate::vocabulary::clock::Clock;
use crate::vocabulary::name::Text;
use crate::vocabulary::policy::Policy;
use crate::vocabulary::settings::{Classifier, Filter, Settings};

/// What all workers of an engine share.
pub(crate) struct Environment {
    /// The engine's path: empty for one that has no name.
    pub(crate) path: Arc<str>,
    pub(crate) policy: Arc<Policy>,
    /// Of the order of starts and the jitter.
    pub(crate) seed: u64,
    pub(crate) filter: Option<Filter>,
    pub(crate) classifier: Classifier,
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
    /// An `Arc<dyn Wrap>`. Its type is erased, because it is called with a context, which leads here.
    pub(crate) wrap: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) workers: Handle,
    pub(crate) driver: Handle,
    pub(crate) log: Arc<Log>,
    pub(crate) clock: Clock,
}

impl Environment {
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

/// A worker's way to its engine.
pub(crate) trait Host: Send + Sync {
    fn environment(&self) -> &Environment;

    /// Sends a message to the loop. After the loop has ended nobody reads it.
    fn send(&self, message: Message);

    /// Keeps an outer engine from taking this one for gone while the returned guard lives.
    fn linger_outside(&self) -> Option<Box<dyn Send>>;

    /// Returns what the engine's handles share.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Which worker something is about.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) node: NodeId,
    pub(crate) generation: Generation,
    /// How many workers the name has had, this one included.
    pub(crate) starts: u32,
    pub(crate) name: Text,
}

impl Identity {
    pub(crate) fn environment(&self) -> &Environment {
        self.host.environment()
    }

    /// Returns the worker's path.
    pub(crate) fn path(&self) -> String {
        self.environment().path_of(self.name.as_str())
    }

    pub(crate) fn seed(&self) -> u64 {
        FixedState::with_seed(self.environment().seed).hash_one((self.name.as_str(), self.starts))
    }
}
