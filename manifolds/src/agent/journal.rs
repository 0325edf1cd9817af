//! What the engine's events say in the log.

use crankcase_engine::{EndKind, Event, EventKind, Events, Notice};
use tokio::runtime::Handle;

/// Logs events until there are no more.
pub(super) fn keep(runtime: &Handle, mut events: Events) {
    drop(runtime.spawn(async move {
        while let Some(notice) = events.next().await {
            match notice {
                Notice::Event(event) => log(&event),
                Notice::Missed(events) => tracing::warn!(events, "too many events to log"),
            }
        }
    }));
}

fn log(event: &Event) {
    let worker = event.path();
    match &event.kind {
        EventKind::Ended { error: Some(reason), end: EndKind::Missing, .. } => {
            tracing::info!(worker, reason, "a worker misses something");
        }
        // A fatal one is the agent's own error.
        EventKind::Ended { error: Some(error), end, .. } if *end != EndKind::Fatal => {
            tracing::warn!(worker, %end, error, "a worker has ended");
        }
        EventKind::Spent { failures } => tracing::error!(worker, failures, "a worker is parked"),
        EventKind::Health { degraded: Some(reason) } => {
            for reason in reason.lines() {
                tracing::warn!(worker, reason, "a worker is degraded");
            }
        }
        EventKind::Health { degraded: None } => tracing::info!(worker, "a worker is well again"),
        // Who notes something logs it as well, with all there is to say.
        EventKind::Noted { text } => tracing::debug!(worker, text, "noted"),
        kind => match &event.origin {
            Some(origin) => tracing::info!(worker, event = %kind, %origin, "asked for"),
            None => tracing::debug!(worker, event = %kind, "transition"),
        },
    }
}
