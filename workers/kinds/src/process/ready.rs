//! When a program is ready.

use std::path::PathBuf;
use std::time::Duration;

use crankcase_resources::dynamic::{Parameter, Reader, Table};
use crankcase_resources::{AbsPath, Field, Type, Wrong};
use crankcase_workers::Readiness;
use serde_json::{Value, json};

use crate::object::{only, optional, read};
use crate::process::endpoint::{Endpoint, HttpUrl};
use crate::process::timeout::Timeout;

/// How a program is known to be ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// It accepts TCP connections there.
    Port(Endpoint),
    /// It answers a GET with a status from 200 to 399.
    Http(HttpUrl),
    /// It has written a line to stdout or stderr that contains this text.
    Line(String),
    /// It has sent `READY=1` by the protocol of `sd_notify`.
    Notify,
    /// It has made or changed this file.
    File(AbsPath),
    /// It has run for so long.
    After(Duration),
}

impl Ready {
    fn table() -> Table {
        let port = "it accepts TCP connections there: a port of 127.0.0.1, or an address";
        let http = "it answers a GET with a status from 200 to 399";
        let parameters = vec![
            Parameter::of::<Option<Endpoint>>("port", port),
            Parameter::of::<Option<HttpUrl>>("http", http),
            Parameter::of::<Option<String>>("line", "it has written a line that contains this"),
            Parameter::of::<Option<bool>>("notify", "it has sent READY=1, as with sd_notify"),
            Parameter::of::<Option<AbsPath>>("file", "it has made or changed this file"),
            Parameter::of::<Option<Duration>>("after", "it has run for so long"),
        ];
        Table::new("how a program is known to be ready", parameters)
    }

    fn choose(reader: &mut Reader<'_>) -> Result<Self, String> {
        let notify = optional(reader, "notify").unwrap_or(false);
        let ready = only([
            ("port", optional(reader, "port").map(Self::Port)),
            ("http", optional(reader, "http").map(Self::Http)),
            ("line", optional(reader, "line").map(Self::Line)),
            ("notify", notify.then_some(Self::Notify)),
            ("file", optional(reader, "file").map(Self::File)),
            ("after", optional(reader, "after").map(Self::After)),
        ])?;
        match &ready {
            Self::Line(text) if text.is_empty() || text.contains('\n') => {
                Err("line: give a text of one line that is not empty".to_owned())
            }
            _ => Ok(ready),
        }
    }

    /// Returns the same for a process. The folder of its notify socket is set by who runs it.
    pub(super) fn readiness(&self) -> Readiness {
        match self {
            Self::Port(Endpoint(address)) => Readiness::Port(*address),
            Self::Http(HttpUrl { address, path }) => {
                Readiness::Http { address: *address, path: path.clone() }
            }
            Self::Line(text) => Readiness::Line(text.clone()),
            Self::Notify => Readiness::Notify { folder: PathBuf::new() },
            Self::File(path) => Readiness::File(path.as_ref().to_owned()),
            Self::After(delay) => Readiness::Delay(*delay),
        }
    }

    /// Returns why a program is never ready within this time, if that is so.
    pub(super) fn too_late(&self, within: Timeout) -> Option<String> {
        let Self::After(delay) = self else { return None };
        let [after, most] = [*delay, within.0].map(humantime::format_duration);
        let text = format!("after: {after} is not below the ready_timeout of {most}");
        (*delay >= within.0).then_some(text)
    }
}

impl Field for Ready {
    fn ty() -> Type {
        Type::Object { table: Self::table() }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        read(value, &Self::table(), Self::choose)
    }

    fn give(&self) -> Value {
        match self {
            Self::Port(endpoint) => json!({"port": endpoint.give()}),
            Self::Http(url) => json!({"http": url.give()}),
            Self::Line(text) => json!({"line": text}),
            Self::Notify => json!({"notify": true}),
            Self::File(path) => json!({"file": path.give()}),
            Self::After(delay) => json!({"after": delay.give()}),
        }
    }
}
