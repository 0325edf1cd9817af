//! Where the seats of the paths are.

use std::collections::HashMap;

use foldhash::fast::FixedState;

type Numbers = HashMap<String, usize, FixedState>;

/// How many of the seats that were looked up last are kept in mind.
const KEPT: usize = 64;

/// The seats by the engines and the names of their paths: looked up without writing a path.
#[derive(Default)]
pub(super) struct Places {
    engines: Vec<Place>,
    numbers: Numbers,
    /// Seats that were looked up, by where the names stood in memory: most often the next look
    /// comes with the same ones. Another name may stand there by then, so it is compared.
    recent: Vec<usize>,
}

/// One engine's path, and the seats of the names in it.
struct Place {
    path: String,
    is_killed: bool,
    seats: Numbers,
}

impl Places {
    /// Returns the number of an engine, which is a new one if it was never asked for.
    pub(super) fn engine(&mut self, path: &str) -> usize {
        self.number(path).unwrap_or_else(|| {
            let seats = Numbers::default();
            self.numbers.insert(path.to_owned(), self.engines.len());
            self.engines.push(Place { path: path.to_owned(), is_killed: false, seats });
            self.engines.len() - 1
        })
    }

    /// Returns the number of an engine that was asked for before.
    pub(super) fn number(&self, path: &str) -> Option<usize> {
        self.numbers.get(path).copied()
    }

    pub(super) fn path(&self, engine: usize) -> &str {
        &self.engines[engine].path
    }

    /// Returns the seat of a path.
    pub(super) fn find(&self, path: &str) -> Option<usize> {
        let (engine, name) = path.rsplit_once('/')?;
        self.seat(self.number(engine)?, name)
    }

    /// Returns the seat of a name in an engine.
    pub(super) fn seat(&self, engine: usize, name: &str) -> Option<usize> {
        self.engines[engine].seats.get(name).copied()
    }

    /// Gives a name in an engine a seat.
    pub(super) fn put(&mut self, engine: usize, name: &str, seat: usize) {
        self.engines[engine].seats.insert(name.to_owned(), seat);
    }

    /// Returns the seat of which a name that stood in the same place was the last one's.
    pub(super) fn recent(&self, name: &str) -> Option<usize> {
        self.recent.get(slot(name)).copied()
    }

    /// Keeps in mind whose seat a name is.
    pub(super) fn keep(&mut self, name: &str, seat: usize) {
        self.recent.resize(KEPT, seat);
        self.recent[slot(name)] = seat;
    }

    pub(super) fn is_killed(&self, engine: usize) -> bool {
        self.engines[engine].is_killed
    }

    /// Says that an engine was killed, and has not finished yet.
    pub(super) fn kill(&mut self, engine: usize) {
        self.engines[engine].is_killed = true;
    }

    /// Says that an engine has finished.
    pub(super) fn finish(&mut self, engine: usize) {
        self.engines[engine].is_killed = false;
    }
}

/// Returns where it is kept in mind whose seat a name is.
fn slot(name: &str) -> usize {
    // What is allocated begins at multiples of sixteen.
    (name.as_ptr().addr() >> 4) % KEPT
}
