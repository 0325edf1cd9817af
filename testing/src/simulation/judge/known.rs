//! What every path shows its users at one moment, as far as that is known.

/// What was found at one moment, by the places of the seats.
pub(super) type Known = Vec<Option<Status>>;

/// What a path shows its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Up,
    Coming,
    Down,
    /// Too little is known to say.
    Unknown,
}
