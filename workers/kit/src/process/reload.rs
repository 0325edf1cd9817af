//! The ways to have a process read its configuration anew.

use std::ffi::OsString;
use std::time::Duration;

use crankcase_engine::ConfigError;

use super::stop_signal::StopSignal;

/// The longest time that a command beside a process may take.
const MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// A way to have a [`Process`](crate::Process) read its configuration anew.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reload {
    /// The leader of its group gets this signal, such as [`StopSignal::Hangup`].
    Signal(StopSignal),
    /// A command tells it, and has to exit with 0. The command runs with the user, the folder, the
    /// environment and the bounds of the process.
    Command {
        /// The program and its arguments; no shell is involved.
        command: Vec<OsString>,
        /// How long it may take before it is ended and has failed, 1 ms to 24 h.
        timeout: Duration,
    },
}

impl Reload {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Signal(_) => Ok(()),
            Self::Command { command, timeout } => validate_command("reload", command, *timeout),
        }
    }
}

/// Refuses a command beside a process that has no program, or a timeout out of bounds.
pub(super) fn validate_command(
    field: &'static str,
    command: &[OsString],
    timeout: Duration,
) -> Result<(), ConfigError> {
    if command.first().is_none_or(|program| program.is_empty()) {
        return Err(ConfigError::new(field, "a command without words", "a program first"));
    }
    if !(Duration::from_millis(1)..=MOST).contains(&timeout) {
        let value = format!("a timeout of {timeout:?}");
        return Err(ConfigError::new(field, value, "one between 1 ms and 24 h"));
    }
    Ok(())
}
