use std::time::Duration;

use tokio::time::Instant;

/// How many repairs, each soon after the one before, are nothing special. After more of them
/// something else seems to change the resource whenever it is mended, and it is mended less often.
const BORNE: u32 = 10;

/// Counts the repairs of one resource that come in a row.
#[derive(Debug)]
pub(super) struct Repairs {
    /// How soon after each other repairs are in a row.
    soon: Duration,
    count: u32,
    last: Option<Instant>,
}

impl Repairs {
    pub(super) fn new(soon: Duration) -> Self {
        Self { soon, count: 0, last: None }
    }

    /// Counts a repair.
    pub(super) fn note(&mut self) {
        self.count = self.recent().saturating_add(1);
        self.last = Some(Instant::now());
    }

    /// Returns how many repairs in a row are more than are borne.
    pub(super) fn excess(&self) -> u32 {
        self.recent().saturating_sub(BORNE)
    }

    fn recent(&self) -> u32 {
        self.last.filter(|last| last.elapsed() < self.soon).map_or(0, |_| self.count)
    }
}
