//! Versioned facts: a tree of values that users and the agent change, with schemas, owners and history.
//!
//! A program works with [`Facts`]. A [`Backend`] stores them; [`Sqlite`] stores them in one file. A [`Submission`]
//! requests a [`Change`]: an [`Update`] with operations, a [`Load`] of a whole document, and others. A change is
//! made as a whole or refused as a whole. A refusal lists all violations.
//!
//! # Operations
//!
//! | operation | at a fact | at a path without a fact | at an item of a list | at the root |
//! | --- | --- | --- | --- | --- |
//! | `SET` | replaces it | adds a member to the map above, which must exist | replaces it; `-` and one past the end are errors | replaces all facts; the value must be a map |
//! | `INSERT` | is an error | adds a member to the map above, which must exist | inserts an item before it; `-` is the end | is an error |
//! | `DELETE` | removes it with everything in it | is an error, unless the update has `ignore_missing` | removes it; the items after it move up | is an error |
//! | `TEST` | stops the update unless the values are equal | stops the update | as at any fact | as at any fact |
//!
//! `create_parents` creates the missing maps on the way to a path. The operations of RFC 6902: `remove` is `DELETE`,
//! and `test` is `TEST`. `add` inserts into a list and sets in a map. `replace` sets an existing fact. `move` and
//! `copy` add the value at `from`.

mod authority;
mod change;
#[cfg(feature = "testing")]
pub mod conformance;
mod difference;
mod disagreement;
mod edits;
mod example;
mod facts;
mod format;
mod layers;
mod list;
mod merge;
mod operation;
mod pointer;
mod references;
mod schema;
mod secrecy;
mod shapes;
mod sqlite;
mod state;
mod store;
mod tree;
mod update;
mod version;
mod violation;
mod watching;
pub mod wire;
mod written;

pub use authority::{Owned, OwnerChanges, Owners};
pub use change::{Change, Degraded, FactsError, LARGEST_CHANGE, Load, Outcome, Submission};
pub use difference::{Difference, Digest, difference};
pub use disagreement::{Disagreement, disagreements};
pub use example::{example, skeleton};
pub use facts::{Facts, History};
pub use layers::{LAYERS, Layer, effective, explain};
pub use merge::Conflict;
pub use operation::Operation;
pub use pointer::{Pointer, PointerError};
pub use schema::{Schema, Schemas};
pub use sqlite::Sqlite;
pub use state::Snapshot;
pub use store::{
    Backend, Commit, Document, Entry, KEPT_BYTES, KEPT_BYTES_OF_AGENT, KEPT_ENTRIES,
    KEPT_ENTRIES_OF_AGENT, StoreError, Stored,
};
pub use tree::Tree;
pub use update::Update;
pub use version::{LONGEST_REASON, Version};
pub use violation::{Invalid, Violation};
