//! What a part of a run has found that does not hold.

/// What comes of a part of a run, or what it found that does not hold.
pub(super) type Found<T = ()> = Result<T, Finding>;

/// What does not hold.
#[derive(Debug)]
pub(super) struct Finding {
    /// A promise begins with its number.
    pub(super) what: String,
    /// The path of the worker that has not recovered, and the paths of what it uses.
    pub(super) about: Vec<String>,
}

impl From<String> for Finding {
    fn from(what: String) -> Self {
        Self { what, about: Vec::new() }
    }
}
