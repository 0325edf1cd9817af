//! Who asked for a change, and why.

use serde::{Deserialize, Serialize};

/// Who asked for something, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Origin {
    /// Who asked.
    pub who: String,
    /// Why.
    pub why: String,
}
