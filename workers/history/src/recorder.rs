//! Writing a run.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::SystemTime;

use rusqlite::params;

use crate::record::{Event, millis};
use crate::store::{HistoryError, Store};

/// How many events wait to be written; those beyond are counted and lost. An apply of as many small
/// files takes longer than to write them.
const WAITING: usize = 65_536;

/// How many events are written in one transaction.
const BATCH: usize = 1_000;

/// How many runs are kept.
const RUNS: i64 = 1_000;

/// How many events are kept.
const EVENTS: i64 = 200_000;

/// How many events keep their details.
const DETAILS: i64 = 5_000;

/// After how many more events the details of the oldest are forgotten.
const TRIM_DETAILS: i64 = 500;

/// After how many more events the oldest are forgotten.
const TRIM: i64 = 10_000;

/// Writes one run. Events are written by a thread of its own, so that nobody waits for the disk.
///
/// When the disk refuses, that is logged once, and what could not be written is counted. When it is dropped
/// without its end, the run stays without one, and what was not written yet may be lost.
#[derive(Debug)]
#[must_use]
pub struct Recorder {
    sender: SyncSender<Told>,
    lost: AtomicU64,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Told {
    Event(Box<Event>, i64),
    End { outcome: &'static str, at: i64, lost: u64 },
}

impl Recorder {
    /// Begins a run: says what kind of run it is, and what it works on. Forgets the oldest runs, if there
    /// are more than 1,000. Blocks for the disk.
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
        let thread = Builder::new().name("history".to_owned());
        let thread = thread.spawn(move || write(&store, run, &receiver));
        let thread =
            thread.map_err(|source| HistoryError::Make { path: path.to_owned(), source })?;
        Ok(Self { sender, lost: AtomicU64::new(0), thread })
    }

    /// Notes what has happened. Never blocks.
    pub fn note(&self, event: Event, now: SystemTime) {
        if self.sender.try_send(Told::Event(Box::new(event), millis(now))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the run, and waits until all of it is written.
    pub fn end(self, outcome: &'static str, now: SystemTime) {
        let lost = self.lost.load(Ordering::Relaxed);
        let end = Told::End { outcome, at: millis(now), lost };
        // Without a thread there is nothing to end: it has said why.
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

/// Writes what comes until the run has ended.
fn write(store: &Store, run: i64, receiver: &Receiver<Told>) {
    let mut lost = 0;
    while let Ok(first) = receiver.recv() {
        let rest = std::iter::from_fn(|| receiver.try_recv().ok());
        let batch: Vec<_> = std::iter::once(first).chain(rest).take(BATCH).collect();
        if let Err(error) = write_batch(store, (run, lost), &batch) {
            if lost == 0 {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "events of this run cannot be put on record");
            }
            lost += batch.len() as u64;
        }
        if batch.iter().any(|told| matches!(told, Told::End { .. })) {
            return;
        }
    }
}

fn write_batch(
    store: &Store,
    (run, unwritten): (i64, u64),
    batch: &[Told],
) -> rusqlite::Result<()> {
    let transaction = store.connection.unchecked_transaction()?;
    for told in batch {
        match told {
            Told::Event(event, at) => insert(&transaction, (run, *at), event)?,
            Told::End { outcome, at, lost } => {
                let lost = lost + unwritten;
                if lost > 0 {
                    let why = format!("{lost} events could not be written");
                    let event = Event { event: "lost".to_owned(), why, ..Event::default() };
                    insert(&transaction, (run, *at), &event)?;
                }
                transaction.execute(
                    "UPDATE run SET ended = ?2, outcome = ?3 WHERE id = ?1",
                    params![run, at, outcome],
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
        transaction.execute(
            "UPDATE event SET details = NULL WHERE id <= ?1 AND details IS NOT NULL",
            [last - DETAILS],
        )?;
    }
    transaction.commit()
}

fn insert(
    connection: &rusqlite::Connection,
    (run, at): (i64, i64),
    event: &Event,
) -> rusqlite::Result<()> {
    let Event { event, resource, kind, differences, actions, error, why, took_ms, details } = event;
    let (actions, took_ms) = (actions.join("\n"), i64::try_from(*took_ms).unwrap_or(i64::MAX));
    let details = details.as_ref().map(ToString::to_string);
    let mut statement = connection.prepare_cached(
        "INSERT INTO event (run, at, event, resource, type, differences, actions, error, why, took_ms, details)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let values =
        params![run, at, event, resource, kind, differences, actions, error, why, took_ms, details];
    statement.execute(values).map(drop)
}
