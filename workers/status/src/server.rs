//! The worker that answers on the control socket.

mod answer;
mod control;
mod extension;
mod follow;
mod guard;
mod holder;
mod metrics;
mod query;
mod route;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, Events, Outcome, Stop, Worker};
use hyper::body::Incoming;
use hyper::{Request, Response};
use rustix::process::geteuid;
use tokio::sync::Semaphore;

use crate::config_error::ConfigError;
use crate::http::{Body, Handler, Limits, Listener, Peer, serve};
use crate::metrics::MoreMetrics;
use crate::socket::{self, Files, SocketError};
use crate::state_dir::StateLock;

pub use self::extension::Extension;
pub use self::holder::Holder;
pub use self::metrics::{MetricsError, MetricsServer};

/// The extensions of a [`Control`], and the bounds on what its clients cost.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ControlConfig {
    /// How many clients are served at once; more wait. While someone waits, the client that is
    /// longest without having sent a whole request is dropped. Default 64, at least 1.
    pub max_connections: usize,
    /// How many of them may follow events; more are refused. Default 32.
    pub max_followers: usize,
    /// How large the body of a request may be, in bytes. Default 64 KiB.
    pub max_body: usize,
    /// How long the head and the body of a request may take, each. Default 10 s.
    pub read_timeout: Duration,
    /// How long an answer may take to be found; what was asked for happens all the same.
    /// Default 60 s.
    pub answer_timeout: Duration,
    /// How long a client may take nothing of its answer. Default 10 s.
    pub write_timeout: Duration,
    /// How long answers may still be given after the stop is told. Default 1 s.
    pub drain: Duration,
    /// Handlers of requests that are not about the engine. Default none.
    pub extensions: Vec<Arc<dyn Extension>>,
    /// Metrics beside those of the engine and its workers. Default none.
    pub metrics: MoreMetrics,
    /// What pauses workers, and keeps on record which ones are parked. Default none: no worker can be
    /// paused, and a park ends with the engine of the worker.
    pub holder: Option<Arc<dyn Holder>>,
}

crankcase_engine::setters! {
    ControlConfig {
        max_connections: usize,
        max_followers: usize,
        max_body: usize,
        read_timeout: Duration,
        answer_timeout: Duration,
        write_timeout: Duration,
        drain: Duration,
        extensions: Vec<Arc<dyn Extension>>,
        metrics: MoreMetrics,
    }
    optional {
        holder: Arc<dyn Holder>,
    }
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self {
            max_connections: 64,
            max_followers: 32,
            max_body: 64 * 1024,
            read_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(1),
            extensions: Vec::new(),
            metrics: |_| Vec::new(),
            holder: None,
        }
    }
}

impl ControlConfig {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// Names the first field that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.max_connections == 0 {
            return Err(ConfigError::new("max_connections", 0, "must be above zero"));
        }
        let durations = [
            ("read_timeout", self.read_timeout),
            ("answer_timeout", self.answer_timeout),
            ("write_timeout", self.write_timeout),
        ];
        match durations.iter().find(|(_, duration)| duration.is_zero()) {
            Some((field, _)) => Err(ConfigError::new(field, "0s", "must be above zero")),
            None => Ok(()),
        }
    }
}

/// A worker that answers on the control socket of a state folder.
///
/// It speaks HTTP/1 with JSON, one request for each connection:
///
/// | request | answer |
/// | --- | --- |
/// | `GET /v1/report[?path=][&depth=][&only=][&since=][&inputs=][&details=]` | the report of an engine or a worker, or a [part](crate::wire::Selection) of it |
/// | `GET /v1/counts[?path=]` | how many workers of an engine are in which state |
/// | `GET /v1/why?path=` | the chain from a worker to the root cause |
/// | `GET /v1/preview?path=&act=` | what `bounce`, `park` or `unpark` would do to other workers |
/// | `GET /v1/graph[?path=[&depth=][&most=]]` | the graphs of all engines, of one, or near a worker |
/// | `GET /v1/events[?since=[&life=]]` | the life of the agent, then a line for each event, and for those that were missed |
/// | `GET /metrics` | metrics, as text in the format of Prometheus |
/// | `POST /v1/bounce[?force=true]` | a bounce, with who asks and why; by force also of a worker that cannot start again |
/// | `POST /v1/park` | a park, likewise |
/// | `POST /v1/unpark` | an unpark, likewise |
/// | `POST /v1/pause` | a pause, likewise, if there is a [`Holder`] |
/// | `POST /v1/resume` | the end of a pause, likewise |
/// | `POST` to the target of an [`Extension`] | the answer of the extension |
///
/// A path that does not begin with `/` is one below the engine's own. Answers are in [`wire`].
///
/// # Guarantees
///
/// - The socket has mode 0600 before anyone can connect, and only root and the agent's user are
///   answered. One that a dead agent has left is taken over; anything else in its place is refused.
/// - No client can hold it up or fill its memory: see [`ControlConfig`].
///
/// [`wire`]: crate::wire
#[must_use = "it answers when it runs"]
pub struct Control {
    listener: Listener,
    files: Files,
    served: Arc<Served>,
}

/// What every connection sees.
struct Served {
    engine: Engine,
    /// The life of the agent; see [`EventsBegun`](crate::wire::EventsBegun).
    life: String,
    /// Keeps the log of the events while nobody follows them.
    _events: Events,
    config: ControlConfig,
    followers: Arc<Semaphore>,
}

impl Control {
    /// Listens on the socket of the folder that is held. Clients are answered when the worker runs.
    ///
    /// The report, the graphs and the events are those of `engine`.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used or the socket cannot be made; nothing is left behind
    /// then.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with its I/O driver enabled.
    pub fn listen(
        lock: &Arc<StateLock>,
        engine: Engine,
        config: ControlConfig,
    ) -> Result<Self, SocketError> {
        config.validate()?;
        let (listener, files) = socket::bind(lock)?;
        let followers = Arc::new(Semaphore::new(config.max_followers));
        let (life, events) = (engine.began().micros().to_string(), engine.events());
        let served = Served { engine, life, _events: events, config, followers };
        Ok(Self { listener: Listener::Unix(listener), files, served: Arc::new(served) })
    }

    /// Returns where the socket is.
    pub fn path(&self) -> &Path {
        self.files.socket()
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Worker for Control {
    async fn run(self, stop: Stop) -> Outcome {
        let Self { listener, files, served } = self;
        let ControlConfig { max_connections, read_timeout, write_timeout, drain, .. } =
            served.config;
        let limits = Limits { max_connections, read_timeout, write_timeout, drain };
        serve((listener, files), limits, served, stop).await
    }
}

impl Handler for Served {
    fn admits(&self, user: Option<u32>) -> bool {
        user.is_some_and(|user| may_ask(user, geteuid().as_raw()))
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        stop: Stop,
    ) -> Response<Body> {
        self.answer(request, peer, stop).await
    }
}

/// Returns whether a user may ask. The mode of the socket lets in nobody else; this holds also when
/// someone has changed that.
fn may_ask(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use super::may_ask;

    #[test]
    fn only_root_and_the_user_of_the_agent_may_ask() {
        assert!(may_ask(1000, 1000) && may_ask(0, 1000) && may_ask(0, 0));
        assert!(!may_ask(1001, 1000) && !may_ask(1000, 0));
    }
}
