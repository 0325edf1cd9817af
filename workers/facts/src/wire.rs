//! The JSON that the sender of a change and the agent exchange.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authority;
use crate::change::{self, Degraded, FactsError, Submission};
use crate::difference;
use crate::merge;
use crate::pointer::Pointer;
use crate::schema::Schemas;
use crate::store;
use crate::tree::Tree;
use crate::update::Update;
use crate::violation::Violation;

/// A [`Submission`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The sender.
    pub who: String,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The version that the facts must have. Default none: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_version: Option<u64>,
    /// The paths of the agent's facts that may be overwritten, with everything below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overwrite: Vec<String>,
    /// Whether nothing is to be changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trial: bool,
    /// Whether the change is refused if it degrades anything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_strict: bool,
    /// The change.
    pub change: Asked,
}

/// A requested change.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Asked {
    /// An update, as [`Update::read`] reads it; without a version it takes the next one.
    Update(Value),
    /// `{version, facts}`, which replaces all facts.
    Load(Value),
    /// `{version, facts}`, which is merged into the stored facts.
    Merge(Value),
    /// The facts as they were at the end of this version.
    Restore(u64),
    /// A schema for the facts at a path.
    Register {
        /// The path.
        path: String,
        /// The owner of the schema.
        owner: String,
        /// The schema; none removes the registered one.
        schema: Option<Value>,
    },
}

impl fmt::Debug for Asked {
    /// Writes the kind of change, but no values: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Update(_) => f.write_str("Update"),
            Self::Load(_) => f.write_str("Load"),
            Self::Merge(_) => f.write_str("Merge"),
            Self::Restore(version) => write!(f, "Restore({version})"),
            Self::Register { path, .. } => write!(f, "Register({path})"),
        }
    }
}

impl Request {
    /// Returns the request for a submission; none for a change that only the agent makes.
    pub fn of(submission: &Submission) -> Option<Self> {
        let Submission { change, who, why, expect_version, overwrites, is_trial, is_strict } =
            submission;
        let document = |load: &change::Load| serde_json::json!({"version": load.version.get(), "facts": load.facts.to_value()});
        let asked = match change {
            change::Change::Own(_) => return None,
            change::Change::Update(update) => Asked::Update(update.to_value()),
            change::Change::Load(load) if load.merges => Asked::Merge(document(load)),
            change::Change::Load(load) => Asked::Load(document(load)),
            change::Change::Restore(version) => Asked::Restore(*version),
            change::Change::Register(path, schema) => Asked::Register {
                path: path.to_string(),
                owner: schema.as_ref().map(|schema| schema.owner.clone()).unwrap_or_default(),
                schema: schema.as_ref().map(|schema| schema.value().clone()),
            },
        };
        let overwrite = overwrites.iter().map(ToString::to_string).collect();
        let (who, why, expect_version) = (who.clone(), why.clone(), *expect_version);
        let (is_trial, is_strict, change) = (*is_trial, *is_strict, asked);
        Some(Self { who, why, expect_version, overwrite, is_trial, is_strict, change })
    }

    /// Returns the requested submission.
    ///
    /// # Errors
    ///
    /// All violations of the request.
    pub fn submission(self) -> Result<Submission, FactsError> {
        let change = match self.change {
            Asked::Update(document) => change::Change::Update(Update::read_unversioned(&document)?),
            Asked::Load(document) => change::Change::Load(change::Load::read(&document, false)?),
            Asked::Merge(document) => change::Change::Load(change::Load::read(&document, true)?),
            Asked::Restore(version) => change::Change::Restore(version),
            Asked::Register { path, owner, schema } => {
                let schema =
                    schema.map(|schema| crate::Schema::read(&owner, schema)).transpose()?;
                change::Change::Register(pointer(&path)?, schema)
            }
        };
        let overwrites = self.overwrite.iter().map(|path| pointer(path));
        let overwrites = overwrites.collect::<Result<_, _>>()?;
        let Self { who, why, expect_version, is_trial, is_strict, .. } = self;
        Ok(Submission { change, who, why, expect_version, overwrites, is_trial, is_strict })
    }
}

fn pointer(text: &str) -> Result<Pointer, FactsError> {
    text.parse().map_err(|error: crate::PointerError| {
        FactsError::Invalid(Violation::of_document(&Pointer::root(), error.to_string()).into())
    })
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// The change was made, or would be if this was a trial.
    Committed(Committed),
    /// Nothing was changed.
    Refused(Box<Refusal>),
}

/// A change that was made.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct Committed {
    /// The revision of its entry in the history.
    pub revision: u64,
    /// The facts of the agent that the change has overwritten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overwritten: Vec<Owned>,
    /// The users of facts that the change degrades, as far as the agent knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<Degraded>,
}

impl Committed {
    /// Returns the change with this outcome.
    pub fn of(outcome: &change::Outcome) -> Self {
        let overwritten = outcome.overwritten.iter().map(Owned::of).collect();
        Self { revision: outcome.revision, overwritten, degraded: outcome.degraded.clone() }
    }
}

/// A part of the facts that has changed.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Its path.
    pub path: String,
    /// The value before; left out if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub before: Option<Value>,
    /// The value after; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub after: Option<Value>,
}

/// Distinguishes null, which is a value, from a missing key.
mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Value>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Value>, D::Error> {
        Value::deserialize(from).map(Some)
    }
}

/// A fact and its owner.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct Owned {
    /// Its path.
    pub path: String,
    /// Its owner.
    pub owner: String,
}

