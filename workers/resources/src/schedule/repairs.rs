//! The repairs of one resource that come in a row.

use std::time::Duration;

use tokio::time::Instant;

/// Counts the repairs of one resource that come in a row.
#[derive(Debug)]
pub(crate) struct Repairs {
    /// A repair is in a row with the one before if it comes this soon after it could come.
    soon: Duration,
    /// How many repairs in a row are made at once.
    tolerated: u32,
    /// How long the resource is not looked at after the last repair.
    held_back: Duration,
    count: u32,
    last: Option<Instant>,
}

impl Repairs {
    pub(crate) fn new(soon: Duration, tolerated: u32) -> Self {
        Self { soon, tolerated, held_back: Duration::ZERO, count: 0, last: None }
    }

    /// Sets how soon a repair is in a row with the one before, and how many in a row are tolerated.
    pub(crate) fn limit(&mut self, soon: Duration, tolerated: u32) {
        (self.soon, self.tolerated) = (soon, tolerated);
    }

    /// Counts a repair.
    pub(crate) fn note(&mut self) {
        self.count = self.recent().saturating_add(1);
        (self.last, self.held_back) = (Some(Instant::now()), Duration::ZERO);
    }

    /// Notes that the next look is delayed on purpose. A repair that was delayed still counts as
    /// one in a row.
    pub(crate) fn hold_back(&mut self, delay: Duration) {
        self.held_back = delay;
    }

    /// Returns how many repairs in a row there are beyond those that are tolerated.
    pub(crate) fn excess(&self) -> u32 {
        self.recent().saturating_sub(self.tolerated)
    }

    fn recent(&self) -> u32 {
        let soon = self.soon.saturating_add(self.held_back);
        self.last.filter(|last| last.elapsed() < soon).map_or(0, |_| self.count)
    }
}
