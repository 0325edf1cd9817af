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
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Outcome, Stop, Worker};
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

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
    /// When the address cannot be used.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with its I/O driver enabled.
    pub async fn listen(address: PageAddress, config: PageConfig) -> Result<Self, PageError> {
        let (listener, file, host) = match address {
            PageAddress::Tcp(address) => {
                let failed = |source| PageError::Listen { address: address.to_string(), source };
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let host = listener.local_addr().map_err(failed)?.to_string();
                (Listener::Tcp(listener), None, host)
            }
            PageAddress::Unix(path) => {
                let failed =
                    |source| PageError::Listen { address: path.display().to_string(), source };
                let listener = bind(&path).map_err(failed)?;
                (Listener::Unix(listener), Some(SocketFile(path)), "localhost".to_owned())
            }
        };
        let token = random().map_err(PageError::Token)?;
        let url = format!("http://{host}/#token={token}");
        let gate = Gate::new(host, token);
        let feed = Arc::new(Feed::new(config.name));
        let state_dir = config.state_dir.clone();
        let routes = Arc::new(Routes { gate, feed, config });
        Ok(Self { listener, file, url, routes, state_dir })
    }

    /// Returns the address to open in a browser. Whoever knows it sees what the agent does.
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
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { feed.run(&state_dir).await });
        let limits = Limits {
            max_connections: MAX_CONNECTIONS,
            read_timeout: PATIENCE,
            write_timeout: PATIENCE,
            drain: Duration::from_secs(1),
        };
        serve((listener, file), limits, routes, stop).await
    }
}

/// The file of a Unix socket; it is removed when this is dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, path = ?self.0, "cannot remove the socket of the page");
        }
    }
}

/// Listens on a Unix socket that only its owner can connect to.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = tokio::net::UnixSocket::new_stream()?;
    socket.bind(path)?;
    // Nobody can connect before it listens.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    socket.listen(64)
}
