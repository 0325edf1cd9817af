//! The memory of a resource, and the wakes for another look at it.

use std::fmt;
use std::time::Duration;

use crankcase_resources::{Action, BoxError};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

/// The memory of a resource from one call to the next.
#[derive(Default)]
pub(crate) struct Memory {
    /// Its state when it was last found stale, as its actions get it.
    pub(crate) stale: Mutex<Map<String, Value>>,
    /// The actions that were wanted then: no other one is done.
    pub(crate) wanted: Mutex<Vec<Action>>,
    waking: Mutex<Waking>,
}

/// A signal that wakes the keeper of the resource. An error is one of the watch.
pub(crate) type Signal = Result<(), BoxError>;

#[derive(Debug, Default)]
struct Waking {
    /// Not there in modes that end.
    signals: Option<Sender<Signal>>,
    /// The task that waits for the time of the next look. It ends when it is dropped.
    later: JoinSet<()>,
    /// The task that follows a watch. It ends when it is dropped.
    watch: JoinSet<()>,
}

/// Shows no state.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("waking", &self.waking).finish_non_exhaustive()
    }
}

impl Memory {
    /// Returns the sender and the receiver of signals from now on.
    pub(crate) fn listen(&self) -> (Sender<Signal>, Receiver<Signal>) {
        let (sender, receiver) = channel(1);
        self.waking.lock().signals = Some(sender.clone());
        (sender, receiver)
    }

    /// Follows this watch, and no other one any more. It must not hold this memory.
    pub(crate) fn follow(&self, watch: impl Future<Output = ()> + Send + 'static) {
        let mut waking = self.waking.lock();
        waking.watch = JoinSet::new();
        waking.watch.spawn(watch);
    }

    /// Requests a look at the resource after a while, in place of the look that was requested
    /// before.
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
