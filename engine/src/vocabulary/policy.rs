use std::time::Duration;

use crate::vocabulary::backoff::{Backoff, Intensity};
use crate::vocabulary::error::ConfigError;

/// A year: as good as for ever, and not too long for a clock to add.
pub(crate) const LONG: Duration = Duration::from_secs(365 * 86_400);

/// How the engine treats one manifold's workers: delays, deadlines, and how much failure it bears.
///
/// The engine has one for all manifolds; a manifold's builder changes single fields of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The wait after a failure.
    pub backoff: Backoff,
    /// The wait before a restart that is no failure, spread by the backoff's jitter. It belongs to
    /// the worker that a change begins with; those that depend on it add none. Default 10 ms.
    pub bounce_delay: Duration,
    /// How long a start may take; one that takes longer has failed. Default 5 min.
    pub start_timeout: Duration,
    /// How long a worker that was told to stop has before its future is dropped. Default 30 s.
    pub grace: Duration,
    /// How long after that it is waited for before it is reported as stuck. Default 1 s.
    pub abort_grace: Duration,
    /// How long a reporter has to answer. Default 1 s.
    pub report_deadline: Duration,
    /// How many failures park a worker. Default `None`: no number does.
    pub intensity: Option<Intensity>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            bounce_delay: Duration::from_millis(10),
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
    /// Names the first field at fault, with its value and what would be right.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.backoff.validate()?;
        if self.start_timeout.is_zero() {
            return Err(ConfigError::new("start_timeout", "0s", "a duration above zero"));
        }
        self.intensity.as_ref().map_or(Ok(()), Intensity::validate)
    }
}
