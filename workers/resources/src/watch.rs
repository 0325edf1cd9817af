use std::path::PathBuf;
use std::time::Duration;

/// How to learn that a resource's state may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watch {
    /// It changes only by the resource's own actions.
    Never,
    /// By looking again after each such time.
    Poll(Duration),
    /// By watching these files and folders, whether they exist or not.
    Paths(Vec<PathBuf>),
}
