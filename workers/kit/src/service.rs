//! Tells the manager of this service how it does, by the protocol of `sd_notify`.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crankcase_engine::WithCauses;
use thiserror::Error;

use crate::printable::spaced;

/// How much of a status is told, in bytes.
const MAX_STATUS: usize = 1000;

/// What a service manager is told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceState {
    /// The service is up: what was ordered after it may start.
    Ready,
    /// It begins to stop.
    Stopping,
    /// What it is doing, on one line, for people.
    Status(String),
    /// It is alive; see [`ServiceManager::watchdog`].
    Watchdog,
}

impl fmt::Display for ServiceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("READY=1"),
            Self::Stopping => f.write_str("STOPPING=1"),
            Self::Status(text) => {
                let line: String = spaced(text).collect();
                write!(f, "STATUS={}", &line[..line.floor_char_boundary(MAX_STATUS)])
            }
            Self::Watchdog => f.write_str("WATCHDOG=1"),
        }
    }
}

/// Why a service manager cannot be told.
#[derive(Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The address is not that of a Unix socket.
    #[error("NOTIFY_SOCKET is {address:?}; expected a path, or @ and an abstract name")]
    Address {
        /// The address.
        address: String,
    },
    /// The variable of the watchdog cannot be used.
    #[error("WATCHDOG_USEC is {value:?}; expected a number of microseconds above 0")]
    Watchdog {
        /// Its value.
        value: String,
    },
    /// There is no socket to be had.
    #[error("cannot make a socket to the service manager")]
    Socket {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl fmt::Debug for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

/// The manager that has started this process as a service, such as systemd with `Type=notify`.
///
/// # Examples
///
/// ```
/// use crankcase_workers::{ServiceManager, ServiceState};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Without the variable NOTIFY_SOCKET there is none.
/// if let Some(manager) = ServiceManager::from_env()? {
///     manager.tell(&[ServiceState::Ready, ServiceState::Status("serving".to_owned())])?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Returns the manager that the environment names; `None` if it names none.
    ///
    /// `NOTIFY_SOCKET` is where it listens. `WATCHDOG_USEC` is how often it wants to hear of us, if
    /// `WATCHDOG_PID` is not that of another process.
    ///
    /// # Errors
    ///
    /// When a variable cannot be used.
    pub fn from_env() -> Result<Option<Self>, ServiceError> {
        let Some(address) = env::var_os("NOTIFY_SOCKET").filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let is_ours = env::var("WATCHDOG_PID")
            .map_or(true, |process| process.parse() == Ok(std::process::id()));
        let watchdog = match env::var("WATCHDOG_USEC") {
            Ok(value) if is_ours => match value.parse() {
                Ok(0) | Err(_) => return Err(ServiceError::Watchdog { value }),
                Ok(micros) => Some(Duration::from_micros(micros)),
            },
            _ => None,
        };
        Ok(Some(Self { watchdog, ..Self::at(&address)? }))
    }

    /// Returns the manager that listens at a path, or with an @ before it at an abstract name; it
    /// has no watchdog.
    ///
    /// # Errors
    ///
    /// When it is neither, or there is no socket to be had.
    pub fn at(address: &OsStr) -> Result<Self, ServiceError> {
        let bytes = address.as_bytes();
        let found = match bytes {
            [b'/', ..] => SocketAddr::from_pathname(address),
            [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        let invalid = |_| ServiceError::Address { address: address.to_string_lossy().into_owned() };
        let failed = |source| ServiceError::Socket { source };
        let address = found.map_err(invalid)?;
        let socket = UnixDatagram::unbound().map_err(failed)?;
        // A manager that does not read must not hold us up.
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Self { socket, address, watchdog: None })
    }

    /// Returns how long the manager waits for a [`ServiceState::Watchdog`] before it takes this
    /// process for hung; tell it twice as often.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Tells several states at once. Does not wait.
    ///
    /// # Errors
    ///
    /// When the manager does not listen, or has not read what it was told before.
    pub fn tell(&self, states: &[ServiceState]) -> io::Result<()> {
        let lines: Vec<_> = states.iter().map(ToString::to_string).collect();
        self.socket.send_to_addr(lines.join("\n").as_bytes(), &self.address).map(drop)
    }
}
