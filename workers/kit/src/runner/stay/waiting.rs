//! Those who wait for a stay to change.
//!
//! They cost it nothing until the first of them comes, as for most of many workers.

use std::sync::Arc;

use parking_lot::MutexGuard;

use super::state::{Phase, State};
use super::{Ending, Stay};

/// Lets go of a state that has changed, and tells those who wait.
pub(super) fn tell_change(state: MutexGuard<'_, State>) {
    let waiting = state.waiting.clone();
    drop(state);
    if let Some(waiting) = waiting {
        waiting.notify_waiters();
    }
}

impl Stay {
    /// Waits until `look` finds what it looks for.
    async fn until<T>(&self, look: impl Fn(&State) -> Option<T>) -> T {
        // Most who wait find it at once, and need not be told.
        let waiting = {
            let mut state = self.state.lock();
            if let Some(found) = look(&state) {
                return found;
            }
            Arc::clone(state.waiting.get_or_insert_default())
        };
        loop {
            // Before the look: what changes after it is told.
            let changed = waiting.notified();
            let found = look(&self.state.lock());
            match found {
                Some(found) => return found,
                None => changed.await,
            }
        }
    }

    /// Waits until it is the present one, or never will be.
    pub(in crate::runner) async fn begun(&self) -> bool {
        self.until(|state| match state.phase {
            Phase::Queued => None,
            Phase::Gone => Some(!matches!(state.ending, Some(Ending::Withdrawn))),
            _ => Some(true),
        })
        .await
    }

    /// Returns whether its worker is up, or never will be.
    pub(in crate::runner) fn is_up(&self) -> Option<bool> {
        self.state.lock().is_up()
    }

    /// Waits until its worker is up, or it has left.
    pub(in crate::runner) async fn up(&self) -> bool {
        self.until(State::is_up).await
    }

    /// Waits until the worker of a generation is gone.
    pub(in crate::runner) async fn bounced(&self, generation: u32) {
        let is_over = |state: &State| {
            let is_live = matches!(state.phase, Phase::Starting | Phase::Running);
            (!is_live || state.generation != generation).then_some(())
        };
        self.until(is_over).await;
    }

    /// Waits until it has left.
    pub(in crate::runner) async fn ended(&self) -> Ending {
        self.until(|state| state.ending.clone()).await
    }
}
