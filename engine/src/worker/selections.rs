//! The selections that users make of each name's outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::machine::{NodeId, Port};
use crate::vocabulary::hash::Map;
use crate::vocabulary::selection::Selection;
use crate::vocabulary::value::{Kind, Value};

/// One selected part of an output.
#[derive(Clone)]
pub(crate) struct SelectedPart {
    pub(crate) port: Port,
    /// The type of the output.
    pub(crate) kind: &'static Kind,
    pub(crate) selection: Arc<dyn Selection>,
}

/// The selected parts of the outputs of each name. The loop adds and removes them. A worker that
/// publishes a value compares by them.
#[derive(Default)]
pub(crate) struct Selections {
    /// The number of nodes in `by_node`, for a quick look without the lock.
    len: AtomicUsize,
    by_node: Mutex<Map<NodeId, Arc<Parts>>>,
}

/// The selected parts of the outputs of one name, by the worker that asks for them.
pub(crate) type Parts = Map<NodeId, Vec<SelectedPart>>;

impl Selections {
    pub(crate) fn add(&self, node: NodeId, user: NodeId, part: SelectedPart) {
        let mut by_node = self.by_node.lock();
        Arc::make_mut(by_node.entry(node).or_default()).entry(user).or_default().push(part);
        self.len.store(by_node.len(), Ordering::Release);
    }

    /// Removes the parts that one user selects. The user's manifold still holds the selections, so
    /// no user code is dropped here.
    pub(crate) fn remove(&self, node: NodeId, user: NodeId) {
        let mut by_node = self.by_node.lock();
        let Some(parts) = by_node.get_mut(&node).map(Arc::make_mut) else { return };
        parts.remove(&user);
        if parts.is_empty() {
            by_node.remove(&node);
        }
        self.len.store(by_node.len(), Ordering::Release);
    }

    /// Takes all parts, at the end of the engine. `None` if there are none.
    pub(crate) fn take(&self) -> Option<impl Send + use<>> {
        self.len.store(0, Ordering::Release);
        Some(std::mem::take(&mut *self.by_node.lock())).filter(|parts| !parts.is_empty())
    }

    /// Returns the parts of a node's outputs; `None` if nobody selects any.
    pub(crate) fn of(&self, node: NodeId) -> Option<Arc<Parts>> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.by_node.lock().get(&node).cloned()
    }

    /// Returns the parts in which two values of one output do not differ. Runs user code.
    pub(crate) fn same_parts(
        &self,
        (node, kind): (NodeId, &'static Kind),
        one: &Value,
        other: &Value,
    ) -> Vec<Port> {
        let Some(parts) = self.of(node) else { return Vec::new() };
        let of_kind = parts.values().flatten().filter(|part| part.kind.is_same(kind));
        let same = of_kind.filter(|part| part.selection.is_same(one, other));
        same.map(|part| part.port).collect()
    }
}
