//! The log, on stderr or in the journal.

use crankcase_manifolds::{LogFormat, Logging, LoggingError};
use tracing::Level;

use crate::global::{self, Global};
use crate::secrets::secrets;

/// Begins to write the log, from the usual level on unless the options say otherwise.
pub(crate) fn begin(global: &Global, usual: Level) -> Result<(), LoggingError> {
    let level = match (global.quiet, global.verbose) {
        (true, _) => Level::ERROR,
        (false, 0) => usual,
        (false, 1) => Level::DEBUG,
        (false, _) => Level::TRACE,
    };
    let format = match global.log_format {
        global::LogFormat::Auto => LogFormat::Auto,
        global::LogFormat::Human => LogFormat::Human,
        global::LogFormat::Json => LogFormat::Json,
        global::LogFormat::Journald => LogFormat::Journald,
    };
    let logging = Logging::default().filter(level.to_string()).format(format);
    logging.secrets(secrets()).begin()
}
