//! The failures and repairs of one resource in a row, and the wait after them.

use std::time::Duration;

use crankcase_engine::Backoff;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::schedule::repairs::Repairs;

/// The failures and repairs of one resource in a row, and the wait that they cause.
#[derive(Debug)]
pub(crate) struct RetryState {
    /// How many rounds in a row have failed.
    failures: u32,
    repairs: Repairs,
    /// Seeds the next draw of jitter.
    seed: u64,
}

impl RetryState {
    /// Returns the state without failures and repairs.
    pub(crate) fn new(seed: u64) -> Self {
        Self { failures: 0, repairs: Repairs::new(Duration::ZERO, 0), seed }
    }

    /// Sets how soon a repair is in a row with the one before, and how many in a row are tolerated.
    pub(crate) fn limit_repairs(&mut self, soon: Duration, tolerated: u32) {
        self.repairs.limit(soon, tolerated);
    }

    /// Returns how many rounds in a row have failed.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Notes a round that has failed, the last of at least this many in a row.
    pub(crate) fn fail(&mut self, at_least: u32) {
        self.failures = self.failures.saturating_add(1).max(at_least);
    }

    /// Notes a round that went well.
    pub(crate) fn end_failures(&mut self) {
        self.failures = 0;
    }

    /// Notes that the resource was repaired.
    pub(crate) fn note_repair(&mut self) {
        self.repairs.note();
    }

    /// Returns whether something else seems to change the resource whenever it is repaired.
    pub(crate) fn is_fought_over(&self) -> bool {
        self.repairs.excess() > 0
    }

    /// Returns whether the next look is one of a backoff.
    pub(crate) fn are_any(&self) -> bool {
        self.count() > 0
    }

    fn count(&self) -> u32 {
        self.failures.max(self.repairs.excess())
    }

    /// Returns how long the backoff is, if the resource has failed.
    pub(crate) fn delay(&mut self, backoff: &Backoff) -> Option<Duration> {
        if !self.are_any() {
            return None;
        }
        let jitter = self.jitter();
        let delay = backoff.delay(self.count(), || jitter);
        self.repairs.hold_back(delay);
        Some(delay)
    }

    /// Returns a time with the jitter of the backoff.
    pub(crate) fn spread(&mut self, every: Duration, backoff: &Backoff) -> Duration {
        let spread = backoff.clone().initial(every).max(every);
        let jitter = self.jitter();
        spread.delay(1, || jitter)
    }

    /// Returns another number from -1 to 1 each time. The generator is made anew each time: a
    /// resource draws a number every five minutes, which is not worth the memory of its state.
    fn jitter(&mut self) -> f64 {
        let mut random = StdRng::seed_from_u64(self.seed);
        self.seed = random.random();
        random.random_range(-1.0..=1.0)
    }
}
