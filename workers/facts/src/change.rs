//! Requested changes of the facts, and their outcomes.

use std::fmt;

use crankcase_workers::name_first;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authority::Owned;
use crate::difference::{Difference, Digest};
use crate::merge::Conflict;
use crate::operation::{Operation, described, json_size};
use crate::pointer::Pointer;
use crate::schema::{Schema, Schemas};
use crate::store::StoreError;
use crate::tree::Tree;
use crate::update::Update;
use crate::version::Version;
use crate::violation::{Invalid, Violation, did_you_mean};

/// The size of the largest update and of the largest document, in bytes: 32 MiB of values and paths as JSON.
pub const LARGEST_CHANGE: usize = 32 * 1024 * 1024;

/// The most things that an error names one by one.
const MOST_NAMED: usize = 20;

/// A requested change: its author and its conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The change.
    pub change: Change,
    /// The sender, for the history. If an [`Update`] names an author, the history shows both: `author, by sender`.
    pub who: String,
    /// The reason, for the history. A reason in an [`Update`] replaces it. Default none.
    pub why: Option<String>,
    /// The version that the facts must have. Default none: any.
    pub expect_version: Option<u64>,
    /// The paths of the agent's facts that may be overwritten, with everything below them. Default none.
    pub overwrites: Vec<Pointer>,
    /// Whether this is a trial: the outcome is returned, but nothing is changed. Default false.
    pub is_trial: bool,
    /// Whether the change is refused if it degrades anything that uses the facts. Default false.
    pub is_strict: bool,
}

impl Submission {
    /// Returns a submission of a change by this sender, without conditions.
    pub fn new(change: Change, who: &str) -> Self {
        Self {
            change,
            who: who.to_owned(),
            why: None,
            expect_version: None,
            overwrites: Vec::new(),
            is_trial: false,
            is_strict: false,
        }
    }
}

/// A change of the facts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Operations of a user.
    Update(Update),
    /// A document of a user.
    Load(Load),
    /// The facts as they were at the end of a version. Their new version is the stored one plus 1.
    Restore(u64),
    /// Operations of a part of the agent. The part owns the facts that they set. The version does not change.
    Own(Vec<Operation>),
    /// A schema for the facts at a path. It replaces the registered one; none removes that one.
    Register(Pointer, Option<Schema>),
}

impl Change {
    /// Returns the size of the values and paths of the change, in bytes of JSON.
    pub(crate) fn size(&self) -> usize {
        let of_operations = |operations: &[Operation]| operations.iter().map(Operation::size).sum();
        match self {
            Self::Load(load) => json_size(&load.facts),
            Self::Update(update) => of_operations(&update.operations),
            Self::Own(operations) => of_operations(operations),
            Self::Restore(_) | Self::Register(..) => 0,
        }
    }

    /// Calls `visit` with each text in the change that is a secret by the stored schemas.
    pub fn secrets(&self, (stored, schemas): (&Tree, &Schemas), visit: &mut impl FnMut(&str)) {
        match self {
            Self::Load(load) => schemas.secrets(&load.facts, visit),
            Self::Update(Update { operations, .. }) | Self::Own(operations) => {
                for operation in operations {
                    if let Some(facts) = operation.facts(stored) {
                        schemas.secrets(&facts, visit);
                    }
                }
            }
            Self::Restore(_) | Self::Register(..) => {}
        }
    }
}

/// All facts in one document.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The version of the facts after the load.
    pub version: Version,
    /// The facts.
    pub facts: Tree,
    /// Whether the changes since the last document are merged into the stored facts. Default false: the document
    /// replaces the stored facts.
    pub merges: bool,
}

