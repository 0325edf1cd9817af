//! The origin of a change: its caller and the reason.

use serde::{Deserialize, Serialize};

/// The origin of a request: its caller and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Origin {
    /// Who asked.
    pub who: String,
    /// Why.
    pub why: String,
}
