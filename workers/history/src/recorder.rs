//! The writer of a run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::SystemTime;

use rusqlite::params;

use crate::record::{Event, millis};
use crate::store::{HistoryError, Store};

/// The most events that wait to be written. Further events are counted and lost. An apply of this
/// many small files takes longer than to write their events.
const WAITING: usize = 65_536;

/// The most bytes of details that wait to be written. Events beyond that are kept without their details.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// How many events are written in one transaction.
const BATCH: usize = 1_000;

/// How many runs are kept.
const RUNS: i64 = 1_000;

/// How many events are kept.
const EVENTS: i64 = 200_000;

/// How many events keep their details.
const DETAILS: i64 = 5_000;

/// How many bytes of details are kept, and how many more may come before the oldest are forgotten.
const DETAILS_BYTES: usize = 256 * 1024 * 1024;
const TRIM_BYTES: usize = 16 * 1024 * 1024;

/// How many more events may come before the details of the oldest are forgotten.
const TRIM_DETAILS: i64 = 500;

/// How many more events may come before the oldest are forgotten.
const TRIM: i64 = 10_000;

/// Writes one run. Events are written by a thread of its own, so that nobody waits for the disk.
///
/// A refusal of the disk is logged once, and the events that could not be written are counted. If
/// the recorder is dropped without [`end`](Self::end), the run stays without an end, and events
/// that were not written yet may be lost.
#[derive(Debug)]
#[must_use]
pub struct Recorder {
    sender: SyncSender<Told>,
    lost: AtomicU64,
    /// How many bytes of details wait.
    waiting: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Told {
    /// An event, its details as a text, and its time.
    Event(Box<Event>, Option<String>, i64),
    End {
        outcome: &'static str,
        at: i64,
        lost: u64,
    },
}

impl Recorder {
    /// Begins a run of a mode, such as `apply`, on a site. Forgets the oldest runs, if there are
    /// more than 1,000. Blocks for the disk.
    ///
    /// # Errors
    ///
    /// When the file cannot be made or used.
    pub fn begin(
        path: &Path,
        (mode, site): (&str, &str),
        now: SystemTime,
    ) -> Result<Self, HistoryError> {
        let store = Store::make(path)?;
        let run = begin(&store, (mode, site), millis(now)).map_err(|source| store.wrong(source))?;
        let (sender, receiver) = sync_channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut writer = Writer { store, run, waiting: Arc::clone(&waiting), lost: 0, fresh: 0 };
        let thread = Builder::new().name("history".to_owned());
        let thread = thread.spawn(move || writer.write(&receiver));
        let thread =
            thread.map_err(|source| HistoryError::Make { path: path.to_owned(), source })?;
        Ok(Self { sender, lost: AtomicU64::new(0), waiting, thread })
    }

