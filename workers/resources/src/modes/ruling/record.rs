//! The record of a rule, which outlives the agent.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::error::BoxError;
use crate::rules::cause::Cause;
use crate::state::{self, Document, Key, Position, Records, Topic};

/// The most events that wait for one rule. Further events are lost, and counted.
const MOST_PENDING: usize = 1_000;

/// The most causes that are kept after they were given up.
const MOST_DEAD: usize = 20;

/// The size of a cause, in bytes of JSON, above which it is kept without its values after it was given up.
const LARGEST_DEAD: usize = 64 * 1024;

/// The record of one rule.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// The value that was handled last. None before the first; an empty list if there was no value.
    pub(super) handled: Option<Vec<Value>>,
    /// The events that wait.
    pub(super) pending: VecDeque<Cause>,
    /// How many events were lost because too many waited.
    pub(super) lost: u64,
    /// The number of attempts at the current cause.
    pub(super) attempts: u32,
    /// The digest of the cause that they were made at. None if there were no attempts, and in a record of an earlier
    /// program, whose attempts count for the current cause.
    pub(super) tried: Option<String>,
    /// The number of causes that were handled without an error.
    pub(super) fired: u64,
    /// The causes that were given up, the newest last.
    pub(super) dead: VecDeque<Dead>,
    /// Whether the last cause was given up.
    pub(super) is_dead: bool,
}

/// Shows no value of a fact, which may be a secret.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pending, lost, attempts, tried, fired, dead, is_dead, .. } = self;
        let mut shown = f.debug_struct("Record");
        shown.field("pending", pending).field("lost", lost).field("attempts", attempts);
        shown.field("tried", tried).field("fired", fired).field("dead", dead);
        shown.field("is_dead", is_dead).finish_non_exhaustive()
    }
}

/// A cause that was given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Dead {
    pub(super) cause: Cause,
    pub(super) attempts: u32,
    pub(super) error: String,
}

impl Record {
    /// Reads the record that an earlier agent has left.
    pub(super) async fn read(records: &Records, rule: &str) -> Result<Self, BoxError> {
        let document = records.document(&Key::new(Topic::Rule, rule)).await?;
        Ok(document.map_or_else(|| Ok(Self::default()), |document| document.read())?)
    }

    /// Puts the record on disk.
    pub(super) async fn write(&self, records: &Records, rule: &str) -> Result<(), BoxError> {
        Ok(records.flush(self.queue(records, rule)?).await?)
    }

    /// Has the record put on disk, in place of one that waits for that. Does not wait for the disk.
    pub(super) fn queue(&self, records: &Records, rule: &str) -> Result<Position, BoxError> {
        let (key, document) = (Key::new(Topic::Rule, rule), Document::of(self)?);
        Ok(records.push([state::Record::Stored { key, document }]))
    }

    pub(super) fn push(&mut self, cause: Cause) {
        if self.pending.len() < MOST_PENDING {
            self.pending.push_back(cause);
        } else {
            self.lost += 1;
        }
    }

    /// Forgets the attempts, because there is another cause.
    pub(super) fn forget_attempts(&mut self) {
        (self.attempts, self.tried) = (0, None);
    }

    /// Notes that a cause is over.
    pub(super) fn acknowledge(&mut self, cause: &Cause) {
        self.forget_attempts();
        if cause.happened.is_some() {
            self.pending.pop_front();
        } else {
            self.handled = Some(cause.value.iter().cloned().collect());
        }
    }

    /// Notes that a cause is given up.
    pub(super) fn bury(&mut self, cause: &Cause, error: String) {
        let mut kept = cause.clone();
        if serde_json::to_vec(cause).is_ok_and(|bytes| bytes.len() > LARGEST_DEAD) {
            (kept.before, kept.value) = (None, None);
        }
        self.dead.push_back(Dead { cause: kept, attempts: self.attempts, error });
        self.dead.drain(..self.dead.len().saturating_sub(MOST_DEAD));
        self.is_dead = true;
        self.acknowledge(cause);
    }
}
