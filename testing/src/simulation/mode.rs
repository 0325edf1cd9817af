//! Whether the faults of a run stop.

use std::fmt;

/// Whether the faults of a run stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They go on to the end.
    Safety,
    /// They stop, and everyone must recover.
    Liveness,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safety => "safety",
            Self::Liveness => "liveness",
        })
    }
}
