//! The stream of events, one JSON text on each line.

use crankcase_engine::Events;
use hyper::body::Bytes;
use serde::Serialize;

use crate::http::Lines;
use crate::wire::{EventLine, EventsBegun, VERSION, Versioned};

/// The life of the agent, and then its events.
pub(super) struct EventLines {
    /// The first line, until it is sent.
    first: Option<Bytes>,
    events: Events,
}

impl EventLines {
    pub(super) fn new(life: &str, events: Events) -> Self {
        let begun = EventsBegun { life: life.to_owned() };
        Self { first: Some(line(&Versioned { version: VERSION, value: begun })), events }
    }
}

impl Lines for EventLines {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let notice = self.events.next().await?;
        Some(line(&EventLine::from(&notice)))
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
