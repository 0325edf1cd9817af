//! What the ring keeps of one event.

use std::iter;
use std::sync::Arc;

use crate::seen::event::{EventKind, Origin};
use crate::vocabulary::exit::EndKind;
use crate::vocabulary::name::Text;

/// What the ring keeps of one event. The rest is in the event's moment.
///
/// Every start and end of a worker adds some records, so they are small. Rare data is boxed.
#[derive(Debug)]
pub(crate) enum Record {
    Usual { name: Text, kind: Usual, cause: EventRef },
    Other(Box<FullRecord>),
}

/// Refers to an event of the log, or to none.
///
/// The log numbers the events when they enter it. Until then a reference is the event's place among
/// those that enter with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EventRef(u64);

impl EventRef {
    const PLACE: u64 = 1 << 63;

    /// Refers to the event that will enter the log at this place.
    pub(crate) fn at(place: usize) -> Self {
        Self(Self::PLACE | place as u64)
    }

    /// Returns the reference after the events have entered the log, the first with this number.
    pub(crate) fn numbered(self, first: u64) -> Self {
        let place = self.0 & !Self::PLACE;
        if self.0 == place { self } else { Self(first + place + 1) }
    }

    /// Returns the number of the event.
    pub(crate) fn sequence(self) -> Option<u64> {
        self.0.checked_sub(1)
    }

    /// Returns the later one of two references after all events have entered the log.
    pub(crate) fn later(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

/// An event that every worker has when all goes well, without an origin.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Usual {
    Installed,
    Starting { generation: u32 },
    Started { generation: u32 },
    InputLost,
    Stopping,
    Ended { end: EndKind },
    Removed,
}

/// All data of a record.
#[derive(Debug, Clone)]
pub(crate) struct FullRecord {
    pub(super) kind: EventKind,
    pub(super) origin: Option<Arc<Origin>>,
    /// The worker that the event is about; none if it is about the engine.
    pub(super) name: Option<Text>,
    pub(super) cause: EventRef,
}

impl Record {
    /// Adds the record of an event. Inlined by hand: where the caller's kind is a constant, the
    /// match then costs nothing, and the compiler does not inline it by itself.
    #[inline(always)]
    pub(crate) fn push(
        records: &mut Vec<Self>,
        kind: EventKind,
        (origin, cause): (Option<&Arc<Origin>>, EventRef),
        name: Option<&Text>,
    ) {
        match (Usual::of(&kind), origin, name) {
            (Some(kind), None, Some(name)) => {
                // Built in place: to build the record first and move it takes twice as long.
                let make = || Self::Usual { name: name.clone(), kind, cause };
                records.extend(iter::once_with(make));
            }
            _ => records.push(Self::other(kind, (origin, cause), name)),
        }
    }

    #[cold]
    fn other(
        kind: EventKind,
        (origin, cause): (Option<&Arc<Origin>>, EventRef),
        name: Option<&Text>,
    ) -> Self {
        let (origin, name) = (origin.cloned(), name.cloned());
        Self::Other(Box::new(FullRecord { kind, origin, name, cause }))
    }

    /// Numbers the reference to the event's cause.
    pub(super) fn number(&mut self, first: u64) {
        let cause = match self {
            Self::Usual { cause, .. } => cause,
            Self::Other(whole) => &mut whole.cause,
        };
        *cause = cause.numbered(first);
    }

    pub(super) fn copy(&self) -> FullRecord {
        match self {
            Self::Usual { name, kind, cause } => FullRecord {
                kind: (*kind).into(),
                origin: None,
                name: Some(name.clone()),
                cause: *cause,
            },
            Self::Other(whole) => FullRecord::clone(whole),
        }
    }
}

impl Usual {
    #[inline(always)]
    fn of(kind: &EventKind) -> Option<Self> {
        Some(match *kind {
            EventKind::Installed => Self::Installed,
            EventKind::Starting { generation } => Self::Starting { generation },
            EventKind::Started { generation } => Self::Started { generation },
            EventKind::InputLost => Self::InputLost,
            EventKind::Stopping => Self::Stopping,
            EventKind::Ended { end, error: None, is_panic: false } => Self::Ended { end },
            EventKind::Removed => Self::Removed,
            _ => return None,
        })
    }
}

impl From<Usual> for EventKind {
    fn from(usual: Usual) -> Self {
        match usual {
            Usual::Installed => Self::Installed,
            Usual::Starting { generation } => Self::Starting { generation },
            Usual::Started { generation } => Self::Started { generation },
            Usual::InputLost => Self::InputLost,
            Usual::Stopping => Self::Stopping,
            Usual::Ended { end } => Self::Ended { end, error: None, is_panic: false },
            Usual::Removed => Self::Removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{EventRef, Record, Text};
    use crate::seen::event::{EventKind, Origin};
    use crate::vocabulary::exit::EndKind;

    /// Says whether an event is kept without a box, and that it is given as it was entered.
    fn is_small(kind: &EventKind, origin: Option<&Arc<Origin>>, name: Option<&str>) -> bool {
        let mut records = Vec::new();
        let cause = EventRef::at(6);
        Record::push(&mut records, kind.clone(), (origin, cause), name.map(Text::new).as_ref());
        let mut record = records.pop().expect("it was added");
        record.number(7);
        let is_small = matches!(record, Record::Usual { .. });
        let whole = record.copy();
        assert_eq!(whole.kind, *kind);
        assert_eq!(whole.cause.sequence(), Some(13), "of {kind}");
        assert_eq!(whole.origin.as_ref(), origin, "of {kind}");
        assert_eq!(whole.name.as_ref().map(Text::as_str), name, "of {kind}");
        is_small
    }

    #[test]
    fn what_happens_to_every_worker_is_small_and_given_as_it_was_entered() {
        let ended = |end| EventKind::Ended { end, error: None, is_panic: false };
        let usual = [
            EventKind::Installed,
            EventKind::Starting { generation: 1 },
            EventKind::Started { generation: 2 },
            EventKind::InputLost,
            EventKind::Stopping,
            ended(EndKind::Stopped),
            ended(EndKind::Done),
            EventKind::Removed,
        ];
        let origin = Arc::new(Origin { who: "ops".to_owned(), why: "a test".to_owned() });
        for kind in usual {
            assert!(is_small(&kind, None, Some("a")), "{kind}");
            assert!(!is_small(&kind, Some(&origin), Some("a")), "{kind}");
            assert!(!is_small(&kind, None, None), "{kind}");
        }
        assert_eq!(size_of::<Record>(), 40);
    }

    #[test]
    fn what_is_unusual_is_given_as_it_was_entered() {
        let error = || Some("no disk".to_owned());
        let unusual = [
            EventKind::Replaced,
            EventKind::Ended { end: EndKind::Failed, error: error(), is_panic: false },
            EventKind::Ended { end: EndKind::Failed, error: error(), is_panic: true },
            EventKind::Ended { end: EndKind::Failed, error: None, is_panic: true },
            EventKind::Health { degraded: error() },
            EventKind::Killed,
        ];
        for kind in unusual {
            assert!(!is_small(&kind, None, Some("a")), "{kind}");
        }
    }
}
