//! Versioned facts: a tree of values that users and the agent change, with schemas, authority and history.
//!
//! [`Facts`] are what a program has at hand. They are kept by a [`Backend`]; [`Sqlite`] keeps them in one file. A
//! [`Submission`] asks for a [`Change`]: an [`Update`] by operations, a [`Load`] of a whole document, and others.
//! A change is made as a whole or refused as a whole, with everything that is wrong with it.
//!
//! # Operations
//!
//! | operation | on what is there | on what is not there | on an item of a list | on the root |
//! | --- | --- | --- | --- | --- |
//! | `SET` | takes its place | is put into the map above, which must be there | takes its place; `-` and one past the end are errors | all facts are replaced by a map |
//! | `INSERT` | is an error | is put into the map above, which must be there | is put before it; `-` is the end | is an error |
//! | `DELETE` | removes it with all in it | is an error, unless the update says `ignore_missing` | removes it, and those behind it move up | is an error |
//! | `TEST` | goes on if it is equal | stops the update | as elsewhere | as elsewhere |
//!
//! With `create_parents` maps that lead to a path are made. Of RFC 6902 `remove` and `test` are as above, `add`
//! inserts into a list and sets in a map, `replace` sets what is there, and `move` and `copy` add what is at `from`.

mod change;
#[cfg(feature = "testing")]
pub mod conformance;
mod difference;
mod disagreement;
mod example;
mod facts;
mod format;
mod layers;
mod merge;
mod operation;
mod pointer;
mod references;
mod schema;
mod secrecy;
mod shape;
mod sqlite;
mod state;
mod store;
mod tree;
mod update;
mod violation;
mod watching;
pub mod wire;

pub use change::{Change, FactsError, Load, Outcome, Owned, Submission};
pub use difference::{Difference, Digest, difference};
pub use disagreement::{Disagreement, disagreements};
pub use example::{example, skeleton};
pub use facts::Facts;
pub use layers::{LAYERS, Layer, effective, explain};
pub use merge::Conflict;
pub use operation::Operation;
pub use pointer::{Pointer, PointerError};
pub use schema::{Schema, Schemas};
pub use sqlite::Sqlite;
pub use state::Snapshot;
pub use store::{Backend, Commit, Document, Entry, KEPT_ENTRIES, StoreError, Stored};
pub use tree::Tree;
pub use update::{LONGEST_REASON, Update, Version};
pub use violation::{Invalid, Violation};
