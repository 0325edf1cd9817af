//! The status page: one document that shows an agent live.
//!
//! Invariants:
//! 1. Nothing but the bare document is answered to a request without the token, and nothing at all to one that names
//!    another host or comes from another page.
//! 2. However many pages are open, the agent has one follower of its events, and none if no page is open.
//! 3. What comes from the agent is text in the document, and never markup.

mod config;
mod feed;
mod guard;
mod routes;
mod view;

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Outcome, Stop, Worker};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener, UnixSocket};
use tokio::sync::Semaphore;

pub use self::config::PageConfig;
use self::feed::Feed;
use self::guard::{Gate, random};
use self::routes::Routes;
use crate::http::{Limits, Listener, serve};

/// How many clients are served at once. Each open page has one for its stream.
const MAX_CONNECTIONS: usize = 64;

/// How long the head and the body of a request may take, and how long a client may take nothing of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the page is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageAddress {
    /// On a TCP port; 0 is one that the system picks.
    Tcp(SocketAddr),
    /// On a Unix socket with mode 0600, for a proxy that asks for the host `localhost`.
    Unix(PathBuf),
}

/// Why the page cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError {
    /// The address cannot be used.
    #[error("cannot serve the page on {address}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// No one address can be opened where it would be served: name one of this machine's.
    #[error("cannot serve the page on {address}: name the address that people will open")]
    Unspecified {
        /// The address.
        address: IpAddr,
    },
    /// The system gives no random bytes for the token.
    #[error("cannot make a token")]
    Token(#[source] io::Error),
}

/// A worker that serves a page on which an agent is seen live.
///
/// It asks the agent on its control socket, waits for an agent that is not there yet, and goes on with one that was
/// restarted.
///
/// # Guarantees
///
/// - Every request but that for the bare document needs the token of [`url`](Self::url), which has 128 bits and is
///   made anew for each worker.
/// - A request that names another host or was sent by another page is refused.
/// - No client can hold it up or fill its memory: at most 64 are served at once, and one that takes nothing of its
///   answer for 10 seconds is dropped.
#[must_use = "it serves when it runs"]
pub struct Page {
    listener: Listener,
    file: Option<SocketFile>,
    url: String,
    routes: Arc<Routes>,
    state_dir: PathBuf,
}

impl Page {
    /// Listens on an address. Clients are answered when the worker runs.
    ///
    /// # Errors
    ///
    /// When the address cannot be used, or the system gives no random bytes for the token.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with its I/O driver enabled.
    pub async fn listen(address: PageAddress, config: PageConfig) -> Result<Self, PageError> {
        let (listener, file, host) = match address {
            PageAddress::Tcp(address) => {
                if address.ip().is_unspecified() {
                    return Err(PageError::Unspecified { address: address.ip() });
                }
                let failed = |source| PageError::Listen { address: address.to_string(), source };
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let host = host_of(listener.local_addr().map_err(failed)?);
                (Listener::Tcp(listener), None, host)
            }
            PageAddress::Unix(path) => {
                let failed =
                    |source| PageError::Listen { address: path.display().to_string(), source };
                let (listener, file) = bind(&path).map_err(failed)?;
                (Listener::Unix(listener), Some(file), "localhost".to_owned())
            }
        };
        let token = match config.token.clone() {
            Some(token) => token,
            None => random().map_err(PageError::Token)?,
        };
        let url = format!("http://{host}/#token={token}");
        let gate = Gate::new(host, token);
        let feed = Arc::new(Feed::new(config.name));
        let state_dir = config.state_dir.clone();
        let streams = Arc::new(Semaphore::new(routes::MAX_STREAMS));
        let pictures = Mutex::default();
        let routes = Arc::new(Routes { gate, feed, config, streams, pictures });
        Ok(Self { listener, file, url, routes, state_dir })
    }

    /// Returns the address to open in a browser. Whoever knows it sees what the agent does, and may do what the page
    /// allows.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Worker for Page {
    async fn run(self, stop: Stop) -> Outcome {
        let Self { listener, file, routes, state_dir, .. } = self;
        let feed = Arc::clone(&routes.feed);
        let limits = Limits {
            max_connections: MAX_CONNECTIONS,
            read_timeout: PATIENCE,
            write_timeout: PATIENCE,
            drain: Duration::from_secs(1),
        };
        // Dropped with the last answers, which it feeds.
        tokio::select! {
            ended = serve((listener, file), limits, routes, stop) => ended,
            () = feed.run(&state_dir) => Ok(()),
        }
    }
}

/// Returns the host that a browser names in its requests: it leaves the usual port out.
fn host_of(address: SocketAddr) -> String {
    let host = address.to_string();
    host.strip_suffix(":80").map_or_else(|| host.clone(), str::to_owned)
}

/// The file of a Unix socket; it is removed when this is dropped, unless another one has taken its place.
struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: identity(path) }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok().filter(|it| it.file_type().is_socket())?;
    Some((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_none() || identity(&self.path) != self.identity {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = ?self.path, "cannot remove the socket of the page");
        }
    }
}

/// Listens on a Unix socket that only its owner can connect to. Takes over one on which nobody listens any more.
fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let is_dead = |path| match std::os::unix::net::UnixStream::connect(path) {
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        Ok(_) => false,
    };
    if identity(path).is_some() && is_dead(path) {
        fs::remove_file(path)?;
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile::new(path);
    // Nobody can connect before it listens.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok((socket.listen(64)?, file))
}
