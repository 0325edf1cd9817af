//! The bodies of requests and of answers without an end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crankcase_engine::Stop;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::peer::{Peer, closed};

/// Why the body of a request is not there.
#[derive(Debug)]
pub(crate) enum Unread {
    Late,
    TooLong,
    Broken(String),
}

/// Reads the body of a request, of at most so many bytes.
pub(crate) async fn read_body(
    request: Request<Incoming>,
    most: usize,
    within: Duration,
) -> Result<Bytes, Unread> {
    let body = Limited::new(request.into_body(), most).collect();
    let body = timeout(within, body).await.map_err(|_| Unread::Late)?;
    let body = body.map_err(|error| match error.downcast::<LengthLimitError>() {
        Ok(_) => Unread::TooLong,
        Err(error) => Unread::Broken(error.to_string()),
    })?;
    Ok(body.to_bytes())
}

/// Where the lines of an answer come from.
pub(crate) trait Lines: Send + Sync + 'static {
    /// Returns the next line, with its end; none if there will be no more.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send + Sync;
}

/// A body of lines. It ends when there are no more, at the stop (what is there already is sent first), or when the
/// client is gone.
pub(crate) struct Streamed<L>(Wait<L>);

/// One wait for the next line; it gives back what it needs for another one.
type Wait<L> = Pin<Box<dyn Future<Output = (Held<L>, Option<Bytes>)> + Send + Sync>>;

struct Held<L> {
    lines: L,
    stop: Stop,
    peer: Arc<Peer>,
    _permit: OwnedSemaphorePermit,
}

impl<L: Lines> Streamed<L> {
    /// Holds the permit as long as there may be more lines.
    pub(crate) fn new(
        lines: L,
        (stop, permit): (Stop, OwnedSemaphorePermit),
        peer: Arc<Peer>,
    ) -> Self {
        Self(wait(Held { lines, stop, peer, _permit: permit }))
    }
}

fn wait<L: Lines>(mut held: Held<L>) -> Wait<L> {
    Box::pin(async move {
        let line = tokio::select! {
            biased;
            // Before the stop: what is there already is told.
            line = held.lines.next() => line,
            () = held.stop.wait() => None,
            // The connection itself does not see it while a part of the request is unread.
            () = closed(&held.peer.stream) => None,
        };
        (held, line)
    })
}

impl<L: Lines> Body for Streamed<L> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Poll::Ready((held, line)) = self.0.as_mut().poll(cx) else { return Poll::Pending };
        self.0 = wait(held);
        Poll::Ready(line.map(|line| Ok(Frame::data(line))))
    }
}
