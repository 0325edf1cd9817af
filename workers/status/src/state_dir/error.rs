//! Why a state folder cannot be used.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crankcase_engine::WithCauses;
use thiserror::Error;

/// Why a state folder cannot be used.
#[derive(Error)]
#[non_exhaustive]
pub enum StateError {
    /// Neither `XDG_STATE_HOME` nor `HOME` says where the state is: name a folder.
    #[error("cannot tell where the state folder is: neither XDG_STATE_HOME nor HOME is set")]
    NoHome,
    /// The folder cannot be made or looked at.
    #[error("cannot use the state folder {path:?}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others could change what is in the folder.
    #[error("cannot use the folder {path:?}: {reason}")]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// Another process holds the folder: wait for it, or name another folder.
    #[error("the state folder {path:?} is held by {}", holder(*pid))]
    Held {
        /// The folder.
        path: PathBuf,
        /// The process; `None` if it has not said yet.
        pid: Option<u32>,
    },
}

impl fmt::Debug for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
