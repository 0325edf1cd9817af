//! The newest events of a tree of engines, and the subscribers that follow them.

mod record;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use record::FullRecord;
pub(crate) use record::{EventRef, Record};

use crate::seen::event::Event;
use crate::vocabulary::clock::Wall;
use crate::vocabulary::wake::wake;

/// Room for this many events is made at once.
const AT_ONCE: usize = 4096;

/// What a subscriber gets.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The next event.
    Event(Event),
    /// The subscriber was too slow, and missed this many events.
    Missed(u64),
}

/// Follows the events of a tree of engines.
///
/// A slow subscriber holds up nobody: it misses events, and learns how many and where.
#[derive(Debug)]
pub struct Events {
    log: Arc<Log>,
    /// The sequence number of the next event.
    next: u64,
}

impl Events {
    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Notice> {
        self.look().ok()
    }

    /// Returns a copy of the next event in the ring.
    fn look(&mut self) -> Result<Notice, Nothing> {
        let ring = self.log.ring.lock();
        let first = ring.first();
        if self.next < first {
            let missed = first - self.next;
            self.next = first;
            return Ok(Notice::Missed(missed));
        }
        let nothing = if ring.is_closed { Nothing::Ever } else { Nothing::Yet };
        let event = ring.copy(self.next).ok_or(nothing)?;
        self.next += 1;
        Ok(Notice::Event(event))
    }

    /// Waits for the next event; `None` once the engine has ended and all its events were returned.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Notice> {
        // An endless stream of events does not keep the other tasks of this thread waiting.
        consume_budget().await;
        loop {
            let log = Arc::clone(&self.log);
            let pushed = log.pushed.notified();
            // An event that is pushed after this look wakes the subscriber.
            match self.look() {
                Ok(notice) => return Some(notice),
                Err(Nothing::Ever) => return None,
                Err(Nothing::Yet) => {}
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

/// The events of a tree of engines: a ring of the newest, shared by all subscribers.
#[derive(Debug)]
pub(crate) struct Log {
    /// When the outermost engine began.
    began: Wall,
    ring: Mutex<Ring>,
    pushed: Notify,
    followers: AtomicUsize,
}

/// What events have in common if they enter the ring together.
#[derive(Debug)]
struct Moment {
    /// The sequence number of its first event.
    first: u64,
    at: Wall,
    engine: Arc<str>,
}

#[derive(Debug)]
struct Ring {
    /// The newest events. They are numbered as they enter the ring.
    records: VecDeque<Record>,
    /// What the records have in common, the oldest first.
    moments: VecDeque<Moment>,
    /// The sequence number of the next event that enters.
    next: u64,
    capacity: usize,
    is_closed: bool,
}

/// Why a subscriber finds no event.
enum Nothing {
    Yet,
    Ever,
}

impl Ring {
    /// Returns the sequence number of the oldest event.
    fn first(&self) -> u64 {
        self.next - self.records.len() as u64
    }

    /// Returns a copy of an event.
    fn copy(&self, sequence: u64) -> Option<Event> {
        let index = usize::try_from(sequence - self.first()).ok()?;
        let FullRecord { kind, origin, name, cause } = self.records.get(index)?.copy();
        let Moment { at, engine, .. } = self.moment_of(sequence)?;
        let (at, engine) = ((*at).into(), Arc::clone(engine));
        Some(Event { sequence, at, kind, origin, cause: cause.sequence(), engine, name })
    }

    fn moment_of(&self, sequence: u64) -> Option<&Moment> {
        let later = self.moments.partition_point(|moment| moment.first <= sequence);
        self.moments.get(later.checked_sub(1)?)
    }

    /// Forgets the moments that have no record left.
    fn forget_moments(&mut self) {
        let first = self.first();
        let is_over = |moment: &Moment| moment.first <= first;
        while self.moments.get(1).is_some_and(is_over) {
            self.moments.pop_front();
        }
    }

    /// Adds the records. Removes as many of the oldest as do not fit.
    fn extend(&mut self, records: &mut Vec<Record>) {
        self.next += records.len() as u64;
        records.drain(..records.len().saturating_sub(self.capacity));
        let surplus = (self.records.len() + records.len()).saturating_sub(self.capacity);
        self.records.drain(..surplus);
        self.records.extend(records.drain(..));
    }
}

impl Log {
    pub(crate) fn new(capacity: usize, began: Wall) -> Self {
        let (records, moments) = (VecDeque::new(), VecDeque::new());
        let ring = Ring { records, moments, next: 0, capacity, is_closed: false };
        let (ring, pushed) = (Mutex::new(ring), Notify::new());
        Self { began, ring, pushed, followers: AtomicUsize::new(0) }
    }

    pub(crate) fn began(&self) -> Wall {
        self.began
    }

    /// Returns a subscriber to the events from this number on; from now on if there is none.
    pub(crate) fn subscribe(self: &Arc<Self>, since: Option<u64>) -> Events {
        self.followers.fetch_add(1, Ordering::Relaxed);
        let next = since.unwrap_or_else(|| self.ring.lock().next);
        Events { log: Arc::clone(self), next }
    }

    /// Whether anyone follows the events. Without a subscriber no events are kept, so a later one
    /// misses them.
    pub(crate) fn is_followed(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Adds the events of one engine at one moment, the oldest first. Returns the number of the first
    /// one; `None` if there were none.
    pub(crate) fn push(
        &self,
        at: Wall,
        engine: &Arc<str>,
        records: &mut Vec<Record>,
    ) -> Option<u64> {
        if records.is_empty() {
            return None;
        }
        let mut ring = self.ring.lock();
        if ring.records.capacity() == 0 {
            let capacity = ring.capacity.min(AT_ONCE);
            ring.records.reserve_exact(capacity);
        }
        let first = ring.next;
        ring.moments.push_back(Moment { first, at, engine: Arc::clone(engine) });
        records.iter_mut().for_each(|record| record.number(first));
        ring.extend(records);
        ring.forget_moments();
        drop(ring);
        wake(|| self.pushed.notify_waiters());
        Some(first)
    }

    /// Closes the log: no more events will come.
    pub(crate) fn close(&self) {
        self.ring.lock().is_closed = true;
        wake(|| self.pushed.notify_waiters());
    }
}

#[cfg(test)]
mod tests;
