//! The delays, the deadlines and the limit of failures by which the engine treats workers.

use std::time::Duration;

use crate::vocabulary::backoff::{Backoff, Intensity};
use crate::vocabulary::error::ConfigError;

/// A year: long enough to stand for ever, and short enough to be added to an `Instant`.
pub(crate) const LONG: Duration = Duration::from_secs(365 * 86_400);

/// How the engine treats one manifold's workers: delays, deadlines and how many failures it allows.
///
/// The engine has one policy for all manifolds. A manifold's builder changes single fields of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// The wait after a failure.
    pub backoff: Backoff,
    /// The wait before a restart that is no failure, spread by the backoff's jitter. Only the roots
    /// of a wave wait; their dependents add no wait. Default 10 ms.
    pub bounce_delay: Duration,
    /// The longest wait before a restart that is no failure. With it, `bounce_delay` grows by the
    /// backoff's factor with each bounce in a row, so an input that flaps does not restart its user
    /// all the time. Every bounce then waits, also that of a dependent. A worker that ran for the
    /// backoff's `reset_after` begins again at `bounce_delay`. A worker that waits counts as coming.
    /// Default `None`: the delay does not grow.
    pub max_bounce_delay: Option<Duration>,
    /// How long a start may take. A start that takes longer has failed. Default 5 min.
    pub start_timeout: Duration,
    /// How long a worker that was told to stop has before its future is dropped. Default 30 s.
    pub grace: Duration,
    /// How long the engine waits after that before it reports the worker as stuck. Default 1 s.
    pub abort_grace: Duration,
    /// How long a reporter has to answer. Default 1 s.
    pub report_deadline: Duration,
    /// How many failures park a worker. Default `None`: no limit.
    pub intensity: Option<Intensity>,
}

crate::setters! {
    Policy {
        backoff: Backoff,
        bounce_delay: Duration,
        start_timeout: Duration,
        grace: Duration,
        abort_grace: Duration,
        report_deadline: Duration,
    }
    optional {
        max_bounce_delay: Duration,
        intensity: Intensity,
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            bounce_delay: Duration::from_millis(10),
            max_bounce_delay: None,
            start_timeout: Duration::from_secs(300),
            grace: Duration::from_secs(30),
            abort_grace: Duration::from_secs(1),
            report_deadline: Duration::from_secs(1),
            intensity: None,
        }
    }
}

impl Policy {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first invalid field, its value and what is expected.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.backoff.validate()?;
        if let Some(max) = self.max_bounce_delay.filter(|max| *max < self.bounce_delay) {
            let max = humantime::format_duration(max);
            return Err(ConfigError::new("max_bounce_delay", max, "at least bounce_delay"));
        }
        if self.max_bounce_delay.is_some() && self.bounce_delay.is_zero() {
            let expected = "a duration above zero if there is a max_bounce_delay: zero never grows";
            return Err(ConfigError::new("bounce_delay", "0s", expected));
        }
        if self.start_timeout.is_zero() {
            return Err(ConfigError::new("start_timeout", "0s", "a duration above zero"));
        }
        self.intensity.as_ref().map_or(Ok(()), Intensity::validate)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Policy;

    #[test]
    fn a_policy_that_cannot_be_kept_names_its_field() {
        let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
        let cases = [
            (Policy::default().start_timeout(zero), "start_timeout is 0s"),
            (
                Policy::default().bounce_delay(2 * second).max_bounce_delay(second),
                "max_bounce_delay is 1s",
            ),
            (
                Policy::default().bounce_delay(zero).max_bounce_delay(second),
                "bounce_delay is 0s; expected a duration above zero if there is",
            ),
        ];
        for (policy, expected) in cases {
            let refused = policy.validate().map_err(|error| error.to_string());
            assert!(refused.as_ref().is_err_and(|text| text.contains(expected)), "{refused:?}");
        }
    }
}
