//! What a worker says that it waits for, apart from its declared inputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::host::{Host, Identity};
use super::message::Message;
use crate::machine::NodeId;

/// The number of the next wait in this process. It only tells waits apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// One wait of a worker. The engine knows of it until this is dropped.
pub(crate) struct Waiting {
    host: Arc<dyn Host>,
    node: NodeId,
    pub(crate) id: u64,
}

impl Waiting {
    /// Makes a wait of the worker at a node. The engine does not know of it yet.
    pub(crate) fn new(host: Arc<dyn Host>, node: NodeId) -> Self {
        Self { host, node, id: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Tells the engine what a worker waits for.
    pub(crate) fn begin(identity: &Identity, what: String) -> Self {
        let waiting = Self::new(Arc::clone(&identity.host), identity.node);
        let (node, generation, id) = (identity.node, identity.generation, waiting.id);
        identity.host.send(Message::Awaits { node, generation, id, what });
        waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.host.send(Message::AwaitOver { node: self.node, id: self.id });
    }
}
