//! What the loop hands over at the end of a slice.

use std::sync::Arc;

use crate::seen::event::{EventKind, Origin};
use crate::seen::log::Record;
use crate::vocabulary::clock::Stamp;
use crate::vocabulary::name::Text;
use crate::worker::host::Environment;

/// Events that were made in this slice.
pub(super) struct Outbox {
    environment: Arc<Environment>,
    events: Vec<Record>,
}

impl Outbox {
    pub(super) fn new(environment: Arc<Environment>) -> Self {
        Self { environment, events: Vec::new() }
    }

    /// Makes room for this many more events if anyone follows them.
    pub(super) fn reserve(&mut self, more: usize) {
        if self.environment.log.is_followed() {
            self.events.reserve(more);
        }
    }

    /// Makes an event about a worker if anyone follows the events.
    pub(super) fn note(
        &mut self,
        name: Option<&Text>,
        origin: Option<&Arc<Origin>>,
        kind: impl FnOnce() -> EventKind,
    ) {
        if self.environment.log.is_followed() {
            Record::push(&mut self.events, kind(), origin, name);
        }
    }

    /// Makes an event about the engine itself.
    pub(super) fn note_engine(&mut self, origin: Option<&Arc<Origin>>, kind: EventKind) {
        Record::push(&mut self.events, kind, origin, None);
    }

    /// Hands the events to the log.
    pub(super) fn flush(&mut self, now: Stamp) {
        let Environment { log, clock, path, .. } = &*self.environment;
        log.push(clock.wall.at(now), path, &mut self.events);
    }
}
