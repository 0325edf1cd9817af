//! The errors of a graph, each with the node at fault and the place where it was made.

use std::fmt;
use std::path::PathBuf;

use crate::base::error::{AttributeError, BoxError};
use crate::base::text::circle;
use crate::declare::automatic::Conflict;
use crate::declare::claim::Claim;
use crate::declare::declaration::Place;
use crate::declare::file_conflicts::FileConflict;
use crate::declare::order::OrderError;
use crate::kind::kinds::UnknownKindError;

/// All that is wrong with a graph. Nothing of it was executed.
#[derive(Debug)]
pub struct GraphError {
    /// At least one thing.
    errors: Vec<NodeError>,
}

impl GraphError {
    /// Returns each thing that is wrong.
    pub fn errors(&self) -> &[NodeError] {
        &self.errors
    }

    /// Returns an error, if anything is wrong.
    pub(super) fn of(errors: Vec<NodeError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self { errors }) }
    }
}

impl From<NodeError> for GraphError {
    fn from(error: NodeError) -> Self {
        Self { errors: vec![error] }
    }
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.errors.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for GraphError {}

/// One thing that is wrong with a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The name of a node is none that a resource can have.
    #[error(
        "{place}: {name:?} is no name of a resource: it begins with a letter, then come letters, \
         digits, _, - and single dots"
    )]
    Name {
        /// The name.
        name: String,
        /// Where the node was made.
        place: Place,
    },
    /// Two nodes with one name declare different things.
    #[error(
        "{place}: there are two different nodes \"{name}\", the other is at {other}; they differ in \
         {attribute}"
    )]
    Different {
        /// The name.
        name: String,
        /// Where the second one was made.
        place: Place,
        /// Where the first one was made.
        other: Place,
        /// The first thing in which they differ.
        attribute: String,
    },
    /// A node requires one that is not in the graph.
    #[error("{place}: node \"{name}\" requires \"{required}\", which is not in the graph{hint}")]
    Missing {
        /// The node.
        name: String,
        /// Where it was made.
        place: Place,
        /// The node that it requires.
        required: String,
        /// The nearest right name, as a question; empty if none is near.
        hint: String,
    },
    /// A node takes an attribute from the state of one that it does not require.
    #[error("{place}: node \"{name}\" uses the state of \"{used}\", which it does not require")]
    NotRequired {
        /// The node.
        name: String,
        /// Where it was made.
        place: Place,
        /// The node whose state it uses.
        used: String,
    },
    /// A node that was received requires one of its own layer or a later one.
    #[error("{place}: node \"{name}\" requires \"{required}\", which is in no layer before it")]
    Later {
        /// The node.
        name: String,
        /// Its layer, as a line, and its place in it.
        place: Place,
        /// The node that it requires.
        required: String,
    },
    /// Nodes require each other in a circle.
    #[error("nodes require each other in a circle: {}", circle(path))]
    Cycle {
        /// Each node is followed by one that it requires; the first is also the last.
        path: Vec<String>,
    },
    /// There is no such kind.
    #[error("{place}: node \"{name}\": {error}")]
    Kind {
        /// The node.
        name: String,
        /// Where it was made.
        place: Place,
        /// What is wrong with its kind.
        error: UnknownKindError,
    },
    /// An attribute is wrong.
    #[error("{place}: node \"{name}\": {error}")]
    Attribute {
        /// The node.
        name: String,
        /// Where it was made.
        place: Place,
        /// What is wrong with it.
        error: AttributeError,
    },
    /// Two nodes keep the same thing, or one keeps what the other uses for a temporary file.
    #[error("{place}: node \"{name}\": {claim} is {how} by node \"{other}\" already")]
    Conflict {
        /// The node.
        name: String,
        /// Where it was made.
        place: Place,
        /// The one that keeps it already.
        other: String,
        /// What both keep.
        claim: Claim,
        /// What the other one does with it.
        how: &'static str,
    },
    /// Two nodes keep one file under two paths, which lead there through symlinks, hard links or mounts.
    #[error(
        "{place}: node \"{name}\": {claim} is kept as {path:?} by node \"{other}\" already; both paths \
         lead to one file"
    )]
    SameFile {
        /// The node.
        name: String,
        /// Where it was made.
        place: Place,
        /// The one that keeps the file already.
        other: String,
        /// The path under which the other one keeps it.
        path: String,
        /// What the node would keep.
        claim: Claim,
    },
    /// A node keeps something in the state folder of the agent.
    #[error("{place}: node \"{name}\": {claim} is in the agent's state folder {folder:?}")]
    InState {
        /// The node.
        name: String,
        /// Where it was made.
        place: Place,
        /// What it would keep.
        claim: Claim,
        /// The state folder.
        folder: PathBuf,
    },
    /// A part of a node has the name of another node.
    #[error(transparent)]
    Order(OrderError),
    /// A node cannot be sent, or not be received.
    #[error("{place}: node \"{name}\" cannot travel: {error}")]
    Travel {
        /// The node.
        name: String,
        /// Where it was made.
        place: Place,
        /// Why.
        error: BoxError,
    },
    /// What was received is no graph in the format that is spoken here.
    #[error("this is no graph: {message}")]
    Wire {
        /// What is wrong with it, and where.
        message: String,
    },
}

impl NodeError {
    pub(super) fn conflict(conflict: Conflict, names: impl Fn(usize) -> (String, Place)) -> Self {
        let how = conflict.how();
        let Conflict { first, second, claim, .. } = conflict;
        let ((other, _), (name, place)) = (names(first), names(second));
        Self::Conflict { name, place, other, claim, how }
    }

    pub(super) fn of_file(
        conflict: FileConflict,
        names: impl Fn(usize) -> (String, Place),
    ) -> Self {
        match conflict {
            FileConflict::Same { first, other, second, claim } => {
                let (path, (other, _), (name, place)) = (other.name, names(first), names(second));
                Self::SameFile { name, place, other, path, claim }
            }
            FileConflict::InState { node, claim, folder } => {
                let (name, place) = names(node);
                Self::InState { name, place, claim, folder }
            }
        }
    }
}
