//! Whether an engine runs, and how it has ended.

use crate::vocabulary::error::SharedError;
use crate::vocabulary::settings::Severity;

/// Whether an engine runs.
pub(crate) enum Life {
    Running,
    /// The engine was killed, or has had a fatal error.
    Stopping,
    Ended(Verdict),
}

/// How an engine has ended.
#[derive(Clone)]
pub(crate) enum Verdict {
    Ended,
    /// Not all workers have ended.
    LeftBehind,
    /// The workers' runtime was shut down.
    RuntimeGone,
    /// The loop was dropped with its runtime before the engine's end.
    Lost,
    /// The loop has panicked.
    Panicked,
    Fatal {
        path: String,
        error: SharedError,
    },
}

impl Verdict {
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            // Workers that are left behind did not stop the engine.
            Self::Ended | Self::LeftBehind => None,
            Self::RuntimeGone => Some("its workers' runtime was shut down".to_owned()),
            Self::Lost => Some("its runtime was shut down".to_owned()),
            Self::Panicked => Some("its loop panicked".to_owned()),
            Self::Fatal { path, error } => Some(format!("{path}: {}", error.text())),
        }
    }
}

/// The gravest fatal error so far.
pub(crate) struct Fatal {
    pub(crate) severity: Severity,
    pub(crate) path: String,
    pub(crate) error: SharedError,
}

impl Verdict {
    pub(super) fn of(fatal: &Fatal) -> Self {
        Self::Fatal { path: fatal.path.clone(), error: fatal.error.clone() }
    }
}
