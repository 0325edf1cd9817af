//! Events: what happens in an engine, for those who follow it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::vocabulary::clock::Timestamp;
use crate::vocabulary::exit::EndKind;
use crate::vocabulary::name::Text;
use crate::vocabulary::text;
use crate::vocabulary::value::{serialize_short, short_name};

/// Who asked for something, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Origin {
    /// Who asked.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Origin {
    /// Returns the origin with these texts, each cut after 64 KiB.
    pub fn new(who: impl Into<String>, why: impl Into<String>) -> Self {
        Self { who: text::cut(who.into()), why: text::cut(why.into()) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.why)
    }
}

/// One transition in an engine or in one nested in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The number of the event, from 0 and without gaps. Counts the events of the outermost engine
    /// and all engines nested in it, while anyone follows them.
    pub sequence: u64,
    /// When it happened. Events that an engine makes in one turn of its loop all have the time at
    /// which that turn began.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// Who asked for it, if anyone did and was named.
    pub origin: Option<Arc<Origin>>,
    /// The number of the event that caused it. The start of a worker names the event of the input that
    /// came up, its stop the event that stops the input. `None` if a call or nothing caused it, or an
    /// event of another engine, or one that came before anyone followed the events.
    pub cause: Option<u64>,
    pub(crate) engine: Arc<str>,
    /// The worker that the event is about; none if it is about the engine.
    pub(crate) name: Option<Text>,
}

impl Event {
    /// Returns the path of the engine of this event; empty for the outermost engine.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// Returns the name of the worker that the event is about; none if it is about the engine.
    pub fn worker(&self) -> Option<&str> {
        self.name.as_ref().map(Text::as_str)
    }

    /// Returns the path of the worker, or of the engine, that the event is about.
    pub fn path(&self) -> String {
        match &self.name {
            Some(name) => [&*self.engine, "/", name.as_str()].concat(),
            None if self.engine.is_empty() => "/".to_owned(),
            None => self.engine.to_string(),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.at, self.path(), self.kind)?;
        match &self.origin {
            Some(origin) => write!(f, " ({origin})"),
            None => Ok(()),
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Event", 6)?;
        fields.serialize_field("sequence", &self.sequence)?;
        fields.serialize_field("at", &self.at)?;
        fields.serialize_field("path", &self.path())?;
        fields.serialize_field("event", &self.kind)?;
        fields.serialize_field("origin", &self.origin)?;
        fields.serialize_field("cause", &self.cause)?;
        fields.end()
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A manifold was installed.
    Installed,
    /// A manifold was replaced by another.
    Replaced,
    /// A manifold is being uninstalled.
    Uninstalled,
    /// A manifold and its worker are gone.
    Removed,
    /// A bounce was asked for.
    Bounced,
    /// A manifold was parked by hand.
    Parked,
    /// A manifold was unparked.
    Unparked,
    /// A worker is being started.
    Starting {
        /// The worker's generation.
        generation: u32,
    },
    /// A worker is up.
    Started {
        /// The worker's generation.
        generation: u32,
    },
    /// A running worker has published a new value.
    Changed {
        /// The type of the output. It is serialised without module paths.
        #[serde(serialize_with = "serialize_short")]
        output: &'static str,
    },
    /// A worker was told that an input has ended by itself.
    InputLost,
    /// A worker was told to stop.
    Stopping,
    /// A worker did not stop in its grace, or did not start in time; its future is being dropped.
    Aborted,
    /// A worker outlived both graces, or never yields.
    Stuck,
    /// A worker has ended.
    Ended {
        /// How it ended.
        end: EndKind,
        /// Why it ended, if there is a reason; cut after 64 KiB.
        error: Option<String>,
        /// Whether it panicked.
        is_panic: bool,
    },
    /// A worker has ended, but something of it is left, such as blocking work. Values that are only
    /// being dropped do not count.
    Lingering,
    /// Nothing is left of a worker that had ended before, and lingered or was stuck. Also told when only
    /// values had to be dropped, if the worker is not started again by itself.
    Gone,
    /// A worker waits before it is started again. There is no such event if it is started at once:
    /// its delay is zero, or an input has changed since its last start.
    Waiting {
        /// How long it waits, in seconds when serialised.
        #[serde(serialize_with = "seconds")]
        delay: Duration,
        /// How many times in a row it has failed; 0 if it waits out its bounce delay.
        failures: u32,
    },
    /// A worker failed more often than its intensity allows, and stays stopped.
    Spent {
        /// How many times in a row it has failed.
        failures: u32,
    },
    /// A worker says that it is degraded, or in good health again.
    Health {
        /// Why it is degraded; `None` once it is in good health again.
        degraded: Option<String>,
    },
    /// A worker notes what it has done. The event's origin says who asked for it.
    Noted {
        /// What it has done.
        text: String,
    },
    /// The engine begins to stop.
    Killed,
    /// The engine has ended.
    Finished,
    /// A degraded worker has tried again, and has failed for the same reason.
    Failed {
        /// How many attempts have failed since it was last in good health.
        attempts: u32,
    },
    /// A worker has waited out its delay or backoff, and still waits for its inputs.
    AwaitsInputs,
}

fn seconds<S: Serializer>(delay: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(delay.as_secs_f64())
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Installed => f.write_str("installed"),
            Self::Replaced => f.write_str("replaced"),
            Self::Uninstalled => f.write_str("uninstalled"),
            Self::Removed => f.write_str("removed"),
            Self::Bounced => f.write_str("bounced"),
            Self::Parked => f.write_str("parked"),
            Self::Unparked => f.write_str("unparked"),
            Self::Starting { generation } => write!(f, "starting, generation {generation}"),
            Self::Started { generation } => write!(f, "started, generation {generation}"),
            Self::Changed { output } => write!(f, "changed its {}", short_name(output)),
            Self::InputLost => f.write_str("lost an input"),
            Self::Stopping => f.write_str("stopping"),
            Self::Aborted => f.write_str("did not end in time, is dropped"),
            Self::Stuck => f.write_str("is stuck"),
            Self::Ended { end, error: Some(error), .. } => write!(f, "ended, {end}: {error}"),
            Self::Ended { end, error: None, .. } => write!(f, "ended, {end}"),
            Self::Lingering => f.write_str("lingers"),
            Self::Gone => f.write_str("is gone"),
            Self::Waiting { delay, failures } => {
                let delay = humantime::format_duration(Duration::from_millis(
                    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                ));
                write!(f, "waits {delay}")?;
                match failures {
                    0 => Ok(()),
                    1 => f.write_str(" after a failure"),
                    _ => write!(f, " after {failures} failures in a row"),
                }
            }
            Self::Spent { failures } => write!(f, "parked after {failures} failures in a row"),
            Self::Health { degraded: Some(reason) } => write!(f, "degraded: {reason}"),
            Self::Health { degraded: None } => f.write_str("in good health"),
            Self::Failed { attempts } => {
                write!(f, "attempt {attempts} has failed like the one before")
            }
            Self::AwaitsInputs => f.write_str("waits for its inputs"),
            Self::Noted { text } => f.write_str(text),
            Self::Killed => f.write_str("killed"),
            Self::Finished => f.write_str("finished"),
        }
    }
}
