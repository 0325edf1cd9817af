//! How long a failed worker waits before its next start, and how many failures are too many.

use std::time::Duration;

use crate::vocabulary::error::ConfigError;

/// How long a failed worker waits before it is started again.
///
/// The wait starts at `initial` and grows by `factor` with each failure in a row, up to `max`. The
/// `jitter` then spreads it, so that workers that failed together do not come back together. A
/// worker that ran well for `reset_after` begins again at `initial`.
///
/// This is capped exponential backoff with proportional jitter. Jitter is applied after the cap, so
/// that workers do not stay in step at the cap.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use crankcase_engine::Backoff;
///
/// let backoff = Backoff::default().initial(Duration::from_millis(100));
/// assert_eq!(backoff.base(1), Duration::from_millis(100));
/// assert_eq!(backoff.base(3), Duration::from_millis(400));
/// assert_eq!(backoff.base(u32::MAX), Duration::from_secs(120));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Backoff {
    /// The wait after a first failure. Default 1 s. With zero, every restart is immediate.
    pub initial: Duration,
    /// The factor by which each further failure multiplies the wait, at least 1. Default 2.
    pub factor: f64,
    /// The longest wait before jitter. Default 2 min.
    pub max: Duration,
    /// The spread to either side, as a fraction of the wait, from 0 to 1. Default 0.2.
    pub jitter: f64,
    /// How long a worker must run before its failures are forgotten. Default 1 min.
    pub reset_after: Duration,
}

crate::setters! {
    Backoff {
        initial: Duration,
        factor: f64,
        max: Duration,
        jitter: f64,
        reset_after: Duration,
    }
    optional {}
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(120),
            jitter: 0.2,
            reset_after: Duration::from_secs(60),
        }
    }
}

impl Backoff {
    /// Returns a backoff that never waits.
    pub fn none() -> Self {
        Self { initial: Duration::ZERO, jitter: 0.0, ..Self::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first invalid field, its value and what is expected.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(self.factor.is_finite() && self.factor >= 1.0) {
            return Err(ConfigError::new("backoff.factor", self.factor, "a number from 1"));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(ConfigError::new("backoff.jitter", self.jitter, "a fraction from 0 to 1"));
        }
        if self.max < self.initial {
            let value = humantime::format_duration(self.max);
            return Err(ConfigError::new("backoff.max", value, "at least backoff.initial"));
        }
        Ok(())
    }

    /// Returns the wait after the given number of failures in a row, without jitter.
    ///
    /// It is zero for zero failures, never shrinks as `failures` grows, and is never above `max`.
    pub fn base(&self, failures: u32) -> Duration {
        if failures == 0 || self.initial.is_zero() {
            return Duration::ZERO;
        }
        // Past 2^31 failures the exponent saturates, and the wait stays the same.
        let exponent = i32::try_from(failures - 1).unwrap_or(i32::MAX);
        let seconds = self.initial.as_secs_f64() * self.factor.powi(exponent);
        // A product that is too large for a `Duration` is above the cap.
        Duration::try_from_secs_f64(seconds).map_or(self.max, |wait| wait.min(self.max))
    }

    /// Returns the wait after the given number of failures in a row, with jitter.
    ///
    /// It lies between `base(failures) * (1 - jitter)` and `base(failures) * (1 + jitter)`. `draw`
    /// returns where: a number from -1, the lower end, to 1, the upper one, each as likely as any
    /// other. A number beyond an end is taken for that end. `draw` is called once, or not at all if
    /// there is nothing to spread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use crankcase_engine::Backoff;
    ///
    /// let backoff = Backoff::default().jitter(0.5);
    /// assert_eq!(backoff.delay(1, || -1.0), Duration::from_millis(500));
    /// assert_eq!(backoff.delay(1, || 1.0), Duration::from_millis(1500));
    /// ```
    pub fn delay(&self, failures: u32, draw: impl FnOnce() -> f64) -> Duration {
        self.spread(self.base(failures), draw)
    }

    /// Spreads a wait by the jitter; see [`delay`](Self::delay).
    pub(crate) fn spread(&self, wait: Duration, draw: impl FnOnce() -> f64) -> Duration {
        if wait.is_zero() || self.jitter == 0.0 {
            return wait;
        }
        let factor = 1.0 + self.jitter * draw().clamp(-1.0, 1.0);
        Duration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(wait)
    }
}

/// A limit on the failures of a worker within a period. A worker that exceeds it is parked.
///
/// A parked worker is reported with its last error. It is started again only by a change of an
/// input, or by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Intensity {
    /// How many failures are allowed within the period. One more parks the worker.
    pub failures: u32,
    /// The length of the sliding period.
    pub within: Duration,
}

impl Intensity {
    /// Returns a limit of so many failures within a period.
    pub fn new(failures: u32, within: Duration) -> Self {
        Self { failures, within }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// When the period is zero: it could never hold two failures.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.within.is_zero() {
            return Err(ConfigError::new("intensity.within", "0s", "a period above zero"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;
    use proptest::prelude::{any, prop_assert, proptest};

    fn any_backoff(initial: u64, factor: f64, max: u64, jitter: f64) -> Backoff {
        Backoff::default()
            .initial(Duration::from_millis(initial))
            .factor(factor)
            .max(Duration::from_millis(initial.saturating_add(max)))
            .jitter(jitter)
    }

    proptest! {
        #[test]
        fn the_wait_stays_within_the_jitter_of_a_base_that_never_shrinks(
            initial in any::<u64>(), factor in 1.0_f64..1e12, max in any::<u64>(),
            jitter in 0.0_f64..=1.0, failures in any::<u32>(), drawn in -1.0_f64..=1.0,
        ) {
            let backoff = any_backoff(initial, factor, max, jitter);
            prop_assert!(backoff.validate().is_ok());
            let base = backoff.base(failures);
            prop_assert!(base <= backoff.max && base >= backoff.base(failures.saturating_sub(1)));
            let delay = backoff.delay(failures, || drawn).as_secs_f64();
            let slack = base.as_secs_f64() * 1e-9 + 1e-9;
            prop_assert!(delay >= base.as_secs_f64() * (1.0 - jitter) - slack);
            prop_assert!(delay <= base.as_secs_f64() * (1.0 + jitter) + slack);
        }
    }

    #[test]
    fn each_bad_field_is_named_with_its_value() {
        let cases = [
            (Backoff::default().factor(0.9), "backoff.factor is 0.9"),
            (Backoff::default().factor(f64::NAN), "backoff.factor is NaN"),
            (Backoff::default().jitter(1.5), "backoff.jitter is 1.5"),
            (Backoff::default().max(Duration::ZERO), "backoff.max is 0s"),
        ];
        for (backoff, expected) in cases {
            let text = backoff.validate().unwrap_err().to_string();
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
