//! Which turn is next, and when.
//!
//! Invariants:
//! 1. A turn's number only grows, by one more than the turns that are skipped.
//! 2. A turn is not taken before it is due; how late it may be is at most half an interval, so that
//!    jitter alone skips none.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::config::{FirstTurn, MissedTurns, PeriodicConfig};

/// A turn that may be done now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) number: u64,
    pub(super) skipped: u64,
    /// When it was due, jitter aside.
    pub(super) at: Instant,
}

#[derive(Debug)]
pub(super) struct Schedule {
    every: Duration,
    jitter: f64,
    missed: MissedTurns,
    /// When turn 0 is due.
    origin: Instant,
    /// The next turn, if none is skipped any more.
    number: u64,
    /// How many were skipped since the last one.
    skipped: u64,
    /// What its beginning is put off by.
    put_off: Duration,
    random: SmallRng,
}

impl Schedule {
    pub(super) fn new(config: &PeriodicConfig, seed: u64, now: Instant) -> Self {
        let origin = match config.first {
            FirstTurn::AtOnce => now,
            FirstTurn::AfterInterval => now + config.every,
        };
        let mut schedule = Self {
            every: config.every,
            jitter: config.jitter,
            missed: config.missed,
            origin,
            number: 0,
            skipped: 0,
            put_off: Duration::ZERO,
            random: SmallRng::seed_from_u64(seed),
        };
        schedule.draw();
        schedule
    }

    /// Returns when the next turn begins; it may be past.
    pub(super) fn next(&self) -> Instant {
        self.due(self.number) + self.put_off
    }

    /// Takes the turn that begins `now`; not to be called before [`next`](Self::next).
    pub(super) fn take(&mut self, now: Instant) -> Due {
        let behind = self.last_due(now).saturating_sub(self.number);
        match self.missed {
            MissedTurns::Skip => self.skip(behind),
            MissedTurns::CatchUp { most } => self.skip(behind.saturating_sub(u64::from(most))),
        }
        let due = Due { number: self.number, skipped: self.skipped, at: self.due(self.number) };
        self.number += 1;
        self.skipped = 0;
        self.draw();
        due
    }

    /// Says that the turn that was taken has ended: of the turns that became due meanwhile, what is
    /// to be skipped is.
    pub(super) fn end(&mut self, now: Instant) {
        if self.missed == MissedTurns::Skip && self.due(self.number) < now {
            self.skip(self.last_due(now) - self.number);
            if self.due(self.number) < now {
                self.skip(1);
            }
        }
    }

    fn skip(&mut self, turns: u64) {
        self.number += turns;
        self.skipped += turns;
    }

    /// Returns the last turn that is due at `now`.
    fn last_due(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(since / self.every.as_nanos()).unwrap_or(u64::MAX)
    }

    fn due(&self, number: u64) -> Instant {
        let after = self.every.as_nanos().saturating_mul(number.into());
        let seconds = u64::try_from(after / 1_000_000_000).unwrap_or(u64::MAX);
        let nanos = u32::try_from(after % 1_000_000_000).unwrap_or_default();
        // A turn that no clock can express is never due.
        let far = || self.origin + Duration::from_secs(366 * 24 * 60 * 60);
        self.origin.checked_add(Duration::new(seconds, nanos)).unwrap_or_else(far)
    }

    fn draw(&mut self) {
        let fraction = self.jitter * self.random.random_range(0.0..=1.0);
        self.put_off = self.every.mul_f64(fraction);
    }
}
