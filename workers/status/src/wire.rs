//! The types of the messages on the control socket.
//!
//! Each answer is a JSON object with its `version`. Fields and words may be added within a version,
//! so a reader accepts those that it does not know. The server makes these types from the engine's
//! own, and the client reads the same ones.

mod act;
mod from_engine;
mod graph;
mod origin;
mod report;
mod selection;
mod state;

use serde::{Deserialize, Serialize};

pub use act::{Act, Preview, WorkerChange};
pub use graph::{Graph, GraphEdge, GraphNode, Graphs};
pub use origin::Origin;
pub use report::{
    AttemptsReport, Detail, EngineReport, InputReport, StartReport, Subject, WaitedFor,
    WorkerError, WorkerReport,
};
pub use selection::{Counts, Only, Selection};
pub use state::{EngineState, WorkerState};

/// The version of all answers.
pub const VERSION: u32 = 1;

/// How many characters each of [`ControlRequest::who`] and [`ControlRequest::why`] may have; none
/// of them is a control character.
pub const MAX_ORIGIN: usize = 1000;

/// An answer with its version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Versioned<T> {
    /// [`VERSION`].
    pub version: u32,
    /// The answer.
    #[serde(flatten)]
    pub value: T,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of refusal.
    pub code: FailureCode,
    /// The refusal in words.
    pub message: String,
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureCode {
    /// The request cannot be understood.
    Malformed,
    /// No engine or worker has the path.
    UnknownPath,
    /// There is no such request in this version.
    UnknownRequest,
    /// The request is asked with another method.
    WrongMethod,
    /// The body is too long.
    TooLarge,
    /// The engine refused the change.
    Conflict,
    /// The request took too long; it may still take effect.
    TooSlow,
    /// Too many clients ask for the same.
    Busy,
    /// The agent is stopping.
    Stopping,
    /// The agent is at fault.
    Internal,
    /// A later version knows this code.
    #[serde(other)]
    Other,
}

/// Asks for a bounce, a park or an unpark, or for a pause or its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// The worker's path.
    pub path: String,
    /// Who asks.
    pub who: String,
    /// Why.
    pub why: String,
}

/// The result of a control request, with the path of the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Controlled {
    /// It was bounced: the old worker is gone.
    Bounced(String),
    /// It was parked: the worker is gone.
    Parked(String),
    /// It was unparked: the worker was told to start, if it could be.
    Unparked(String),
    /// It was paused: the worker begins nothing more.
    Paused(String),
    /// It was resumed: the worker was told to go on.
    Resumed(String),
}

/// The chain from a worker to the root cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WhyAnswer {
    /// The chain.
    pub why: Why,
    /// The chain in words.
    pub text: String,
}

/// The chain from a worker to the root cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Why {
    /// The worker asked about first, the root cause last.
    pub steps: Vec<WhyStep>,
}

/// One worker on the way to a root cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WhyStep {
    /// The worker's path.
    pub path: String,
    /// The state of the worker.
    pub state: WorkerState,
    /// How many times in a row it has failed.
    pub failures: u32,
    /// The reason why it is degraded, or its last error, if that is the reason for its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The names of other workers of its engine that it says it waits for, or that hold it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// The origin of its park, if it is parked and the origin was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_by: Option<Origin>,
    /// The thing that it waits for, apart from its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<String>,
    /// For how long it has been starting, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_for: Option<f64>,
    /// How long its start may take in all, in seconds, if it is starting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout: Option<f64>,
    /// The installed name that is most like its own, if nothing was ever started under its own
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// For how long it has blocked its thread, in seconds, if it is a second or longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_for: Option<f64>,
    /// How long it still waits, in seconds, if it waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_in: Option<f64>,
}

/// The first line of the stream of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventsBegun {
    /// The life of the agent, to which the numbers of events belong: the moment at which its engine began, in
    /// RFC 3339 with microseconds.
    pub life: String,
}

/// A further line of the stream of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "almost all lines are events")]
pub enum EventLine {
    /// An event.
    Event(Event),
    /// The follower was too slow.
    Missed {
        /// How many events it missed.
        missed: u64,
    },
}

/// One transition of an engine or a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// Counts the agent's events from 0, without gaps.
    pub sequence: u64,
    /// When it happened, in RFC 3339.
    pub at: String,
    /// The path of the worker or engine.
    pub path: String,
    /// The event itself: its `type`, and the values that belong to it.
    pub event: serde_json::Map<String, serde_json::Value>,
    /// The origin of the event, if it was asked for.
    #[serde(default)]
    pub origin: Option<Origin>,
    /// The number of the event that caused it, if another event did.
    #[serde(default)]
    pub cause: Option<u64>,
    /// The event in words.
    pub text: String,
}

impl Event {
    /// Returns the type of the event, such as `started`; empty if there is none.
    pub fn kind(&self) -> &str {
        self.event.get("type").and_then(serde_json::Value::as_str).unwrap_or_default()
    }
}
