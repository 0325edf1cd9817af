//! The newest events of a tree of engines, and those who follow them.

mod record;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

pub(crate) use record::Record;
use record::Whole;

use crate::clock::Wall;
use crate::event::Event;

/// For how many events room is made at once.
const AT_ONCE: usize = 4096;

/// How many of the newest moments are looked through before all are searched.
const NEWEST: usize = 8;

/// How many events are put into the ring one by one.
const FEW: usize = 8;

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
/// A slow subscriber holds up nobody: it misses events, and is told how many and where. Who follows
/// alone takes what there is at once, and may be behind by as much again before it misses any.
#[derive(Debug)]
pub struct Events {
    log: Arc<Log>,
    /// The sequence number of the event that comes next.
    next: u64,
    /// What was taken out of the ring and not given yet.
    taken: Kept,
}

impl Events {
    /// Returns the next event if there is one already.
    #[inline]
    pub fn try_next(&mut self) -> Option<Notice> {
        match self.taken.take() {
            Some(event) => Some(self.hand_out(event)),
            None => self.look(false).ok(),
        }
    }

    /// Gives an event to whoever asks, and goes on to the next.
    #[inline]
    fn hand_out(&mut self, event: Event) -> Notice {
        self.next = event.sequence + 1;
        Notice::Event(event)
    }

    /// Looks into the ring. Who follows alone is given what is there, not copies of it. Who finds
    /// nothing is woken by the next event if it is to wait.
    fn look(&mut self, is_to_wait: bool) -> Result<Notice, Nothing> {
        let mut ring = self.log.ring.lock();
        let first = ring.kept.first();
        if self.next < first {
            let missed = first - self.next;
            self.next = first;
            return Ok(Notice::Missed(missed));
        }
        ring.is_awaited |= is_to_wait && self.next == ring.kept.next;
        let nothing = if ring.is_closed { Nothing::Ever } else { Nothing::Yet };
        // Who subscribes from now on begins with what is not in the ring yet.
        let is_alone = self.log.followers.load(Ordering::Relaxed) == 1;
        let event = if is_alone {
            ring.hand_over(&mut self.taken);
            // What is passed over is dropped without the lock.
            drop(ring);
            self.taken.pass_over(self.next);
            self.taken.take()
        } else {
            let copy = ring.kept.copy(self.next);
            drop(ring);
            copy
        };
        event.map(|event| self.hand_out(event)).ok_or(nothing)
    }

