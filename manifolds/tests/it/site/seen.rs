//! What an observer has seen of resources.

use std::sync::Arc;

use crankcase_resources::report::EventKind;
use crankcase_resources::{Event, Observer};
use tokio::sync::watch;

use crate::site::machine::{TestResult, within};

/// The events that were seen so far.
#[derive(Debug, Default)]
pub(crate) struct Seen(watch::Sender<Vec<Event>>);

impl Observer for Seen {
    fn happened(&self, event: &Event) {
        self.0.send_modify(|events| events.push(event.clone()));
    }
}

impl Seen {
    /// Returns an observer twice: for the test, and for the machine.
    pub(crate) fn pair() -> (Arc<Self>, Arc<dyn Observer>) {
        let seen = Arc::new(Self::default());
        (Arc::clone(&seen), seen)
    }

    /// Returns all events, in the order in which they were seen.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.borrow().clone()
    }

    /// Waits until something has happened to a resource for the first time, and returns the event.
    pub(crate) async fn first(&self, resource: &str, what: EventKind) -> TestResult<Event> {
        self.nth(resource, what, 0).await
    }

    /// Waits until it has happened more often than `before` times, and returns the event after
    /// those.
    pub(crate) async fn nth(
        &self,
        resource: &str,
        what: EventKind,
        before: usize,
    ) -> TestResult<Event> {
        let is_it = |event: &&Event| event.resource == resource && event.event == what;
        let mut events = self.0.subscribe();
        let wait = events.wait_for(|events| events.iter().filter(is_it).count() > before);
        let events = within(wait).await?;
        Ok(events.iter().filter(is_it).nth(before).cloned().ok_or("there was none")?)
    }
}
