//! The events of resources, on their way to the rules.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

use crate::modes::ruling::journal::{Begun, Journal};
use crate::report::account::Accounted;
use crate::report::observer::{Event, Observer};

/// The most events that wait to be put on record. Events beyond that are told by the next agent, and this is logged.
const WAITING: usize = 10_000;

/// The events of resources, for the worker that runs the rules. Clones share the same events.
#[derive(Debug, Clone)]
pub struct Happenings {
    pub(super) receiver: Arc<Mutex<mpsc::Receiver<Begun>>>,
    pub(super) journal: Arc<Journal>,
}

/// An observer that hands the events of resources on to rules.
#[derive(Debug)]
pub struct RuleEvents {
    inner: Option<Arc<dyn Observer>>,
    sender: mpsc::Sender<Begun>,
    journal: Arc<Journal>,
}

impl RuleEvents {
    /// Returns an observer, and the events that it hands on to rules. The observer also tells `inner` all that it sees.
    /// The events that were not handed on when the agent was killed are in `folder`, and are handed on
    /// by the next agent.
    pub fn new(inner: Option<Arc<dyn Observer>>, folder: PathBuf) -> (Self, Happenings) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let journal = Arc::new(Journal::new(folder));
        let happenings =
            Happenings { receiver: Arc::new(receiver.into()), journal: Arc::clone(&journal) };
        (Self { inner, sender, journal }, happenings)
    }
}

impl Observer for RuleEvents {
    fn said(&self, resource: &str, line: &str) {
        self.inner.iter().for_each(|inner| inner.said(resource, line));
    }

    fn begins(&self, event: &Event) {
        self.inner.iter().for_each(|inner| inner.begins(event));
        self.journal.begin(event);
    }

    fn failed_again(&self, resource: &str) {
        self.inner.iter().for_each(|inner| inner.failed_again(resource));
        self.journal.end(resource);
    }

    fn happened(&self, event: &Event) {
        self.inner.iter().for_each(|inner| inner.happened(event));
        if event.event.is_of_program() {
            return;
        }
        let number = self.journal.tell(&event.resource);
        let begun = Begun { number, event: event.brief(), is_told: true };
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(begun) {
            let Event { resource, event, .. } = event;
            tracing::warn!(resource, event = event.word(), "too much happens: rules are not told");
        }
    }

    fn accounted(&self, accounted: &Accounted) {
        self.inner.iter().for_each(|inner| inner.accounted(accounted));
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::time::Duration;

    use super::RuleEvents;
    use crate::report::observer::{Event, EventKind, Observer};

    #[test]
    fn rules_get_the_events_of_a_resource_and_not_those_of_its_program()
    -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let (observer, events) = RuleEvents::new(None, folder.path().join("rules"));

        let of_program = [EventKind::Adopted, EventKind::Restarted, EventKind::Ended];
        for what in [EventKind::Started, EventKind::Failed].into_iter().chain(of_program) {
            let event = Event::new(what, ("server", "process"), ("", Duration::ZERO));
            observer.happened(&event);
        }

        let mut receiver = events.receiver.try_lock()?;
        assert_eq!(receiver.try_recv()?.event.event, EventKind::Failed);
        assert!(receiver.try_recv().is_err());
        Ok(())
    }
}
