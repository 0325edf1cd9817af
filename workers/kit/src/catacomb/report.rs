//! What a catacomb reports of its children.

use crankcase_engine::Detail;
use serde::Serialize;

/// What a catacomb's children are doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CatacombReport {
    /// Whether they were told to stop.
    pub is_stopping: bool,
    /// The children, the oldest first.
    pub children: Vec<CatacombChild>,
}

/// One child in a [`CatacombReport`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CatacombChild {
    /// Its name.
    pub name: String,
    /// How long it has been there, in seconds.
    pub age: f64,
}

impl From<CatacombReport> for Detail {
    fn from(report: CatacombReport) -> Self {
        Self::Value(serde_json::to_value(report).unwrap_or_default())
    }
}
