use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crankcase_engine::ConfigError;
use thiserror::Error;

use super::LedgerError;

/// Why an external command could not be run, or has ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The configuration is invalid; nothing was done.
    #[error("cannot run process {name:?}")]
    Config {
        /// The name of the process.
        name: String,
        /// The field at fault.
        #[source]
        source: ConfigError,
    },
    /// The working folder does not exist or is not a folder.
    #[error("cannot run process {name:?} in {folder:?}")]
    Folder {
        /// The name of the process.
        name: String,
        /// The working folder.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program could not be executed: it is not there, or not a program.
    #[error("cannot execute {program:?} as process {name:?}")]
    Execute {
        /// The name of the process.
        name: String,
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The process could not be recorded; it was not spawned, or was killed again.
    #[error("cannot record process {name:?}")]
    Record {
        /// The name of the process.
        name: String,
        /// What failed.
        #[source]
        source: LedgerError,
    },
    /// The process could not be watched, told to end, killed or reaped.
    #[error("cannot supervise process {name:?}")]
    Supervise {
        /// The name of the process.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The process has ended by itself, well or not; what was left of its group was killed.
    #[error("process {name:?} ended with {status}")]
    Exited {
        /// The name of the process.
        name: String,
        /// How it ended.
        status: ExitStatus,
    },
}
