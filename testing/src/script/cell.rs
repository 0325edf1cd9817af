//! What a script's workers are to do, shared with the test.

use std::collections::VecDeque;
use std::time::Duration;

use crankcase_engine::{Exit, Outcome};
use parking_lot::Condvar;

use crate::signal::Signal;

/// What a running worker does.
pub(super) enum Act {
    End(Outcome),
    Panic(String),
    Block,
}

/// How a start goes.
pub(super) enum Opening {
    Fail(Exit),
    Panic(String),
    Hold,
}

/// How a worker ends that was told to stop.
pub(super) enum Parting {
    Answer(Outcome),
    After(Duration, Outcome),
    Ignore,
}

#[derive(Default)]
pub(super) struct Cell {
    state: Signal<State>,
    unblocked: Condvar,
}

#[derive(Default)]
struct State {
    acts: VecDeque<Act>,
    openings: VecDeque<Opening>,
    partings: VecDeque<Parting>,
    /// How often the script was released: what is held waits for the next time.
    releases: u64,
    /// How many starts are held now.
    held: usize,
    /// How many workers block their threads now.
    blocked: usize,
}

impl Cell {
    pub(super) fn push(&self, act: Act) {
        self.state.change(|state| state.acts.push_back(act));
    }

    pub(super) fn open_with(&self, opening: Opening) {
        self.state.lock().openings.push_back(opening);
    }

    pub(super) fn part_with(&self, parting: Parting) {
        self.state.lock().partings.push_back(parting);
    }

    pub(super) fn release(&self) {
        self.state.change(|state| state.releases += 1);
        self.unblocked.notify_all();
    }

    /// Waits for the next thing to do.
    pub(super) async fn next(&self) -> Act {
        self.state.wait_for(|state| state.acts.pop_front()).await
    }

    /// Goes through a start.
    pub(super) async fn open(&self) -> Outcome {
        let opening = self.state.lock().openings.pop_front();
        match opening {
            None => Ok(()),
            Some(Opening::Fail(exit)) => Err(exit),
            Some(Opening::Panic(message)) => panic!("{message}"),
            Some(Opening::Hold) => {
                let _held = Held::new(self);
                self.released().await;
                Ok(())
            }
        }
    }

    /// Waits until a start is held.
    pub(super) async fn held(&self) {
        self.state.wait_for(|state| (state.held > 0).then_some(())).await;
    }

    /// Ends a worker that was told to stop.
    pub(super) async fn part(&self) -> Outcome {
        let parting = self.state.lock().partings.pop_front();
        match parting {
            None => Ok(()),
            Some(Parting::Answer(outcome)) => outcome,
            Some(Parting::After(delay, outcome)) => {
                tokio::time::sleep(delay).await;
                outcome
            }
            Some(Parting::Ignore) => {
                self.released().await;
                Ok(())
            }
        }
    }

    /// Blocks the thread until the next release.
    pub(super) fn block(&self) {
        let mut state = self.state.lock();
        let before = state.releases;
        state.blocked += 1;
        self.state.wake();
        self.unblocked.wait_while(&mut state, |state| state.releases == before);
        state.blocked -= 1;
    }

    /// Waits until a worker blocks its thread.
    pub(super) async fn blocked(&self) {
        self.state.wait_for(|state| (state.blocked > 0).then_some(())).await;
    }

    async fn released(&self) {
        let before = self.state.lock().releases;
        self.state.wait_for(|state| (state.releases > before).then_some(())).await;
    }
}

/// A start that is held, until it goes on or is dropped.
struct Held<'a>(&'a Cell);

impl<'a> Held<'a> {
    fn new(cell: &'a Cell) -> Self {
        cell.state.change(|state| state.held += 1);
        Self(cell)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.state.lock().held -= 1;
    }
}
