//! The newest events of a tree of engines, and those who follow them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::event::{Event, EventKind, Origin, Timestamp};
use crate::name::Text;

/// For how many events room is made at once.
const AT_ONCE: usize = 4096;

/// How many of the newest moments are looked through before all are searched.
const NEWEST: usize = 8;

/// What a subscriber gets.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The next event.
    Event(Event),
    /// The subscriber was too slow, and missed this many events.
    Missed(u64),
}

/// Follows the events of an engine and of those nested in it.
///
/// A slow subscriber holds up nobody: it misses the oldest events, and is told how many.
#[derive(Debug)]
pub struct Events {
    log: Arc<Log>,
    /// The sequence number of the event that comes next.
    next: u64,
}

impl Events {
    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Notice> {
        match self.log.ring.lock().get(&mut self.next) {
            Found::Notice(notice) => Some(notice),
            Found::End | Found::Nothing => None,
        }
    }

    /// Waits for the next event; `None` when the engine has ended and all its events were given.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            let log = Arc::clone(&self.log);
            let pushed = log.pushed.notified();
            match log.ring.lock().get(&mut self.next) {
                Found::Notice(notice) => return Some(notice),
                Found::End => return None,
                Found::Nothing => {}
            }
            pushed.await;
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.log.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The events of a tree of engines: a ring of the newest, shared by all who follow them.
#[derive(Debug)]
pub(crate) struct Log {
    ring: Mutex<Ring>,
    pushed: Notify,
    followers: AtomicUsize,
}

/// What the ring keeps of one event: the rest is that of its moment.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) kind: EventKind,
    pub(crate) origin: Option<Arc<Origin>>,
    /// The worker that it is about; none if it is about the engine.
    pub(crate) name: Option<Text>,
}

/// What events have in common that enter the ring together.
#[derive(Debug)]
struct Moment {
    /// The sequence number of its first event.
    first: u64,
    at: SystemTime,
    engine: Arc<str>,
}

#[derive(Debug)]
struct Ring {
    records: VecDeque<Record>,
    /// What the records have in common, the oldest first.
    moments: VecDeque<Moment>,
    capacity: usize,
    /// The sequence number of the event that comes next: they are numbered as they enter the ring.
    next: u64,
    is_closed: bool,
}

/// What a subscriber finds.
enum Found {
    Notice(Notice),
    Nothing,
    End,
}

impl Ring {
    fn get(&self, next: &mut u64) -> Found {
        let first = self.first();
        if *next < first {
            let missed = first - *next;
            *next = first;
            return Found::Notice(Notice::Missed(missed));
        }
        match self.event(*next) {
            Some(event) => {
                *next += 1;
                Found::Notice(Notice::Event(event))
            }
            None if self.is_closed => Found::End,
            None => Found::Nothing,
        }
    }

    /// The sequence number of the oldest event that is kept.
    fn first(&self) -> u64 {
        self.next - self.records.len() as u64
    }

    fn event(&self, sequence: u64) -> Option<Event> {
        let index = usize::try_from(sequence - self.first()).ok()?;
        let Record { kind, origin, name } = self.records.get(index)?;
        let Moment { at, engine, .. } = self.moment_of(sequence)?;
        Some(Event {
            sequence,
            at: Timestamp(*at),
            kind: kind.clone(),
            origin: origin.clone(),
            engine: Arc::clone(engine),
            name: name.clone(),
        })
    }

    fn moment_of(&self, sequence: u64) -> Option<&Moment> {
        let has_begun = |moment: &&Moment| moment.first <= sequence;
        // Who keeps up reads of the newest.
        self.moments.iter().rev().take(NEWEST).find(has_begun).or_else(|| {
            let later = self.moments.partition_point(|moment| has_begun(&moment));
            self.moments.get(later.checked_sub(1)?)
        })
    }

    /// Enters a record, in the place of the oldest one if there is no more room.
    fn push(&mut self, record: Record) {
        self.next += 1;
        if self.records.len() >= self.capacity {
            self.records.pop_front();
        }
        if self.capacity > 0 {
            self.records.push_back(record);
        }
    }

    /// Forgets the moments of which no record is left.
    fn forget_moments(&mut self) {
        let first = self.first();
        let is_over = |moment: &Moment| moment.first <= first;
        while self.moments.get(1).is_some_and(is_over) {
            self.moments.pop_front();
        }
    }
}

impl Log {
    pub(crate) fn new(capacity: usize) -> Self {
        let (records, moments) = (VecDeque::new(), VecDeque::new());
        let ring = Ring { records, moments, capacity, next: 0, is_closed: false };
        Self { ring: Mutex::new(ring), pushed: Notify::new(), followers: AtomicUsize::new(0) }
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> Events {
        self.followers.fetch_add(1, Ordering::Relaxed);
        Events { log: Arc::clone(self), next: self.ring.lock().next }
    }

    /// Whether anyone follows the events. Who comes later misses what was not kept for nobody.
    pub(crate) fn is_followed(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Enters what happened in one engine at one moment, the oldest first.
    pub(crate) fn push(&self, at: SystemTime, engine: &Arc<str>, records: &mut Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let mut ring = self.ring.lock();
        if ring.records.capacity() == 0 {
            let capacity = ring.capacity.min(AT_ONCE);
            ring.records.reserve_exact(capacity);
        }
        let first = ring.next;
        ring.moments.push_back(Moment { first, at, engine: Arc::clone(engine) });
        for record in records.drain(..) {
            ring.push(record);
        }
        ring.forget_moments();
        drop(ring);
        self.pushed.notify_waiters();
    }

    /// Says that no more events will come.
    pub(crate) fn close(&self) {
        self.ring.lock().is_closed = true;
        self.pushed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
