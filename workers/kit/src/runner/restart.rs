//! The ends after which a worker is started again.

use serde::Serialize;

/// When a worker is started again after it has ended by itself. After
/// [`Exit::Uninstall`](crankcase_engine::Exit::Uninstall) and
/// [`Exit::Fatal`](crankcase_engine::Exit::Fatal) it never is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Restart {
    /// Always.
    Permanent,
    /// When it did not end well.
    Transient,
    /// Never.
    Temporary,
}
