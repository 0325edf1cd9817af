//! What has left a site, and is not kept any more.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A resource that was kept, and is not kept any more: what it kept is left as it is, and a program of it
/// ends with its agent or is ended by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// The name that it had.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind } = self;
        write!(f, "{name} ({kind})")
    }
}
