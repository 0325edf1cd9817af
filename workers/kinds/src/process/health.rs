//! How a program is asked whether it is well.

use std::time::Duration;

use crankcase_resources::dynamic::{Parameter, Reader, Table};
use crankcase_resources::{Field, Type, Wrong};
use crankcase_workers::{HealthCheck, HealthProbe};
use serde_json::{Value, json};

use crate::command::Argv;
use crate::object::{only, optional, read};
use crate::process::endpoint::{Endpoint, HttpUrl};
use crate::process::timeout::Timeout;

/// How a program that is ready is asked, again and again, whether it is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// What it is asked.
    pub probe: Probe,
    /// How long to wait before the first check, and between two.
    pub every: Timeout,
    /// How long a check may take before it has failed.
    pub timeout: Timeout,
    /// How many checks in a row must fail, at least 1.
    pub failures: u32,
}

/// What a program is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// Whether this command exits with 0.
    Command(Argv),
    /// Whether it answers a GET with a status from 200 to 399.
    Http(HttpUrl),
    /// Whether it accepts TCP connections there.
    Port(Endpoint),
}

impl Health {
    /// Returns a check with the defaults: every 10 s, for at most 5 s, three times.
    pub fn new(probe: Probe) -> Self {
        let [every, timeout] = [10, 5].map(|seconds| Timeout(Duration::from_secs(seconds)));
        Self { probe, every, timeout, failures: 3 }
    }

    fn table() -> Table {
        let command = "the program and its arguments; it has to exit with 0";
        let http = "it has to answer a GET with a status from 200 to 399";
        let port = "it has to accept TCP connections there: a port of 127.0.0.1, or an address";
        let every = "how long to wait before the first check, and between two; 10s by default";
        let timeout = "how long a check may take before it has failed; 5s by default";
        let failures = "how many checks in a row must fail; 3 by default";
        let parameters = vec![
            Parameter::of::<Option<Argv>>("command", command),
            Parameter::of::<Option<HttpUrl>>("http", http),
            Parameter::of::<Option<Endpoint>>("port", port),
            Parameter::of::<Option<Timeout>>("every", every),
            Parameter::of::<Option<Timeout>>("timeout", timeout),
            Parameter::of::<Option<u32>>("failures", failures),
        ];
        Table::new("how a program is asked whether it is well", parameters)
    }

    fn choose(reader: &mut Reader<'_>) -> Result<Self, String> {
        let (every, timeout) = (optional(reader, "every"), optional(reader, "timeout"));
        let failures = optional(reader, "failures");
        let probe = only([
            ("command", optional(reader, "command").map(Probe::Command)),
            ("http", optional(reader, "http").map(Probe::Http)),
            ("port", optional(reader, "port").map(Probe::Port)),
        ])?;
        let default = Self::new(probe);
        let health = Self {
            every: every.unwrap_or(default.every),
            timeout: timeout.unwrap_or(default.timeout),
            failures: failures.unwrap_or(default.failures),
            ..default
        };
        match health.failures {
            0 => Err("failures: 0 is not at least 1".to_owned()),
            _ => Ok(health),
        }
    }

    /// Returns the words of the command, if it is one.
    pub(super) fn words(&self) -> Vec<String> {
        match &self.probe {
            Probe::Command(argv) => argv.0.clone(),
            Probe::Http(_) | Probe::Port(_) => Vec::new(),
        }
    }

    /// Returns the same for a process.
    pub(super) fn check(&self) -> HealthCheck {
        let probe = match &self.probe {
            Probe::Command(argv) => HealthProbe::Command(argv.0.iter().map(Into::into).collect()),
            Probe::Http(HttpUrl { address, path }) => {
                HealthProbe::Http { address: *address, path: path.clone() }
            }
            Probe::Port(Endpoint(address)) => HealthProbe::Port(*address),
        };
        let check = HealthCheck::new(probe).every(self.every.0).timeout(self.timeout.0);
        check.failures(self.failures)
    }
}

impl Field for Health {
    const EXPOSED: bool = Argv::EXPOSED;

    fn ty() -> Type {
        Type::Object { table: Self::table() }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        read(value, &Self::table(), Self::choose)
    }

    fn give(&self) -> Value {
        let (name, probe) = match &self.probe {
            Probe::Command(argv) => ("command", argv.give()),
            Probe::Http(url) => ("http", url.give()),
            Probe::Port(endpoint) => ("port", endpoint.give()),
        };
        json!({
            name: probe,
            "every": self.every.give(),
            "timeout": self.timeout.give(),
            "failures": self.failures,
        })
    }
}