impl Load {
    /// Reads `{version, facts}`.
    ///
    /// # Errors
    ///
    /// All violations, with their places in the document.
    pub fn read(document: &Value, merges: bool) -> Result<Self, Invalid> {
        let root = Pointer::root();
        let Some(map) = document.as_object() else {
            let message = format!("a document of facts is a map, not {}", described(document));
            return Err(Violation::of_document(&root, message).into());
        };
        let mut violations = Vec::new();
        for key in map.keys().filter(|key| !matches!(key.as_str(), "version" | "facts")) {
            let help = did_you_mean(key, ["version", "facts"]);
            let help = help.unwrap_or_else(|| "there are version and facts".to_owned());
            let message = format!("a document of facts has no key {key:?}");
            violations.push(Violation::of_document(&root.join(key), message).help(Some(help)));
        }
        let version = match map.get("version").map(Version::of_value) {
            Some(Ok(version)) => Some(version),
            Some(Err(message)) => {
                violations.push(Violation::of_document(&root.join("version"), message));
                None
            }
            None => {
                violations.push(Violation::of_document(&root, "\"version\" is missing"));
                None
            }
        };
        let facts = match map.get("facts") {
            Some(facts @ Value::Object(_)) => Tree::of_value_at(&Pointer::root(), facts)
                .map_err(|(path, why)| {
                    let at = path.below(&root.join("facts"));
                    violations.push(Violation::of_document(&at, why));
                })
                .ok(),
            Some(other) => {
                let message = format!("\"facts\" is a map, not {}", described(other));
                violations.push(Violation::of_document(&root.join("facts"), message));
                None
            }
            None => {
                violations.push(Violation::of_document(&root, "\"facts\" is missing"));
                None
            }
        };
        match (version, facts) {
            (Some(version), Some(facts)) if violations.is_empty() => {
                Ok(Self { version, facts, merges })
            }
            _ => Err(violations.into()),
        }
    }
}

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The version of the facts after the change.
    pub version: u64,
    /// The number of changes so far, including those of the agent.
    pub revision: u64,
    /// The digest of the facts after the change.
    pub digest: Digest,
    /// The changed facts.
    pub differences: Vec<Difference>,
    /// The facts of the agent that were overwritten. The agent no longer owns them.
    pub overwritten: Vec<Owned>,
    /// The users of facts that the change degrades. Empty if the change [was not judged](crate::Facts::submit_judged).
    pub degraded: Vec<Degraded>,
}

/// A user of facts, such as a resource, for which the facts are wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    /// Its name; none if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is wrong, without secrets.
    pub message: String,
}

impl fmt::Display for Degraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, message } = self;
        name.iter().try_for_each(|name| write!(f, "{name}: "))?;
        f.write_str(message)
    }
}

/// Why the facts were not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FactsError {
    /// The change is wrong, or the facts after it would be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The facts have this version already, or a later one.
    #[error("stale facts version {given}: the store is at {stored}")]
    Stale {
        /// The version of the change.
        given: u64,
        /// The version of the facts.
        stored: u64,
    },
    /// The facts do not have the expected version.
    #[error("the facts have version {stored}, and version {expected} was expected")]
    Unexpected {
        /// The expected version.
        expected: u64,
        /// The version of the facts.
        stored: u64,
    },
    /// A fact does not have the value of a TEST.
    #[error("{}: {why}, and a TEST expects otherwise", path)]
    Test {
        /// The path of the fact.
        path: Pointer,
        /// What was found, in words.
        why: String,
    },
    /// The change would overwrite facts of other owners.
    #[error("{}", whose(_0))]
    Owned(Vec<Owned>),
    /// A document cannot be merged.
    #[error("{}", conflicting(_0))]
    Conflicts(Vec<Conflict>),
    /// The change is strict, and degrades something that uses the facts.
    #[error("something that uses the facts would be wrong with them")]
    Degrades(Vec<Degraded>),
    /// The version never existed, or the history no longer has it.
    #[error("there is no version {0} on record; \"facts log\" lists them")]
    NoVersion(u64),
    /// An entry of the history does not lead from the facts of the entry before it to its own. No version before it can
    /// be restored.
    #[error(
        "the entry of version {version} (revision {revision}) in the history is damaged; no version before it can be restored"
    )]
    Damaged {
        /// The version of the entry.
        version: u64,
        /// The revision of the entry.
        revision: u64,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for FactsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Entry { revision, version, .. } => Self::Damaged { version, revision },
            error => Self::Store(error),
        }
    }
}

fn whose(owned: &[Owned]) -> String {
    let all = owned.iter().map(|Owned { path, owner }| format!("{path} is of {owner}"));
    format!("facts of others would be overwritten: {}", name_first(MOST_NAMED, all))
}

fn conflicting(conflicts: &[Conflict]) -> String {
    let list = name_first(MOST_NAMED, conflicts.iter().map(|conflict| &conflict.path));
    format!("the document and the stored facts have both changed {list}")
}
