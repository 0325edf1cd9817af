//! The stream of events, one JSON text on each line.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crankcase_engine::{Events, Notice, Stop};
use hyper::body::{Body, Bytes, Frame};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::{Peer, closed};
use crate::wire::{EventLine, EventsBegun, VERSION, Versioned};

/// One wait for the next event; it gives the source back.
type Wait = Pin<Box<dyn Future<Output = (Source, Option<Notice>)> + Send + Sync>>;

/// Where the events come from, and until when.
struct Source {
    events: Events,
    stop: Stop,
    peer: Arc<Peer>,
}

/// A body of events; it ends after those that came before the stop, or when the client is gone.
pub(super) struct EventLines {
    /// The first line, until it is sent.
    first: Option<Bytes>,
    wait: Wait,
    _permit: OwnedSemaphorePermit,
}

impl EventLines {
    pub(super) fn new(
        (life, events): (&str, Events),
        stop: Stop,
        peer: Arc<Peer>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let begun = EventsBegun { life: life.to_owned() };
        let first = Some(line(&Versioned { version: VERSION, value: begun }));
        Self { first, wait: wait(Source { events, stop, peer }), _permit: permit }
    }
}

fn wait(mut source: Source) -> Wait {
    Box::pin(async move {
        let notice = tokio::select! {
            biased;
            // Before the stop: what has happened already is told.
            notice = source.events.next() => notice,
            () = source.stop.wait() => None,
            // The connection itself does not see it while a part of the request is unread.
            () = closed(&source.peer.stream) => None,
        };
        (source, notice)
    })
}

impl Body for EventLines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Poll::Ready((source, notice)) = self.wait.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        self.wait = wait(source);
        Poll::Ready(notice.map(|notice| Ok(Frame::data(line(&EventLine::from(&notice))))))
    }
}

fn line(value: &impl Serialize) -> Bytes {
    let mut text = serde_json::to_vec(value).unwrap_or_else(|error| {
        tracing::error!(%error, "an event cannot be written");
        Vec::new()
    });
    text.push(b'\n');
    text.into()
}
