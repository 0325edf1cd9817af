//! How a process is known to be ready.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crankcase_engine::ConfigError;

/// The variable that tells a process where to notify.
pub(super) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the path of a folder may be that notify sockets are in, in bytes: the kernel takes 107
/// for a socket, and the name of one has at most 36 with its slash, for 2^44 sockets of a process.
const MAX_FOLDER: usize = 71;

/// How a [`Process`](crate::Process) is known to be ready for those who use it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Readiness {
    /// It runs.
    #[default]
    Spawned,
    /// It has run for so long. At most 24 h, and below
    /// [`ready_timeout`](crate::ProcessConfig::ready_timeout).
    Delay(Duration),
    /// It has written a line to stdout or stderr that contains this text, within what is kept of a
    /// line.
    Line(String),
    /// It accepts TCP connections.
    ///
    /// If something else does before it is spawned, it is not spawned: the port is taken.
    Port(SocketAddr),
    /// It answers a GET over plain HTTP/1 with a status from 200 to 399.
    ///
    /// If something else accepts connections there before it is spawned, it is not spawned: the port
    /// is taken.
    Http {
        /// Where it listens.
        address: SocketAddr,
        /// What is asked for, from the first slash on.
        path: String,
    },
    /// There is a file at this absolute path. A file from before the spawn counts only when it is
    /// written anew.
    File(PathBuf),
    /// It says so itself by the protocol of `sd_notify`: `READY=1` in a datagram to the socket that
    /// its variable `NOTIFY_SOCKET` names. What it says as `STATUS=` is in its status.
    Notify {
        /// The folder in which its socket is made, absolute, of at most 71 bytes. It is made with
        /// mode 0700 if it does not exist, and refused if it is another user's or others may enter
        /// it. One agent uses a folder at a time.
        folder: PathBuf,
    },
}

impl Readiness {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let error = |value: &dyn std::fmt::Display, expected| {
            Err(ConfigError::new("readiness", value, expected))
        };
        match self {
            Self::Delay(delay) if *delay > MAX_DELAY => {
                error(&format!("{delay:?}"), "a delay of at most 24 h")
            }
            Self::Line(text) if text.is_empty() || text.contains('\n') => {
                error(&format!("{text:?}"), "a text that is not empty, of one line")
            }
            Self::Port(address) | Self::Http { address, .. } if address.port() == 0 => {
                error(address, "an address with a port from 1 to 65535")
            }
            Self::Http { path, .. } if !is_request_target(path) => {
                error(&format!("{path:?}"), "a path that begins with a slash, without blanks")
            }
            Self::File(path) if !path.is_absolute() => error(&path.display(), "an absolute path"),
            Self::Notify { folder }
                if !folder.is_absolute() || folder.as_os_str().len() > MAX_FOLDER =>
            {
                error(&folder.display(), "an absolute path of at most 71 bytes")
            }
            _ => Ok(()),
        }
    }

    /// Returns the address at which it will accept connections, if that is what makes it ready.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Port(address) | Self::Http { address, .. } => Some(*address),
            _ => None,
        }
    }
}

/// Returns whether HTTP can ask for this path.
pub(super) fn is_request_target(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}
