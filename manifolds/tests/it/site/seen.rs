//! What an observer has seen of resources.

use std::sync::Arc;

use crankcase_resources::{Happened, Observer, What};
use tokio::sync::watch;

use crate::site::machine::{TestResult, within};

/// The events that were seen so far.
#[derive(Debug, Default)]
pub(crate) struct Seen(watch::Sender<Vec<Happened>>);

impl Observer for Seen {
    fn happened(&self, event: &Happened) {
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
    pub(crate) fn events(&self) -> Vec<Happened> {
        self.0.borrow().clone()
    }

    /// Waits until something has happened to a resource.
    pub(crate) async fn until(&self, resource: &str, what: What) -> TestResult {
        let is_it = |event: &Happened| event.resource == resource && event.event == what;
        let mut events = self.0.subscribe();
        drop(within(events.wait_for(|events| events.iter().any(is_it))).await?);
        Ok(())
    }
}
