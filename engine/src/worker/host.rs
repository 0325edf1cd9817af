//! The interface through which a worker reaches its engine.

use std::any::Any;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use tokio::runtime::Handle;

use super::message::Message;
use super::metrics::Metrics;
use super::selections::Selections;
use crate::machine::{Generation, NodeId};
use crate::seen::event::Origin;
use crate::seen::log::Log;
use crate::vocabulary::clock::Clock;
use crate::vocabulary::name::Text;
use crate::vocabulary::policy::Policy;
use crate::vocabulary::settings::{Classifier, Filter, Settings};

/// The settings and handles that all workers of an engine share.
pub(crate) struct Environment {
    /// The engine's path. Empty for an engine without a name.
    pub(crate) path: Arc<str>,
    pub(crate) policy: Arc<Policy>,
    /// The seed for the order of starts, the jitter and the seeds of the workers.
    pub(crate) seed: u64,
    pub(crate) filter: Option<Filter>,
    pub(crate) classifier: Classifier,
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
    /// An `Arc<dyn Wrap>`. Its type is erased because `Wrap` uses `Context`, and `Context` uses
    /// this type.
    pub(crate) wrap: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) workers: Handle,
    pub(crate) driver: Handle,
    pub(crate) log: Arc<Log>,
    pub(crate) clock: Clock,
    pub(crate) selections: Selections,
    /// Whether workers that pass values across borders are shown like all others.
    pub(crate) shows_carriers: bool,
}

impl Environment {
    /// Returns the runtime for a worker with these settings.
    pub(crate) fn runtime_of(&self, settings: Option<&Settings>) -> &Handle {
        let is_beside = settings.is_some_and(|settings| settings.is_beside_engine);
        if is_beside { &self.driver } else { &self.workers }
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        [&*self.path, "/", name].concat()
    }

    /// Returns the engine's path for display: `/` if the engine has no name.
    pub(crate) fn own_path(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }
}

/// The engine, as its workers see it.
pub(crate) trait Host: Send + Sync {
    fn environment(&self) -> &Environment;

    /// Sends a message to the loop. After the loop has ended, the message is not read.
    fn send(&self, message: Message);

    /// Like [`send`](Self::send), but may take a turn of the loop itself. Only for a worker's task,
    /// and not from a call of user code, which may hold a lock that a waker wants.
    fn tell(&self, message: Message);

    /// Returns a guard that keeps this nested engine from counting as gone in its outer engine.
    /// `None` for an outermost engine.
    fn linger_outside(&self) -> Option<Box<dyn Send>>;

    /// Returns the state that the engine's handles share.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// One generation of a worker, with its engine.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) node: NodeId,
    pub(crate) generation: Generation,
    /// The number of this worker among all that the name has had. The first is 1.
    pub(crate) starts: u32,
    pub(crate) name: Text,
    /// The origin of the bounce or unpark that this worker was started after.
    pub(crate) asked_by: Option<Arc<Origin>>,
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
