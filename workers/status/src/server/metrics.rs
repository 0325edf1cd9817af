//! The worker that serves metrics on a loopback port.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, Outcome, Stop, Worker};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use thiserror::Error;
use tokio::net::TcpListener;

use super::answer::{Refusal, plain};
use super::guard::{METRICS, refuse_browsers, require_own_host, whole};
use crate::http::{Body, Handler, Limits, Listener, Peer, serve};
use crate::metrics::{MoreMetrics, text};
use crate::wire::FailureCode;

/// How many clients are served at once: one collects, and a second one may.
const MAX_CONNECTIONS: usize = 4;

/// How long the head of a request may take, and how long a client may take nothing of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why metrics cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// Others could read the address, and nothing is asked of those who read.
    #[error("cannot serve metrics on {address}: it is beyond this machine; use 127.0.0.1 or [::1]")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be used.
    #[error("cannot serve metrics on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// A worker that answers `GET /metrics` on a loopback port, in the text format of Prometheus.
///
/// # Guarantees
///
/// - Only programs on this machine are answered. Every one of them is: metrics name workers and
///   resources, and have no values of them.
/// - A request of a page in a browser, or to another host, is refused.
/// - No client can hold it up or fill its memory: at most 4 are served at once, and one that takes
///   nothing of its answer for 10 seconds is dropped.
#[must_use = "it serves when it runs"]
pub struct MetricsServer {
    listener: TcpListener,
    address: SocketAddr,
    served: Arc<ServedMetrics>,
}

/// What every connection sees.
struct ServedMetrics {
    engine: Engine,
    more: MoreMetrics,
}

impl MetricsServer {
    /// Listens on an address; port 0 is one that the system picks. Clients are answered when the
    /// worker runs, with the metrics of `engine`.
    ///
    /// # Errors
    ///
    /// When the address is beyond this machine, or cannot be used.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with its I/O driver enabled.
    pub async fn listen(
        address: SocketAddr,
        engine: Engine,
        more: MoreMetrics,
    ) -> Result<Self, MetricsError> {
        if !address.ip().is_loopback() {
            return Err(MetricsError::NotLoopback { address });
        }
        let failed = |source| MetricsError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, served: Arc::new(ServedMetrics { engine, more }) })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Debug for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Worker for MetricsServer {
    async fn run(self, stop: Stop) -> Outcome {
        let limits = Limits {
            max_connections: MAX_CONNECTIONS,
            read_timeout: PATIENCE,
            write_timeout: PATIENCE,
            drain: Duration::from_secs(1),
        };
        serve((Listener::Tcp(self.listener), ()), limits, self.served, stop).await
    }
}

impl Handler for ServedMetrics {
    fn admits(&self, _user: Option<u32>) -> bool {
        // The system does not know who connects to a port.
        true
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        _stop: Stop,
    ) -> Response<Body> {
        if let Err(refusal) = check(&request, &peer) {
            return refusal.into_response();
        }
        plain(text(&self.engine, self.more).await)
    }
}

/// Refuses all but the one request that there is.
fn check(request: &Request<Incoming>, peer: &Peer) -> Result<(), Refusal> {
    refuse_browsers(request)?;
    require_own_host(request)?;
    let target = request.uri().path();
    if target != METRICS {
        let message = format!("there is no {target:?}; the metrics are at {METRICS:?}");
        return Err(Refusal::new(FailureCode::UnknownRequest, message));
    }
    if *request.method() != Method::GET {
        let message = format!("{target:?} is asked with {}", Method::GET);
        return Err(Refusal::new(FailureCode::WrongMethod, message));
    }
    whole(peer)
}