    /// Waits for the next event; `None` when the engine has ended and all its events were given.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Notice> {
        // Events that come without an end do not keep the other tasks of this thread waiting.
        consume_budget().await;
        loop {
            let log = Arc::clone(&self.log);
            let pushed = log.pushed.notified();
            if let Some(event) = self.taken.take() {
                return Some(self.hand_out(event));
            }
            match self.look(true) {
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

/// The events of a tree of engines: a ring of the newest, shared by all who follow them.
///
/// Followers are counted before they read where they begin, which is done under the ring's lock: who
/// is found alone under that lock is the only one for whom there is anything in the ring.
#[derive(Debug)]
pub(crate) struct Log {
    ring: Mutex<Ring>,
    pushed: Notify,
    followers: AtomicUsize,
}

/// What events have in common that enter the ring together.
#[derive(Debug)]
struct Moment {
    /// The sequence number of its first event.
    first: u64,
    at: Wall,
    engine: Arc<str>,
}

/// Events in a row.
#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Record>,
    /// What the records have in common, the oldest first.
    moments: VecDeque<Moment>,
    /// The sequence number of the event that comes after them.
    next: u64,
}

#[derive(Debug)]
struct Ring {
    /// The newest: events are numbered as they enter the ring.
    kept: Kept,
    capacity: usize,
    is_closed: bool,
    /// Someone waits for the next event, or did. It is set under the lock under which nothing was
    /// found, after `pushed` has counted who waits, and taken under that by which something comes:
    /// so nobody waits unseen, and an event that nobody waits for wakes nobody.
    is_awaited: bool,
}

/// What a subscriber finds where there is no event.
enum Nothing {
    Yet,
    Ever,
}

impl Kept {
    /// The sequence number of the oldest event.
    fn first(&self) -> u64 {
        self.next - self.records.len() as u64
    }

    /// Returns a copy of an event.
    fn copy(&self, sequence: u64) -> Option<Event> {
        let index = usize::try_from(sequence - self.first()).ok()?;
        let Whole { kind, origin, name } = self.records.get(index)?.copy();
        let Moment { at, engine, .. } = self.moment_of(sequence)?;
        let (at, engine) = ((*at).into(), Arc::clone(engine));
        Some(Event { sequence, at, kind, origin, engine, name })
    }

    /// Takes the oldest event out.
    #[inline]
    fn take(&mut self) -> Option<Event> {
        let record = self.records.pop_front()?;
        let sequence = self.first() - 1;
        while self.moments.get(1).is_some_and(|moment| moment.first <= sequence) {
            self.moments.pop_front();
        }
        let Moment { at, engine, .. } = self.moments.front()?;
        let (at, engine) = ((*at).into(), Arc::clone(engine));
        let Whole { kind, origin, name } = record.open();
        Some(Event { sequence, at, kind, origin, engine, name })
    }

    /// Drops the events before the one with this number; their moments go when that is taken.
    fn pass_over(&mut self, sequence: u64) {
        while self.first() < sequence && self.records.pop_front().is_some() {}
    }

    fn moment_of(&self, sequence: u64) -> Option<&Moment> {
        let has_begun = |moment: &&Moment| moment.first <= sequence;
        // Who keeps up reads of the newest.
        self.moments.iter().rev().take(NEWEST).find(has_begun).or_else(|| {
            let later = self.moments.partition_point(|moment| has_begun(&moment));
            self.moments.get(later.checked_sub(1)?)
        })
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

impl Ring {
    /// Gives away all that is kept, for the room of what was given away before.
    fn hand_over(&mut self, taken: &mut Kept) {
        if self.kept.records.is_empty() {
            return;
        }
        // The next ones are put where the last were, in memory that is near.
        taken.records.clear();
        taken.moments.clear();
        if taken.records.capacity() == 0 {
            taken.records.reserve(self.kept.records.len());
        }
        taken.next = self.kept.next;
        std::mem::swap(taken, &mut self.kept);
    }

    /// Enters records, the newest, in the place of the oldest ones if there is no more room.
    fn push(&mut self, records: &mut Vec<Record>) {
        self.kept.next += records.len() as u64;
        if records.len() <= FEW {
            for record in records.drain(..) {
                if self.kept.records.len() == self.capacity {
                    self.kept.records.pop_front();
                }
                self.kept.records.push_back(record);
            }
        } else {
            self.push_many(records);
        }
    }

    /// Many are moved as one piece of memory, and what leaves is dropped where it is: that costs
    /// little beside moving each.
    fn push_many(&mut self, records: &mut Vec<Record>) {
        let kept = &mut self.kept.records;
        let mut pushed = VecDeque::from(std::mem::take(records));
        let over = (kept.len() + pushed.len()).saturating_sub(self.capacity);
        if over > 0 {
            pushed.drain(..pushed.len().saturating_sub(self.capacity));
            kept.drain(..over.min(kept.len()));
        }
        kept.append(&mut pushed);
        // The memory is for the next ones.
        *records = pushed.into();
    }
}

impl Log {
    pub(crate) fn new(capacity: usize) -> Self {
        let ring = Ring { kept: Kept::default(), capacity, is_closed: false, is_awaited: false };
        Self { ring: Mutex::new(ring), pushed: Notify::new(), followers: AtomicUsize::new(0) }
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> Events {
        self.followers.fetch_add(1, Ordering::Relaxed);
        let next = self.ring.lock().kept.next;
        Events { log: Arc::clone(self), next, taken: Kept::default() }
    }

    /// Whether anyone follows the events. Who comes later misses what was not kept for nobody.
    pub(crate) fn is_followed(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Enters what happened in one engine at one moment, the oldest first.
    pub(crate) fn push(&self, at: Wall, engine: &Arc<str>, records: &mut Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let mut ring = self.ring.lock();
        if ring.kept.records.capacity() == 0 {
            let capacity = ring.capacity.min(AT_ONCE);
            ring.kept.records.reserve_exact(capacity);
        }
        let first = ring.kept.next;
        ring.kept.moments.push_back(Moment { first, at, engine: Arc::clone(engine) });
        ring.push(records);
        ring.kept.forget_moments();
        let is_awaited = std::mem::take(&mut ring.is_awaited);
        drop(ring);
        if is_awaited {
            self.pushed.notify_waiters();
        }
    }

    /// Says that no more events will come.
    pub(crate) fn close(&self) {
        self.ring.lock().is_closed = true;
        self.pushed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
