//! The faults that strike the workers of a simulation, and their shares of all starts.

use std::time::Duration;

use crankcase_engine::ConfigError;
use rand::{RngExt, SeedableRng};

/// The generator of random numbers. It is named, so that a seed gives the same numbers on all
/// machines.
pub(super) type Random = rand::rngs::Xoshiro256PlusPlus;

/// The longest time that differs from one without end. A clock that goes on by more at once may
/// come to its own end.
pub(super) const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The faults that strike the workers of a simulation, and how often each does.
///
/// Shares are of all starts, from 0 to 1; those of one moment add up to at most 1. They strike all
/// workers alike, also those of nested engines, but not [spared](super::Setup::spare) workers. A
/// fault strikes a start at its beginning, before its first poll, or before a later poll if earlier
/// starts of its path had more. A blocking worker is struck less often, because a fault can strike
/// it only at its beginning.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Faults {
    /// How many starts fail. Default 0.05.
    pub start_error: f64,
    /// How many starts panic. Default 0.03.
    pub start_panic: f64,
    /// How many starts never end, so that the start timeout ends them. Default 0.01.
    pub start_hang: f64,
    /// How many starts take up to [`slow`](Self::slow) longer. Default 0.15.
    pub start_slow: f64,
    /// How many workers fail while they run. Default 0.1.
    pub run_error: f64,
    /// How many workers panic while they run. Default 0.05.
    pub run_panic: f64,
    /// How many workers ask for a bounce while they run, and so come and go. Default 0.15.
    pub run_bounce: f64,
    /// How many workers do nothing any more at some moment, and ignore their stop. Default 0.02.
    pub run_hang: f64,
    /// How many workers take up to [`slow`](Self::slow) longer to stop. Default 0.15.
    pub stop_slow: f64,
    /// How many workers ignore their stop, so that their futures are dropped. Default 0.03.
    pub stop_ignored: f64,
    /// How many workers fail when they are told to stop. Default 0.05.
    pub stop_error: f64,
    /// How long after the beginning of a worker's run its fault strikes at the latest, in steps of
    /// 64 ms. Default 30 s; a year at most.
    pub within: Duration,
    /// The longest extra time of a slow start or stop, in steps of 64 ms. Default 5 s; a year at
    /// most.
    pub slow: Duration,
    /// The most times that each step of a worker lets other tasks go first. It shuffles the order
    /// of tasks. Default 3.
    pub yields: u32,
    /// The mean time between two control calls: bounce, park and unpark, uninstall and install,
    /// replacements by the same manifold with another input, and groups of them. Default 5 s. Zero,
    /// and a time longer than a year, mean never, here and in the next two fields.
    pub calls_every: Duration,
    /// The mean time between two new values of [inputs](super::Setup::input). Default 3 s.
    pub values_every: Duration,
    /// The mean time between two jumps of the clock. Default 2 min.
    pub jumps_every: Duration,
    /// How far the clock jumps at most. Default 10 min; a year at most.
    pub jump: Duration,
}

crankcase_engine::setters! {
    Faults {
        start_error: f64,
        start_panic: f64,
        start_hang: f64,
        start_slow: f64,
        run_error: f64,
        run_panic: f64,
        run_bounce: f64,
        run_hang: f64,
        stop_slow: f64,
        stop_ignored: f64,
        stop_error: f64,
        within: Duration,
        slow: Duration,
        yields: u32,
        calls_every: Duration,
        values_every: Duration,
        jumps_every: Duration,
        jump: Duration,
    }
    optional {}
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            start_error: 0.05,
            start_panic: 0.03,
            start_hang: 0.01,
            start_slow: 0.15,
            run_error: 0.1,
            run_panic: 0.05,
            run_bounce: 0.15,
            run_hang: 0.02,
            stop_slow: 0.15,
            stop_ignored: 0.03,
            stop_error: 0.05,
            within: Duration::from_secs(30),
            slow: Duration::from_secs(5),
            yields: 3,
            calls_every: Duration::from_secs(5),
            values_every: Duration::from_secs(3),
            jumps_every: Duration::from_secs(120),
            jump: Duration::from_secs(600),
        }
    }
}

impl Faults {
    /// Returns no faults at all.
    pub fn none() -> Self {
        Self {
            start_error: 0.0,
            start_panic: 0.0,
            start_hang: 0.0,
            start_slow: 0.0,
            run_error: 0.0,
            run_panic: 0.0,
            run_bounce: 0.0,
            run_hang: 0.0,
            stop_slow: 0.0,
            stop_ignored: 0.0,
            stop_error: 0.0,
            yields: 0,
            calls_every: Duration::ZERO,
            values_every: Duration::ZERO,
            jumps_every: Duration::ZERO,
            ..Self::default()
        }
    }

