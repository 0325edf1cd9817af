//! Why a type cannot be used.

/// Why it is not known how a type works.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unknown {
    /// All that is wrong with its answer, or with what it asks for.
    #[error("{}", _0.join("; "))]
    Type(Vec<String>),
    /// The type has not answered in time.
    #[error("{_0}")]
    Late(String),
    /// The machine cannot ask the type.
    #[error("{_0}")]
    Machine(String),
}
