//! The places of the seats of paths.

use std::collections::HashMap;

use foldhash::fast::FixedState;

type Numbers = HashMap<String, usize, FixedState>;

/// The seats by the engines and the names of their paths: looked up without writing a path.
#[derive(Default)]
pub(super) struct Places {
    engines: Vec<Place>,
    numbers: Numbers,
    /// The engine of the last question: most often the next question is about the same one.
    last: usize,
}

/// One engine's path, and the seats of the names in it.
struct Place {
    path: String,
    is_killed: bool,
    seats: Numbers,
}

impl Places {
    /// Returns the number of an engine, which is a new one for an engine that was never asked for.
    pub(super) fn engine(&mut self, path: &str) -> usize {
        if self.engines.get(self.last).is_none_or(|last| !is_same(&last.path, path)) {
            self.last = self.number(path).unwrap_or_else(|| self.add(path));
        }
        self.last
    }

    fn add(&mut self, path: &str) -> usize {
        let number = self.engines.len();
        self.numbers.insert(path.to_owned(), number);
        let seats = Numbers::default();
        self.engines.push(Place { path: path.to_owned(), is_killed: false, seats });
        number
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

    pub(super) fn is_killed(&self, engine: usize) -> bool {
        self.engines[engine].is_killed
    }

    /// Notes that an engine was killed, and has not finished yet.
    pub(super) fn kill(&mut self, engine: usize) {
        self.engines[engine].is_killed = true;
    }

    /// Notes that an engine has finished.
    pub(super) fn finish(&mut self, engine: usize) {
        self.engines[engine].is_killed = false;
    }
}

fn is_same(one: &str, other: &str) -> bool {
    // Most often both are empty. `memcmp` for AVX-512 reads by masks, which takes hundreds of cycles
    // where there is no memory, as behind an empty string.
    one.len() == other.len() && (one.is_empty() || one == other)
}