    /// Returns whether no fault strikes.
    pub(super) fn are_none(&self) -> bool {
        let Self { within, slow, jump, yields, .. } = *self;
        *self == Self { within, slow, jump, yields, ..Self::none() }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// Names the first field at fault, with its value and the expected form.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let moments = [
            ("start_error", &self.at_start()[..]),
            ("run_error", &self.at_run()[..]),
            ("stop_slow", &self.at_stop()[..]),
        ];
        for (first, shares) in moments {
            for (field, share) in shares {
                if !(0.0..=1.0).contains(share) {
                    return Err(ConfigError::new(field, share, "a share from 0 to 1"));
                }
            }
            let sum: f64 = shares.iter().map(|(_, share)| share).sum();
            if sum > 1.0 {
                let expected = "a share that with the others of its moment is at most 1";
                return Err(ConfigError::new(first, sum, expected));
            }
        }
        // The times between disturbances may have any length: a longer one means never.
        for (field, time) in [("within", self.within), ("slow", self.slow), ("jump", self.jump)] {
            if time > LONGEST {
                let (value, expected) = (format!("{time:?}"), "a year at most");
                return Err(ConfigError::new(field, value, expected));
            }
        }
        Ok(())
    }

    fn at_start(&self) -> [(&'static str, f64); 4] {
        [
            ("start_error", self.start_error),
            ("start_panic", self.start_panic),
            ("start_hang", self.start_hang),
            ("start_slow", self.start_slow),
        ]
    }

    fn at_run(&self) -> [(&'static str, f64); 4] {
        [
            ("run_error", self.run_error),
            ("run_panic", self.run_panic),
            ("run_bounce", self.run_bounce),
            ("run_hang", self.run_hang),
        ]
    }

    fn at_stop(&self) -> [(&'static str, f64); 3] {
        [
            ("stop_slow", self.stop_slow),
            ("stop_ignored", self.stop_ignored),
            ("stop_error", self.stop_error),
        ]
    }

    /// Returns the faults of one worker: the one with this number among those at this path.
    ///
    /// They depend on nothing else. So a fault that comes sooner or later at one path changes no
    /// fault at another one.
    pub(super) fn plan(&self, seed: u64, path: &str, nth: u64) -> Plan {
        let mut key = seed ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in path.bytes() {
            key = (key ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut random = Random::seed_from_u64(key);
        let start = match pick(&mut random, &self.at_start()) {
            Some(0) => Start::Error,
            Some(1) => Start::Panic,
            Some(2) => Start::Hang,
            Some(3) => Start::Slow(up_to(&mut random, self.slow)),
            _ => Start::Well,
        };
        let run = match pick(&mut random, &self.at_run()) {
            Some(0) => Some(Run::Error),
            Some(1) => Some(Run::Panic),
            Some(2) => Some(Run::Bounce),
            Some(3) => Some(Run::Hang),
            _ => None,
        };
        let run = run.map(|run| (run, up_to(&mut random, self.within)));
        let stop = match pick(&mut random, &self.at_stop()) {
            Some(0) => Stop::Slow(up_to(&mut random, self.slow)),
            Some(1) => Stop::Ignored,
            Some(2) => Stop::Error,
            _ => Stop::Well,
        };
        let mut yields = || random.random_range(0..=self.yields);
        let yields = [yields(), yields()];
        Plan { start, start_at: random.random(), run, stop, yields }
    }
}

/// The faults of one worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    pub(super) start: Start,
    /// The moment of the start at which its fault strikes: a random number, of which the remainder
    /// counts.
    pub(super) start_at: u32,
    pub(super) run: Option<(Run, Duration)>,
    pub(super) stop: Stop,
    /// How often it lets other tasks go first, before its start and before its run.
    pub(super) yields: [u32; 2],
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Start {
    Well,
    Error,
    Panic,
    Hang,
    Slow(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Run {
    Error,
    Panic,
    Bounce,
    Hang,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stop {
    Well,
    Slow(Duration),
    Ignored,
    Error,
}

/// Picks one of the shares, or none of them.
fn pick(random: &mut Random, shares: &[(&str, f64)]) -> Option<usize> {
    let mut left: f64 = random.random();
    shares.iter().position(|(_, share)| {
        left -= share;
        left < 0.0
    })
}

fn up_to(random: &mut Random, most: Duration) -> Duration {
    most.mul_f64(random.random())
}

/// Returns a random time with this mean; `None` for never.
pub(super) fn about(random: &mut Random, mean: Duration) -> Option<Duration> {
    let is_never = mean.is_zero() || mean > LONGEST;
    (!is_never).then(|| up_to(random, mean.saturating_mul(2)))
}
