//! What people do to a worker.

use std::fmt;

/// What can be done to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Stop it and start it again.
    Bounce,
    /// Stop it and keep it stopped.
    Park,
    /// Let it start again after a park.
    Unpark,
}

impl Act {
    /// Returns its word, such as `bounce`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bounce => "bounce",
            Self::Park => "park",
            Self::Unpark => "unpark",
        }
    }

    /// Reads its word.
    pub(crate) fn read(word: &str) -> Option<Self> {
        [Self::Bounce, Self::Park, Self::Unpark].into_iter().find(|act| act.as_str() == word)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
