//! The log, on stderr.

use std::io::{self, IsTerminal};

use anyhow::anyhow;
use tracing::Level;
use tracing_subscriber::fmt;

use crate::cli::{Global, LogFormat};

/// Begins to write the log, from the usual level on unless the options say otherwise.
pub(crate) fn begin(global: &Global, usual: Level) -> anyhow::Result<()> {
    let level = match (global.quiet, global.verbose) {
        (true, _) => Level::ERROR,
        (false, 0) => usual,
        (false, 1) => Level::DEBUG,
        (false, _) => Level::TRACE,
    };
    // An empty value does not count, by the convention of that variable.
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let log = fmt().with_max_level(level).with_writer(io::stderr);
    let begun = match global.log_format {
        LogFormat::Human => log.with_ansi(!is_plain && io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    begun.map_err(|error| anyhow!(error).context("cannot begin to log"))
}
