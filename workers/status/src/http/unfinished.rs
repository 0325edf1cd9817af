//! Who gives way when all places are taken: whoever has not sent a whole request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crankcase_engine::{Stop, Stopper};
use parking_lot::Mutex;

/// The connections that have not sent a whole request, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    next: u64,
    told: BTreeMap<u64, Stopper>,
}

impl Unfinished {
    /// Adds a connection; returns its entry, and what tells it to give way.
    pub(crate) fn add(self: &Arc<Self>) -> (Entry, Stop) {
        let (stopper, give_way) = Stop::pair();
        let mut connections = self.0.lock();
        let number = connections.next;
        connections.next += 1;
        connections.told.insert(number, stopper);
        (Entry { number, unfinished: Arc::clone(self) }, give_way)
    }

    /// Tells the oldest connection to give way, if there is any.
    pub(crate) fn evict_oldest(&self) {
        if let Some((_, stopper)) = self.0.lock().told.pop_first() {
            stopper.stop();
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.told.keys()).finish()
    }
}

/// The entry of one connection; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Entry {
    number: u64,
    unfinished: Arc<Unfinished>,
}

impl Entry {
    /// Says that the whole request is there. Returns false if the connection was told to give way
    /// before; its request must not be carried out then, for nobody would hear the answer.
    pub(crate) fn finish(&self) -> bool {
        self.unfinished.0.lock().told.remove(&self.number).is_some()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.finish();
    }
}
