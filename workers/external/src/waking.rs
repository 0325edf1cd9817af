//! What a resource remembers, and what has it looked at again.

use std::fmt;
use std::time::Duration;

use crankcase_resources::{Action, BoxError};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

/// What a resource remembers from one call to the next.
#[derive(Default)]
pub(crate) struct Memory {
    /// Its state when it was found stale last, as its actions are told.
    pub(crate) stale: Mutex<Map<String, Value>>,
    /// The actions that were wanted then: no other one is done.
    pub(crate) wanted: Mutex<Vec<Action>>,
    waking: Mutex<Waking>,
}

/// What wakes whoever keeps the resource. An error is one of the watch.
pub(crate) type Signal = Result<(), BoxError>;

#[derive(Debug, Default)]
struct Waking {
    /// Not there in modes that end.
    signals: Option<Sender<Signal>>,
    /// What waits for the time of the next look. Dropped, it ends.
    later: JoinSet<()>,
    /// What follows a watch. Dropped, it ends.
    watch: JoinSet<()>,
}

/// Shows no state.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("waking", &self.waking).finish_non_exhaustive()
    }
}

impl Memory {
    /// Returns what tells of signals from now on, and what gives them.
    pub(crate) fn listen(&self) -> (Sender<Signal>, Receiver<Signal>) {
        let (sender, receiver) = channel(1);
        self.waking.lock().signals = Some(sender.clone());
        (sender, receiver)
    }

    /// Follows a watch, and no other one any more. It must not hold this memory.
    pub(crate) fn follow(&self, watch: impl Future<Output = ()> + Send + 'static) {
        let mut waking = self.waking.lock();
        waking.watch = JoinSet::new();
        waking.watch.spawn(watch);
    }

    /// Has the resource looked at after a while, and not at the time that was set before.
    pub(crate) fn wake_after(&self, delay: Option<Duration>) {
        let mut waking = self.waking.lock();
        waking.later = JoinSet::new();
        let (Some(delay), Some(signals)) = (delay, waking.signals.clone()) else { return };
        waking.later.spawn(async move {
            tokio::time::sleep(delay).await;
            // If there is no room, a signal is there already.
            let _room = signals.try_send(Ok(()));
        });
    }
}
