//! When a turn of periodic work is due, and what becomes of turns that were missed.

use std::time::Duration;

use crankcase_engine::ConfigError;

/// The shortest and the longest interval.
const LIMITS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(366 * 24 * 60 * 60);

/// When a [`Periodic`](super::Periodic) does its work.
///
/// Turns are due on a grid: one every `every`, counted from when the worker began to run. So the
/// time that the work takes moves no later turn. A turn begins up to `jitter` of an interval after
/// it is due.
///
/// # Clocks
///
/// The grid is on the monotonic clock. Setting the wall clock, by hand or by a time service, moves
/// no turn. While the machine is suspended the monotonic clock of Linux stands still: what was left
/// of the interval is waited for afterwards, and no turn was missed. While the process alone is held
/// up (by SIGSTOP, a debugger, a runtime that is not polled) the clock goes on, and the turns that
/// have become due meanwhile are missed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PeriodicConfig {
    /// From one turn to the next. 1 ms to 366 days.
    pub every: Duration,
    /// How much later than due a turn may begin, as a fraction of `every` from 0 to 0.5. Default
    /// 0.1. Each turn draws anew.
    pub jitter: f64,
    /// When the first turn is due. Default at once.
    pub first: FirstTurn,
    /// What becomes of turns that were missed. Default skipped.
    pub missed: MissedTurns,
    /// The seed of the jitter. Default: that of the worker that it runs as
    /// ([`Stop::seed`](crankcase_engine::Stop::seed)), so that it follows from the engine's. Without
    /// an engine it is another one each time, so that machines that were started together do not work
    /// in step.
    pub seed: Option<u64>,
}

/// When the first turn of a [`Periodic`](super::Periodic) is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FirstTurn {
    /// When the worker begins to run.
    #[default]
    AtOnce,
    /// One interval later.
    AfterInterval,
}

/// What becomes of turns that were missed: that became due while an earlier one was still being
/// done, or while the process was held up.
///
/// Turns never overlap, whatever is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MissedTurns {
    /// They are skipped and counted. After a turn that took too long the next one is the next on the
    /// grid; after a hold-up the last one that became due is done, late.
    #[default]
    Skip,
    /// They are made up for, one right after the other, until the work is back on the grid.
    CatchUp {
        /// How many turns may be behind at most; older ones are skipped and counted. At least 1.
        most: u32,
    },
}

crankcase_engine::setters! {
    PeriodicConfig {
        every: Duration,
        jitter: f64,
        first: FirstTurn,
        missed: MissedTurns,
    }
    optional {
        seed: u64,
    }
}

impl PeriodicConfig {
    /// Returns a configuration with the defaults.
    pub fn new(every: Duration) -> Self {
        Self {
            every,
            jitter: 0.1,
            first: FirstTurn::default(),
            missed: MissedTurns::default(),
            seed: None,
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first field that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !LIMITS.contains(&self.every) {
            let value = format!("{:?}", self.every);
            return Err(ConfigError::new("every", value, "between 1 ms and 366 days"));
        }
        if !(0.0..=0.5).contains(&self.jitter) {
            return Err(ConfigError::new("jitter", self.jitter, "a fraction from 0 to 0.5"));
        }
        if self.missed == (MissedTurns::CatchUp { most: 0 }) {
            return Err(ConfigError::new("missed.most", 0, "at least 1"));
        }
        Ok(())
    }
}
