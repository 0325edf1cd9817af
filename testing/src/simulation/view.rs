//! The state of all workers of a simulation at one moment, for its invariants.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crankcase_engine::EndKind;

use super::judge::{Judge, Phase, Seat};

/// The state of every worker at one moment, for the invariants of a simulation.
///
/// A worker is named by its path, such as `/site/web` or `site/web`. A path that no worker has in
/// any run of a simulation fails it, because a demand on such a path always holds.
pub struct View<'a> {
    judge: &'a Judge,
    at: Duration,
    /// The paths that were asked for and of which nothing is known.
    unknown: RefCell<BTreeSet<String>>,
}

impl<'a> View<'a> {
    pub(super) fn new(judge: &'a Judge, at: Duration) -> Self {
        Self { judge, at, unknown: RefCell::default() }
    }

    /// Returns the paths that were asked for and of which nothing is known.
    pub(super) fn unknown(self) -> BTreeSet<String> {
        self.unknown.into_inner()
    }

    fn seat(&self, path: &str) -> Option<&Seat> {
        let seat = self.judge.seat(&in_full(path));
        if seat.is_none() {
            self.unknown.borrow_mut().insert(path.to_owned());
        }
        seat
    }

    /// Returns the time since the beginning, by the paused clock.
    pub fn at(&self) -> Duration {
        self.at
    }

    /// Returns whether a worker is up and was not told to stop.
    pub fn is_up(&self, path: &str) -> bool {
        self.seat(path).is_some_and(Seat::is_up)
    }

    /// Returns whether a worker lives, in any stage from the beginning of its start to its end.
    pub fn is_live(&self, path: &str) -> bool {
        self.seat(path).is_some_and(|seat| seat.phase != Phase::Idle)
    }

    /// Returns the number of the present or last worker among those of its manifold; 0 before the
    /// first. If the manifold is taken out and installed again, the count begins anew at its next
    /// start.
    pub fn generation(&self, path: &str) -> u32 {
        self.seat(path).map_or(0, |seat| seat.generation)
    }

    /// Returns how many workers of a name have come up.
    pub fn starts(&self, path: &str) -> u64 {
        self.seat(path).map_or(0, |seat| seat.starts)
    }

    /// Returns how the last worker of a name ended.
    pub fn last_end(&self, path: &str) -> Option<EndKind> {
        self.seat(path)?.end
    }

    /// Returns the paths of all workers that are up.
    pub fn up(&self) -> impl Iterator<Item = &str> {
        self.judge.seats.iter().filter(|seat| seat.is_up()).map(|seat| &*seat.path)
    }
}

/// Returns a path in full. The engine of a simulation has no name.
pub(super) fn in_full(path: &str) -> Cow<'_, str> {
    match path.starts_with('/') {
        true => Cow::Borrowed(path),
        false => Cow::Owned(["/", path].concat()),
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("at", &self.at)
            .field("up", &self.up().collect::<Vec<_>>())
            .finish()
    }
}
