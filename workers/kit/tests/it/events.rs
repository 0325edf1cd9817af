//! Catches `tracing` events of the thread that a test runs on.

use std::collections::BTreeMap;
use std::fmt::Debug;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The fields of one event, its message among them.
#[derive(Debug, Default)]
pub(crate) struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

struct Sending(UnboundedSender<Fields>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Sending {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = ctx.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    /// Adds to the event's fields those of the spans that it stands in.
    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in ctx.event_scope(event).into_iter().flatten() {
            if let Some(Fields(of_span)) = span.extensions().get() {
                fields.0.extend(of_span.clone());
            }
        }
        event.record(&mut fields);
        let _gone = self.0.send(fields);
    }
}

/// The events since [`Events::catch`].
pub(crate) struct Events {
    events: UnboundedReceiver<Fields>,
    _guard: DefaultGuard,
}

impl Events {
    /// Begins to catch the events of this thread.
    pub(crate) fn catch() -> Self {
        let (tx, events) = unbounded_channel();
        let subscriber = tracing_subscriber::registry().with(Sending(tx));
        Self { events, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Waits for the next event with this message.
    pub(crate) async fn next(&mut self, message: &str) -> Fields {
        loop {
            let fields = self.events.recv().await.expect("the sender lives as long");
            if fields.get("message") == message {
                return fields;
            }
        }
    }

    /// Waits until a process has written this line.
    pub(crate) async fn line(&mut self, line: &str) {
        while self.next("output").await.get("line") != line {}
    }

    /// Returns the caught events with this message.
    pub(crate) fn caught(&mut self, message: &str) -> Vec<Fields> {
        std::iter::from_fn(|| self.events.try_recv().ok())
            .filter(|fields| fields.get("message") == message)
            .collect()
    }
}
