//! The lives of the workers of a manifold under test.

use std::collections::BTreeMap;
use std::sync::Arc;

use crankcase_engine::{Context, Exit, Manifold, Stop};
use parking_lot::Mutex;

use crate::bare::copy_of;

/// What is around each worker under test: it keeps their errors, which events have as text only,
/// and lets none start after one that has ended by itself.
#[derive(Clone, Default)]
pub(super) struct Lives {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    present: Option<(u32, Stop)>,
    /// The errors of the workers, by their generations.
    exits: BTreeMap<u32, Exit>,
    is_over: bool,
}

impl Lives {
    pub(super) fn around(&self, manifold: Manifold) -> Manifold {
        let (admits, filters) = (self.clone(), self.clone());
        manifold
            .admitted((), move |(), ctx| admits.begin(ctx))
            .filter(move |exit| Err(filters.keep(exit)))
    }

    fn begin(&self, ctx: &Context) -> Result<Living, Exit> {
        let mut state = self.state.lock();
        if state.is_over {
            return Err(Exit::missing("it has ended by itself, and the test starts it once"));
        }
        state.present = Some((ctx.generation(), ctx.stop().clone()));
        Ok(Living { lives: self.clone(), stop: ctx.stop().clone() })
    }

    /// Keeps an error, and returns what the engine is told of it.
    fn keep(&self, exit: Exit) -> Exit {
        let mut state = self.state.lock();
        let (Some((generation, stop)), true) = (&state.present, exit.error().is_some()) else {
            return exit;
        };
        let (generation, was_told) = (*generation, stop.is_stopped());
        let (text, told) = (exit.to_string(), copy_of(&exit));
        state.exits.insert(generation, exit);
        // Not a failure: it would be started again.
        if was_told { told } else { Exit::Missing(text) }
    }

    /// Returns the error of a worker, once.
    pub(super) fn take(&self, generation: u32) -> Option<Exit> {
        self.state.lock().exits.remove(&generation)
    }
}

/// A worker under test, until nothing is left of it.
struct Living {
    lives: Lives,
    stop: Stop,
}

impl Drop for Living {
    fn drop(&mut self) {
        if !self.stop.is_stopped() {
            self.lives.state.lock().is_over = true;
        }
    }
}
