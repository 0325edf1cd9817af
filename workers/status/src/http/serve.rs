//! Takes connections and hands their requests over.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Outcome, Stop};
use http_body_util::combinators::BoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::{JoinError, JoinSet};

use super::paced::Paced;
use super::peer::Peer;
use super::stream::{Listener, Stream};
use super::unfinished::Unfinished;

/// The largest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// The body of an answer.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// The bounds on what clients cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How many clients are served at once.
    pub(crate) max_connections: usize,
    /// How long the head of a request may take.
    pub(crate) read_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub(crate) write_timeout: Duration,
    /// How long answers may still be given after the stop is told.
    pub(crate) drain: Duration,
}

/// Answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Returns whether a user may ask at all.
    fn admits(&self, user: Option<u32>) -> bool;

    /// Answers a request.
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        stop: Stop,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Serves clients until the stop is told. `guard` is dropped with the listener, before the last answers are given.
pub(crate) async fn serve<H: Handler>(
    (listener, guard): (Listener, impl Send),
    limits: Limits,
    handler: Arc<H>,
    stop: Stop,
) -> Outcome {
    let unfinished: Arc<Unfinished> = Arc::default();
    let mut connections = JoinSet::new();
    let mut held = None;
    loop {
        if connections.len() < limits.max_connections
            && let Some(stream) = held.take()
        {
            let (handler, unfinished) = (Arc::clone(&handler), Arc::clone(&unfinished));
            connections.spawn(converse(stream, (handler, limits, unfinished), stop.clone()));
        }
        tokio::select! {
            biased;
            () = stop.wait() => break,
            Some(ended) = connections.join_next() => note(ended),
            accepted = listener.accept(), if held.is_none() => match accepted {
                Ok(stream) => {
                    held = Some(stream);
                    if connections.len() >= limits.max_connections {
                        // What has arrived of the others' requests is read first.
                        tokio::task::yield_now().await;
                        unfinished.evict_oldest();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error.into()),
            },
        }
    }
    // Nobody connects to what will not answer.
    drop((listener, guard, held));
    let drain = async {
        while let Some(ended) = connections.join_next().await {
            note(ended);
        }
    };
    if tokio::time::timeout(limits.drain, drain).await.is_err() {
        tracing::debug!(left = connections.len(), "clients did not take their answers in time");
    }
    Ok(())
}

/// Says when answering panicked: no request may do that.
fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "answering a request failed");
    }
}

async fn converse<H: Handler>(
    stream: Stream,
    (handler, limits, unfinished): (Arc<H>, Limits, Arc<Unfinished>),
    stop: Stop,
) {
    let user = match stream.user() {
        Ok(user) if handler.admits(user) => user,
        refused => {
            tracing::debug!(?refused, "a client may not ask");
            return;
        }
    };
    let (entry, give_way) = unfinished.add();
    let stream = Arc::new(stream);
    let io = TokioIo::new(Paced::new(Arc::clone(&stream), limits.write_timeout));
    let peer = Arc::new(Peer { user, stream, entry });
    let service = service_fn(move |request| {
        let (handler, peer, stop) = (Arc::clone(&handler), Arc::clone(&peer), stop.clone());
        async move { Ok::<_, Infallible>(handler.answer(request, peer, stop).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_timeout)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false)
        .serve_connection(io, service);
    tokio::select! {
        biased;
        () = give_way.wait() => {
            tracing::debug!("a client without a whole request has given way to another");
        }
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "a client was dropped");
        }
    }
}

/// Returns an answer of a type.
pub(crate) fn respond(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
