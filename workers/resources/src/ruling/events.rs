//! The events of resources, on their way to the rules.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

use crate::account::Accounted;
use crate::observer::{Happened, Observer};

/// The most events that wait to be put on record. Events beyond that are lost, and the loss is logged.
const WAITING: usize = 10_000;

/// The events of resources, for the worker that runs the rules. Clones share the same events.
#[derive(Debug, Clone)]
pub struct Happenings(pub(super) Arc<Mutex<mpsc::Receiver<Happened>>>);

/// An observer that hands the events of resources on to rules.
#[derive(Debug)]
pub struct RuleEvents {
    inner: Option<Arc<dyn Observer>>,
    sender: mpsc::Sender<Happened>,
}

impl RuleEvents {
    /// Returns an observer, and the events that it hands on to rules. The observer also tells `inner` all that it sees.
    pub fn new(inner: Option<Arc<dyn Observer>>) -> (Self, Happenings) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { inner, sender }, Happenings(Arc::new(receiver.into())))
    }
}

impl Observer for RuleEvents {
    fn said(&self, resource: &str, line: &str) {
        self.inner.iter().for_each(|inner| inner.said(resource, line));
    }

    fn happened(&self, event: &Happened) {
        self.inner.iter().for_each(|inner| inner.happened(event));
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(event.brief()) {
            let Happened { resource, event, .. } = event;
            tracing::warn!(resource, event = event.word(), "too much happens: rules are not told");
        }
    }

    fn accounted(&self, accounted: &Accounted) {
        self.inner.iter().for_each(|inner| inner.accounted(accounted));
    }
}
