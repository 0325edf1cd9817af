//! The status that every path shows its users at one moment, as far as it is known.

/// The statuses that were found at one moment, by the places of the seats.
pub(super) type Known = Vec<Option<Status>>;

/// The status that a path shows its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Up,
    Coming,
    Down,
    /// Too little is known to say.
    Unknown,
}
