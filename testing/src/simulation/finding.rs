//! The finding of a part of a run: something that does not hold.

/// The result of a part of a run, or its finding.
pub(super) type Found<T = ()> = Result<T, Finding>;

/// Something that does not hold.
#[derive(Debug)]
pub(super) struct Finding {
    /// The text. That of a promise begins with its number.
    pub(super) what: String,
    /// The path of the worker that has not recovered, and the paths of what it uses.
    pub(super) about: Vec<String>,
}

impl From<String> for Finding {
    fn from(what: String) -> Self {
        Self { what, about: Vec::new() }
    }
}
