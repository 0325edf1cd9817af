//! What the loop hands over at the end of a slice.

use std::sync::Arc;

use crate::machine::NodeId;
use crate::seen::event::{EventKind, Origin};
use crate::seen::log::{EventRef, Record};
use crate::vocabulary::clock::Stamp;
use crate::vocabulary::name::Text;
use crate::worker::host::Environment;

/// Events that were made in this slice.
pub(super) struct Outbox {
    environment: Arc<Environment>,
    events: Vec<Record>,
    /// The nodes whose last event is among the events.
    about: Vec<NodeId>,
}

impl Outbox {
    pub(super) fn new(environment: Arc<Environment>) -> Self {
        Self { environment, events: Vec::new(), about: Vec::new() }
    }

    /// Makes room for this many more events if anyone follows them.
    pub(super) fn reserve(&mut self, more: usize) {
        if self.is_followed() {
            self.events.reserve(more);
            self.about.reserve(more);
        }
    }

    pub(super) fn is_followed(&self) -> bool {
        self.environment.log.is_followed()
    }

    /// Makes an event about a worker.
    pub(super) fn note(
        &mut self,
        name: Option<&Text>,
        (origin, cause): (Option<&Arc<Origin>>, EventRef),
        kind: EventKind,
    ) {
        Record::push(&mut self.events, kind, (origin, cause), name);
    }

    /// Returns the event that was made last, as the last one of this node.
    pub(super) fn last_of(&mut self, node: NodeId) -> EventRef {
        self.about.push(node);
        EventRef::at(self.events.len() - 1)
    }

    /// Makes an event about the engine itself.
    pub(super) fn note_engine(
        &mut self,
        origin: Option<&Arc<Origin>>,
        kind: EventKind,
    ) -> EventRef {
        Record::push(&mut self.events, kind, (origin, EventRef::default()), None);
        EventRef::at(self.events.len() - 1)
    }

    /// Hands the events to the log. Returns the number of the first one, and the nodes whose last
    /// event is among them.
    pub(super) fn flush(&mut self, now: Stamp) -> Option<(u64, impl Iterator<Item = NodeId>)> {
        let Environment { log, clock, path, .. } = &*self.environment;
        let first = log.push(clock.wall.at(now), path, &mut self.events)?;
        Some((first, self.about.drain(..)))
    }
}
