//! What is asked of the facts, and what comes of it.

use serde_json::Value;

use crate::difference::{Difference, Digest};
use crate::merge::Conflict;
use crate::operation::{Operation, described};
use crate::pointer::Pointer;
use crate::schema::{Schema, Schemas};
use crate::store::StoreError;
use crate::tree::Tree;
use crate::update::{Update, Version};
use crate::violation::{Invalid, Violation, did_you_mean};

/// A change that is asked for, by whom, and under which conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// What is to change.
    pub change: Change,
    /// Who asks for it, for the history. An author that an [`Update`] names counts more.
    pub who: String,
    /// Why, for the history.
    pub why: Option<String>,
    /// The version that the facts have to have. Default none: any.
    pub expect_version: Option<u64>,
    /// The facts of the agent that may be overwritten, with all in them. Default none.
    pub overwrites: Vec<Pointer>,
    /// Whether nothing is to be changed: what would come of it is returned.
    pub is_trial: bool,
}

impl Submission {
    /// Returns a change that this one asks for, without conditions.
    pub fn new(change: Change, who: &str) -> Self {
        let (why, expect_version, overwrites) = (None, None, Vec::new());
        Self { change, who: who.to_owned(), why, expect_version, overwrites, is_trial: false }
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
    /// The facts as they were at the end of a version. They get the version after the stored one.
    Restore(u64),
    /// Operations of a part of the agent, which owns the facts that they set. The version stays as it is.
    Own(Vec<Operation>),
    /// A schema for the facts at a path, in the place of the one there; none takes that away.
    Register(Pointer, Option<Schema>),
}

impl Change {
    /// Calls `visit` with each text in it that is a secret, as the stored schemas say.
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
    /// The version that the facts have after it.
    pub version: Version,
    /// The facts.
    pub facts: Tree,
    /// Whether what has changed since the last document is merged into the stored facts. Default false: the
    /// document takes their place.
    pub merges: bool,
}

impl Load {
    /// Reads `{version, facts}`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, with places in the document.
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
            Some(Value::Object(facts)) => Tree::from_value(Value::Object(facts.clone()))
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

/// What came of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The version of the facts after it.
    pub version: u64,
    /// How many changes there have been.
    pub revision: u64,
    /// What the facts are known by.
    pub digest: Digest,
    /// What has changed.
    pub differences: Vec<Difference>,
    /// The facts of the agent that were overwritten, and are its own no longer.
    pub overwritten: Vec<Owned>,
}

/// A fact that a part of the agent has written, or a user where the agent would write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// Where it is.
    pub path: Pointer,
    /// Whose it is.
    pub owner: String,
}

/// Why the facts were not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FactsError {
    /// The change is wrong, or leads to facts that are.
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
    /// The facts have another version than was expected.
    #[error("the facts have version {stored}, and version {expected} was expected")]
    Unexpected {
        /// The version that was expected.
        expected: u64,
        /// The version of the facts.
        stored: u64,
    },
    /// A fact has another value than a TEST says.
    #[error("{}: {why}, and a TEST expects otherwise", path)]
    Test {
        /// Where it is.
        path: Pointer,
        /// What is there.
        why: String,
    },
    /// The change would overwrite facts of others.
    #[error("{}", whose(_0))]
    Owned(Vec<Owned>),
    /// A document cannot be merged.
    #[error("{}", conflicting(_0))]
    Conflicts(Vec<Conflict>),
    /// A version is not on record any more, or never was.
    #[error("there is no version {0} on record; \"facts log\" lists them")]
    NoVersion(u64),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn whose(owned: &[Owned]) -> String {
    let list = owned.iter().take(20).map(|Owned { path, owner }| format!("{path} is of {owner}"));
    let list = list.collect::<Vec<_>>().join(", ");
    let more = match owned.len().saturating_sub(20) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("facts of others would be overwritten: {list}{more}")
}

fn conflicting(conflicts: &[Conflict]) -> String {
    let list = conflicts.iter().take(20).map(|conflict| conflict.path.to_string());
    let list = list.collect::<Vec<_>>().join(", ");
    let more = match conflicts.len().saturating_sub(20) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the document and the stored facts have both changed {list}{more}")
}