    /// Notes an event. Never blocks.
    pub fn note(&self, mut event: Event, now: SystemTime) {
        let details = event.details.take().map(|details| details.to_string());
        let more = |size: usize| {
            let size = size + details.as_ref().map_or(0, String::len);
            (size <= WAITING_BYTES).then_some(size)
        };
        let has_room = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let details = details.filter(|_| has_room.is_ok());
        let size = details.as_ref().map_or(0, String::len);
        if self.sender.try_send(Told::Event(Box::new(event), details, millis(now))).is_err() {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the run, and waits until all of it is written.
    pub fn end(self, outcome: &'static str, now: SystemTime) {
        let lost = self.lost.load(Ordering::Relaxed);
        let end = Told::End { outcome, at: millis(now), lost };
        // Without a thread there is nothing to end. The thread has logged why it ended.
        if self.sender.send(end).is_ok() && self.thread.join().is_err() {
            tracing::warn!("the history has lost the end of the run");
        }
    }
}

fn begin(store: &Store, (mode, site): (&str, &str), at: i64) -> rusqlite::Result<i64> {
    let transaction = store.connection.unchecked_transaction()?;
    transaction.execute(
        "INSERT INTO run (mode, site, began) VALUES (?1, ?2, ?3)",
        params![mode, site, at],
    )?;
    let run = transaction.last_insert_rowid();
    transaction.execute("DELETE FROM run WHERE id <= ?1", [run - RUNS])?;
    transaction.commit()?;
    Ok(run)
}

/// The writer of a run.
struct Writer {
    store: Store,
    run: i64,
    waiting: Arc<AtomicUsize>,
    /// How many events could not be written.
    lost: u64,
    /// How many bytes of details were written since the oldest were forgotten.
    fresh: usize,
}

impl Writer {
    /// Writes events until the run has ended.
    fn write(&mut self, receiver: &Receiver<Told>) {
        while let Ok(first) = receiver.recv() {
            let rest = std::iter::from_fn(|| receiver.try_recv().ok());
            let batch: Vec<_> = std::iter::once(first).chain(rest).take(BATCH).collect();
            if let Err(error) = self.write_batch(&batch) {
                if self.lost == 0 {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "events of this run cannot be put on record");
                }
                self.lost += batch.len() as u64;
            }
            self.waiting.fetch_sub(batch.iter().map(Told::size).sum(), Ordering::Relaxed);
            if batch.iter().any(|told| matches!(told, Told::End { .. })) {
                return;
            }
        }
    }

    fn write_batch(&mut self, batch: &[Told]) -> rusqlite::Result<()> {
        let transaction = self.store.connection.unchecked_transaction()?;
        let mut has_ended = false;
        for told in batch {
            match told {
                Told::Event(event, details, at) => {
                    insert(&transaction, (self.run, *at), (event, details.as_deref()))?;
                }
                Told::End { outcome, at, lost } => {
                    has_ended = true;
                    let lost = lost + self.lost;
                    if lost > 0 {
                        let why = format!("{lost} events could not be written");
                        let event = Event { event: "lost".to_owned(), why, ..Event::default() };
                        insert(&transaction, (self.run, *at), (&event, None))?;
                    }
                    transaction.execute(
                        "UPDATE run SET ended = ?2, outcome = ?3 WHERE id = ?1",
                        params![self.run, at, outcome],
                    )?;
                }
            }
        }
        let last = transaction.last_insert_rowid();
        let has_passed = |every| last / every != (last - batch.len() as i64) / every;
        if has_passed(TRIM) {
            transaction.execute("DELETE FROM event WHERE id <= ?1", [last - EVENTS])?;
        }
        if has_passed(TRIM_DETAILS) {
            forget_details(&transaction, last - DETAILS)?;
        }
        let mut fresh = self.fresh + batch.iter().map(Told::size).sum::<usize>();
        if fresh > TRIM_BYTES || has_ended && fresh > 0 {
            if let Some(id) = oldest_beyond(&transaction, DETAILS_BYTES)? {
                forget_details(&transaction, id)?;
            }
            fresh = 0;
        }
        transaction.commit()?;
        self.fresh = fresh;
        Ok(())
    }
}

impl Told {
    /// Returns the size of the details, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Event(_, details, _) => details.as_ref().map_or(0, String::len),
            Self::End { .. } => 0,
        }
    }
}

/// Forgets the details of this event and of all before it.
fn forget_details(connection: &rusqlite::Connection, id: i64) -> rusqlite::Result<()> {
    connection
        .execute("UPDATE event SET details = NULL WHERE id <= ?1 AND details IS NOT NULL", [id])
        .map(drop)
}

/// Returns the last event whose details, with all later ones, have more than these bytes.
fn oldest_beyond(connection: &rusqlite::Connection, bytes: usize) -> rusqlite::Result<Option<i64>> {
    // The length of a text stands before it: the texts themselves are not read.
    let sizes = "SELECT id, octet_length(details) FROM event
        WHERE id > (SELECT max(id) FROM event) - ?1 AND details IS NOT NULL ORDER BY id DESC";
    let mut statement = connection.prepare_cached(sizes)?;
    let mut rows = statement.query([DETAILS + TRIM_DETAILS])?;
    let mut left = bytes;
    while let Some(row) = rows.next()? {
        let size: i64 = row.get(1)?;
        match left.checked_sub(usize::try_from(size).unwrap_or_default()) {
            Some(rest) => left = rest,
            None => return row.get(0).map(Some),
        }
    }
    Ok(None)
}

fn insert(
    connection: &rusqlite::Connection,
    (run, at): (i64, i64),
    (event, details): (&Event, Option<&str>),
) -> rusqlite::Result<()> {
    let Event { event, resource, kind, differences, actions, error, why, took_ms, .. } = event;
    let (actions, took_ms) = (actions.join("\n"), i64::try_from(*took_ms).unwrap_or(i64::MAX));
    let mut statement = connection.prepare_cached(
        "INSERT INTO event (run, at, event, resource, type, differences, actions, error, why, took_ms, details)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let values =
        params![run, at, event, resource, kind, differences, actions, error, why, took_ms, details];
    statement.execute(values).map(drop)
}
