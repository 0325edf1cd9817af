//! The engines of a tree, found by their paths.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// An engine with the engines nested in it. The tree keeps none of them alive. It hides a nested
/// engine that has ended, since a former worker may still hold that engine.
///
/// No `Arc` of an engine is dropped under the lock: the drop of the last one takes the lock.
pub(crate) struct Tree<M> {
    engines: Mutex<BTreeMap<Arc<str>, Weak<M>>>,
}

/// One engine of a tree.
pub(crate) trait Member {
    fn path(&self) -> &Arc<str>;

    /// Whether the tree shows it: a nested engine that has ended is hidden.
    fn is_listed(&self) -> bool;
}

impl<M> Default for Tree<M> {
    fn default() -> Self {
        Self { engines: Mutex::default() }
    }
}

impl<M: Member> Tree<M> {
    /// Adds an engine. It replaces an earlier one with the same path.
    pub(crate) fn enter(&self, engine: &Arc<M>) {
        self.engines.lock().insert(Arc::clone(engine.path()), Arc::downgrade(engine));
    }

    /// Removes the engine with this path, unless a newer one has replaced it.
    pub(crate) fn leave(&self, path: &str) {
        let mut engines = self.engines.lock();
        if engines.get(path).is_some_and(|engine| engine.strong_count() == 0) {
            engines.remove(path);
        }
    }

    /// Returns the engine with this path.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<M>> {
        let engine = self.engines.lock().get(path).and_then(Weak::upgrade);
        engine.filter(|engine| engine.is_listed())
    }

    /// Returns the engines nested directly in the one with this path, by path.
    pub(crate) fn nested_in(&self, path: &str) -> Vec<Arc<M>> {
        let folder = format!("{path}/");
        let engines = self.engines.lock();
        let below = engines.range::<str, _>((Bound::Excluded(&*folder), Bound::Unbounded));
        let below = below.take_while(|(path, _)| path.starts_with(&folder));
        let direct = below.filter(|(path, _)| !path[folder.len()..].contains('/'));
        let mut direct: Vec<_> = direct.filter_map(|(_, engine)| engine.upgrade()).collect();
        drop(engines);
        direct.retain(|engine| engine.is_listed());
        direct
    }

    /// Returns all engines, by path.
    pub(crate) fn all(&self) -> Vec<Arc<M>> {
        let mut engines: Vec<_> = self.engines.lock().values().filter_map(Weak::upgrade).collect();
        engines.retain(|engine| engine.is_listed());
        engines
    }
}

impl<M> fmt::Debug for Tree<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.engines.lock().keys()).finish()
    }
}
