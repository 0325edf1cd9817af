//! The runs and events on record.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// One run: an apply, or an agent from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// Its number. Later runs have larger ones.
    pub run: i64,
    /// The kind of the run, such as `apply`.
    pub mode: String,
    /// The site that it worked on, as a text.
    pub site: String,
    /// When it began, in RFC 3339 and UTC.
    pub began: String,
    /// When it ended; nothing if it still runs, or was killed.
    pub ended: Option<String>,
    /// How it ended, as a word.
    pub outcome: Option<String>,
    /// How many events of each kind it has.
    pub counts: BTreeMap<String, u64>,
}

/// Something that has happened to a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The kind of the event, as a word such as `repaired`.
    pub event: String,
    /// The resource's name.
    pub resource: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The attributes that were not as declared, as a text; empty if there were none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub differences: String,
    /// The names of the actions that were done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Why it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the resource was looked at.
    pub why: String,
    /// How long that took, in milliseconds.
    pub took_ms: u64,
    /// More about the event, as data. The last 5,000 events keep it, and a few before them, or fewer if these take more
    /// than 256 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

/// An event on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recorded {
    /// The number of its run.
    pub run: i64,
    /// When it happened, in RFC 3339 and UTC.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Returns the milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns a time in RFC 3339, from the milliseconds since 1970.
pub(crate) fn instant(millis: i64) -> String {
    // A time after the year 9999 has no such form.
    let latest = 253_402_300_799_999;
    let millis = u64::try_from(millis.clamp(0, latest)).unwrap_or_default();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    humantime::format_rfc3339_millis(time).to_string()
}
