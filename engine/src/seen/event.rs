//! What happens in an engine, as those are told who follow it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::vocabulary::clock::Timestamp;
use crate::vocabulary::exit::EndKind;
use crate::vocabulary::name::Text;
use crate::vocabulary::text;
use crate::vocabulary::value::short_name;

/// Who asked for something, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Who asked.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Origin {
    /// Returns it as it is kept.
    pub(crate) fn cut(self) -> Self {
        Self { who: text::cut(self.who), why: text::cut(self.why) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.why)
    }
}

/// One transition in an engine or in one that is nested in it.
#[derive(Debug, Clone)]
pub struct Event {
    /// Counts the events of an engine and those nested in it that anyone followed, from 0, without
    /// gaps.
    pub sequence: u64,
    /// When it happened. What an engine does in one go has one time, that of its beginning; a worker
    /// that notes something meanwhile may have a later one, and a lower number.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// Who asked for it, if it was asked for.
    pub origin: Option<Arc<Origin>>,
    pub(crate) engine: Arc<str>,
    /// The worker that it is about; none if it is about the engine.
    pub(crate) name: Option<Text>,
}

impl Event {
    /// Returns the path of the engine that it is about or whose worker it is about; that of the
    /// outermost engine is empty.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// Returns the name of the worker that it is about; none if it is about the engine.
    pub fn worker(&self) -> Option<&str> {
        self.name.as_ref().map(Text::as_str)
    }

    /// Returns the path of the worker, or of the engine, that it is about.
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
        let mut fields = serializer.serialize_struct("Event", 5)?;
        fields.serialize_field("sequence", &self.sequence)?;
        fields.serialize_field("at", &self.at)?;
        fields.serialize_field("path", &self.path())?;
        fields.serialize_field("event", &self.kind)?;
        fields.serialize_field("origin", &self.origin)?;
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
    /// A manifold is being taken out.
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
        /// Which worker of its name it is.
        generation: u32,
    },
    /// A worker is up.
    Started {
        /// Which worker of its name it is.
        generation: u32,
    },
    /// A running worker has published a new value.
    Changed {
        /// The type of the output; it is shown without the paths of modules.
        #[serde(serialize_with = "short")]
        output: &'static str,
    },
    /// A worker was told that an input has ended by itself.
    InputLost,
    /// A worker was told to stop.
    Stopping,
    /// A worker did not stop in its grace, or its start took too long; its future is being dropped.
    Aborted,
    /// A worker outlived both graces, or never yields.
    Stuck,
    /// A worker has ended.
    Ended {
        /// How.
        end: EndKind,
        /// Why, if there is anything to say; cut after 64 KiB.
        error: Option<String>,
        /// Whether it panicked.
        is_panic: bool,
    },
    /// Something is left of a worker that has just ended, such as blocking work. Values of it that
    /// are being dropped are not said.
    Lingering,
    /// Nothing is left any more of a worker that had ended before, and lingered or was stuck.
    Gone,
    /// A worker waits before it is started again. Without it, it is started at once: its delay is
    /// zero, or an input has changed since it was started.
    Waiting {
        /// For how long.
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
    /// A worker says that it does not do all it should, or that it does so again.
    Health {
        /// Why it is degraded; `None` when all is well again.
        degraded: Option<String>,
    },
    /// A worker says what it has done; the event's origin says at whose wish.
    Noted {
        /// What it has done.
        text: String,
    },
    /// The engine begins to stop.
    Killed,
    /// The engine has ended.
    Finished,
}

fn short<S: Serializer>(output: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&short_name(output))
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
            Self::Noted { text } => f.write_str(text),
            Self::Killed => f.write_str("killed"),
            Self::Finished => f.write_str("finished"),
        }
    }
}
