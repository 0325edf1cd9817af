//! The judge's knowledge of how the workers of a path start.

/// How often any worker is asked, before it is up, whether it may go on: at its beginning, and
/// before its first poll.
pub(super) const SURE: u32 = 2;

/// How many starts of a path teach how often its starts are asked.
const LESSONS: u32 = 8;

/// How often the starts of one path are asked whether they may go on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Starts {
    /// The smallest number that was seen.
    asks: u32,
    /// How many starts were looked at.
    lessons: u32,
}

impl Starts {
    pub(super) fn asks(self) -> u32 {
        self.asks.max(SURE)
    }

    /// Returns whether more starts are to be looked at.
    pub(super) fn are_new(self) -> bool {
        self.lessons < LESSONS
    }

    /// Enters how often a start was asked.
    pub(super) fn learn(&mut self, asks: u32) {
        self.asks = if self.lessons == 0 { asks } else { asks.min(self.asks) };
        self.lessons += 1;
    }
}
