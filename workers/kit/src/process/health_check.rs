//! The health check of a process, as its config says.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use crankcase_engine::ConfigError;

use super::readiness::is_request_target;
use super::reload::validate_command;

/// The shortest time between two checks, and for one.
const LEAST: Duration = Duration::from_millis(1);

/// The longest time between two checks.
const MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// The health check of a [`Process`](crate::Process): a question that is asked again and again once
/// the process is ready.
///
/// Once [`failures`](Self::failures) checks in a row have failed, the process is asked to end, as
/// by a stop, and counts as failed: an engine starts it again after its backoff.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthCheck {
    /// The question of each check.
    pub probe: HealthProbe,
    /// How long to wait before the first check, and between two. Default 10 s, 1 ms to 24 h.
    pub every: Duration,
    /// How long one check may take before it has failed. Default 5 s, 1 ms to 24 h.
    pub timeout: Duration,
    /// How many checks in a row must fail. Default 3, at least 1.
    pub failures: u32,
}

/// A question to a process, whether it is well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthProbe {
    /// Whether it accepts TCP connections. The kernel accepts some connections for a process that
    /// hangs, so the check may not notice that. It does notice a process that a signal has
    /// suspended.
    Port(SocketAddr),
    /// Whether it answers a GET over plain HTTP/1 with a status from 200 to 399.
    Http {
        /// Where it listens.
        address: SocketAddr,
        /// The path that is asked for, from the first slash on.
        path: String,
    },
    /// Whether this command exits with 0. It runs as the process does; no shell is involved.
    Command(Vec<OsString>),
}

crankcase_engine::setters! {
    HealthCheck {
        probe: HealthProbe,
        every: Duration,
        timeout: Duration,
        failures: u32,
    }
    optional {}
}

impl HealthCheck {
    /// Returns a check with the defaults.
    pub fn new(probe: HealthProbe) -> Self {
        let (every, timeout) = (Duration::from_secs(10), Duration::from_secs(5));
        Self { probe, every, timeout, failures: 3 }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let error = |value: &dyn std::fmt::Display, expected| {
            Err(ConfigError::new("health", value, expected))
        };
        match &self.probe {
            HealthProbe::Port(address) | HealthProbe::Http { address, .. }
                if address.port() == 0 =>
            {
                return error(address, "an address with a port from 1 to 65535");
            }
            HealthProbe::Http { path, .. } if !is_request_target(path) => {
                let expected = "a path that begins with a slash, without blanks";
                return error(&format!("{path:?}"), expected);
            }
            HealthProbe::Command(command) => validate_command("health", command, self.timeout)?,
            _ => {}
        }
        for (name, time) in [("every", self.every), ("timeout", self.timeout)] {
            if !(LEAST..=MOST).contains(&time) {
                return error(&format!("{name} {time:?}"), "between 1 ms and 24 h");
            }
        }
        if self.failures == 0 {
            return error(&"failures 0", "at least 1");
        }
        Ok(())
    }
}
