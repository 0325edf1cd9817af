//! Why a config file, or a version of it, is not accepted.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crankcase_engine::{BoxError, ConfigError, WithCauses};
use thiserror::Error;

/// Why a config file, or a version of it, is not accepted.
#[derive(Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// The worker's own configuration is invalid; nothing was read.
    #[error("cannot follow a config file")]
    Config(#[from] ConfigError),
    /// The file is not there, or cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path leads to a folder, a device, a socket or a pipe.
    #[error("{path:?} is not a file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than is allowed.
    #[error("{path:?} is too large; expected at most {max_bytes} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How large it may be, in bytes.
        max_bytes: u64,
    },
    /// The file is not written as its format asks, or says something else than its type.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// What is wrong there.
        message: String,
    },
    /// What the file says was judged invalid.
    #[error("{path:?} is not valid")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What the validating function said, or that it panicked.
        source: BoxError,
    },
}

impl fmt::Debug for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}