impl Owned {
    /// Returns the JSON form of an owned fact.
    pub fn of(owned: &authority::Owned) -> Self {
        Self { path: owned.path.to_string(), owner: owned.owner.clone() }
    }
}

impl Difference {
    /// Returns a difference without secrets.
    pub fn of(difference: &difference::Difference, schemas: &Schemas) -> Self {
        let difference::Difference { path, before, after } = difference;
        let side = |tree: &Option<Tree>| tree.as_ref().map(|tree| schemas.redacted(path, tree));
        Self { path: path.to_string(), before: side(before), after: side(after) }
    }
}

/// A change in the history.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The revision of the change.
    pub revision: u64,
    /// The version of the facts after the change.
    pub version: u64,
    /// The time of the change; RFC 3339 UTC.
    pub at: String,
    /// The sender; `author, by sender` if an update names another author.
    pub who: String,
    /// The reason; null if none was given.
    pub why: Option<String>,
    /// The kind of change: `update`, `load`, `merge`, `restore`, `own` or `schema`.
    pub kind: String,
    /// The digest of the facts after the change.
    pub digest: String,
    /// The changed facts.
    pub differences: Vec<Difference>,
}

impl Entry {
    /// Returns an entry without secrets.
    pub fn of(entry: &store::Entry, schemas: &Schemas) -> Self {
        Self {
            revision: entry.revision,
            version: entry.version,
            at: rfc3339(entry.at),
            who: entry.who.clone(),
            why: entry.why.clone(),
            kind: entry.kind.clone(),
            digest: entry.digest.to_string(),
            differences: entry.differences.iter().map(|it| Difference::of(it, schemas)).collect(),
        }
    }
}

fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// Why the facts were not changed.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The kind of reason.
    pub code: RefusalCode,
    /// The reason in words.
    pub message: String,
    /// The version of the facts, if it is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_version: Option<u64>,
    /// The version that was given or expected, if it is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_version: Option<u64>,
    /// The violations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Wrong>,
    /// The number of further violations.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: usize,
    /// Facts of other owners that would be overwritten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<Owned>,
    /// Facts that a document and the stored facts have both changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// The users of facts that a strict change would degrade.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<Degraded>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The kind of reason for a refusal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalCode {
    /// The change is wrong, or the facts after it would be.
    Invalid,
    /// The change does not fit the stored facts: their version, their owners, a TEST or a merge.
    Conflict,
    /// The change names something that does not exist.
    Missing,
    /// The store cannot be used.
    Store,
}

/// One violation.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct Wrong {
    /// The place in the given document; left out if no place there is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// The path of the fact; left out if no fact is at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The value at fault, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The expected form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Whether the value is a secret, or may hold one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_secret: bool,
}

/// A fact that a document and the stored facts have both changed.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct Conflict {
    /// Its path.
    pub path: String,
    /// The value in the last document; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub base: Option<Value>,
    /// The value in the new document; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub document: Option<Value>,
    /// The stored value; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub stored: Option<Value>,
}

impl Refusal {
    /// Returns the refusal for an error, without secrets.
    pub fn of(error: &FactsError, schemas: &Schemas) -> Self {
        let mut refusal = Self {
            code: RefusalCode::Conflict,
            message: error.to_string(),
            stored_version: None,
            given_version: None,
            violations: Vec::new(),
            omitted: 0,
            owned: Vec::new(),
            conflicts: Vec::new(),
            degraded: Vec::new(),
        };
        match error {
            FactsError::Invalid(invalid) => {
                refusal.code = RefusalCode::Invalid;
                refusal.violations = invalid.violations.iter().map(Wrong::of).collect();
                refusal.omitted = invalid.omitted;
            }
            FactsError::Stale { given, stored }
            | FactsError::Unexpected { expected: given, stored } => {
                (refusal.given_version, refusal.stored_version) = (Some(*given), Some(*stored));
            }
            FactsError::Owned(owned) => refusal.owned = owned.iter().map(Owned::of).collect(),
            FactsError::Conflicts(conflicts) => {
                refusal.conflicts = conflicts.iter().map(|it| Conflict::of(it, schemas)).collect();
            }
            FactsError::Degrades(degraded) => {
                refusal.code = RefusalCode::Invalid;
                refusal.degraded.clone_from(degraded);
            }
            FactsError::Test { .. } => {}
            FactsError::NoVersion(_) => refusal.code = RefusalCode::Missing,
            FactsError::Damaged { .. } => refusal.code = RefusalCode::Invalid,
            FactsError::Store(error) => {
                refusal.code = RefusalCode::Store;
                let mut source = std::error::Error::source(error);
                while let Some(error) = source {
                    refusal.message.push_str(&format!(": {error}"));
                    source = error.source();
                }
            }
        }
        refusal
    }
}

impl Wrong {
    fn of(violation: &Violation) -> Self {
        let text = |pointer: &Option<Pointer>| pointer.as_ref().map(ToString::to_string);
        let (document, path) = (text(&violation.document), text(&violation.path));
        let Violation { message, value, help, is_secret, .. } = violation.clone();
        Self { document, path, message, value, help, is_secret }
    }
}

impl Conflict {
    fn of(conflict: &merge::Conflict, schemas: &Schemas) -> Self {
        let merge::Conflict { path, base, document, stored } = conflict;
        let side = |tree: &Option<Tree>| tree.as_ref().map(|tree| schemas.redacted(path, tree));
        Self {
            path: path.to_string(),
            base: side(base),
            document: side(document),
            stored: side(stored),
        }
    }
}
