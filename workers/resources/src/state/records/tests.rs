//! What a flush promises, while the disk works, is full, or the store panics.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::Poll;

use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Position, Records};
use crate::base::error::BoxError;
use crate::state::document::Document;
use crate::state::memory::MemoryStore;
use crate::state::record::{Keep, Key, Notification, Record, Topic};
use crate::state::store::{Loaded, Store, StoreError};

type TestResult<T = ()> = Result<T, BoxError>;

/// A store each of whose writes waits for a permission. One of them can panic then.
#[derive(Debug)]
struct Gated {
    inner: MemoryStore,
    panics: AtomicBool,
    begun: UnboundedSender<()>,
    permissions: Mutex<mpsc::Receiver<()>>,
    /// How many records each write had.
    sizes: Mutex<Vec<usize>>,
}

/// The other side of a gated store.
struct Gate {
    begun: UnboundedReceiver<()>,
    permissions: mpsc::Sender<()>,
}

impl Gated {
    fn new() -> (Arc<Self>, Gate) {
        let (begun, has_begun) = unbounded_channel();
        let (permit, permissions) = mpsc::channel();
        let store = Self {
            inner: MemoryStore::default(),
            panics: AtomicBool::default(),
            begun,
            permissions: permissions.into(),
            sizes: Mutex::default(),
        };
        (Arc::new(store), Gate { begun: has_begun, permissions: permit })
    }
}

impl Store for Gated {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        self.inner.document(key)
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        self.begun.send(()).map_err(StoreError::new)?;
        self.permissions.lock().recv().map_err(StoreError::new)?;
        assert!(!self.panics.swap(false, Ordering::Relaxed), "as it was told");
        self.sizes.lock().push(records.len());
        self.inner.write(records)
    }
}

/// A store that can be full.
#[derive(Debug, Default)]
struct Flaky {
    inner: MemoryStore,
    is_full: AtomicBool,
}

#[derive(Debug, thiserror::Error)]
#[error("the disk is full")]
struct FullError;

impl Store for Flaky {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        self.inner.document(key)
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(StoreError::new(FullError));
        }
        self.inner.write(records)
    }

    fn is_blocking(&self) -> bool {
        false
    }
}

fn notification(number: usize) -> Notification {
    Notification::new(format!("server{number}"), "page")
}

fn pending(number: usize) -> Record {
    Record::Pending(notification(number))
}

fn kept(resource: &str, thing: usize) -> Record {
    let keep = Keep { kind: "file".to_owned(), thing: thing.to_string() };
    Record::Kept { resource: resource.into(), keep }
}

async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn those_who_flush_during_a_write_share_the_next_one() -> TestResult {
    let (store, mut gate) = Gated::new();
    let records = Records::open(store.clone())?;
    let first = records.push([pending(0)]);
    gate.begun.recv().await.ok_or("no write")?;

    let others: Vec<Position> = (1..=16).map(|number| records.push([pending(number)])).collect();
    gate.permissions.send(())?;
    gate.permissions.send(())?;
    for position in [first].into_iter().chain(others) {
        records.flush(position).await?;
    }

    assert_eq!(*store.sizes.lock(), [1, 16]);
    Ok(())
}

#[tokio::test]
async fn a_flush_waits_until_its_records_are_written() -> TestResult {
    let (store, mut gate) = Gated::new();
    let records = Records::open(store.clone())?;
    let position = records.push([pending(0), pending(1)]);
    let mut flush = pin!(records.flush(position));

    gate.begun.recv().await.ok_or("no write")?;
    assert!(is_pending(flush.as_mut()).await);
    assert!(store.load()?.pending.is_empty());
    gate.permissions.send(())?;
    flush.await?;

    assert_eq!(store.load()?.pending.len(), 2);
    Ok(())
}

#[tokio::test]
async fn an_error_reaches_each_flush_and_the_records_are_written_later() -> TestResult {
    let store = Arc::new(Flaky::default());
    let records = Records::open(store.clone())?;
    store.is_full.store(true, Ordering::Relaxed);

    let position = records.push([pending(0)]);
    for _ in 0..2 {
        let error = records.flush(position).await.map_err(|error| error.to_string());
        assert_eq!(error, Err("the disk is full".to_owned()));
    }
    store.is_full.store(false, Ordering::Relaxed);
    records.flush(position).await?;

    assert!(store.load()?.pending.contains(&notification(0)));
    Ok(())
}

#[tokio::test]
async fn a_write_that_panics_is_an_error_and_not_the_end() -> TestResult {
    let (store, mut gate) = Gated::new();
    store.panics.store(true, Ordering::Relaxed);
    let records = Records::open(store.clone())?;
    let position = records.push([pending(0)]);
    let mut flush = pin!(records.flush(position));
    gate.begun.recv().await.ok_or("no write")?;
    assert!(is_pending(flush.as_mut()).await);

    gate.permissions.send(())?;
    let panicked = flush.await;
    gate.permissions.send(())?;
    records.flush(position).await?;

    assert!(panicked.is_err());
    assert!(store.load()?.pending.contains(&notification(0)));
    Ok(())
}

#[tokio::test]
async fn a_flush_whose_write_has_failed_begins_no_other_write() -> TestResult {
    let (store, mut gate) = Gated::new();
    store.panics.store(true, Ordering::Relaxed);
    let records = Records::open(store)?;
    let position = records.push([pending(0)]);
    let mut flush = pin!(records.flush(position));
    gate.begun.recv().await.ok_or("no write")?;
    assert!(is_pending(flush.as_mut()).await);

    gate.permissions.send(())?;
    assert!(flush.await.is_err());

    assert!(!records.shared.queue.lock().is_writing);
    Ok(())
}

#[tokio::test]
async fn a_full_disk_stops_no_reads() -> TestResult {
    let store = Arc::new(Flaky::default());
    let records = Records::open(store.clone())?;
    let stored = |name: &str| -> TestResult<Record> {
        Ok(Record::Stored { key: Key::new(Topic::Reversal, name), document: Document::of(&name)? })
    };
    records.flush(records.push([stored("old")?])).await?;
    store.is_full.store(true, Ordering::Relaxed);

    records.push([stored("new")?, pending(0)]);

    for name in ["old", "new"] {
        let found = records.document(&Key::new(Topic::Reversal, name)).await?;
        assert_eq!(found.ok_or("it is lost")?.read::<String>()?, name);
    }
    assert!(records.look(|loaded| loaded.pending.contains(&notification(0))));
    Ok(())
}

#[tokio::test]
async fn a_document_that_is_known_and_not_on_disk_says_what_to_flush() -> TestResult {
    let store = Arc::new(Flaky::default());
    let records = Records::open(store.clone())?;
    let key = Key::new(Topic::Reversal, "page");
    assert_eq!(records.position_of(&key), None);
    store.is_full.store(true, Ordering::Relaxed);
    records.push([Record::Stored { key: key.clone(), document: Document::of(&"old")? }]);

    let waits = records.position_of(&key).ok_or("it is not known")?;
    assert!(records.flush(waits).await.is_err());
    store.is_full.store(false, Ordering::Relaxed);
    records.flush(waits).await?;
    store.is_full.store(true, Ordering::Relaxed);
    records.push([pending(0)]);

    // What waits now is of others.
    let on_disk = records.position_of(&key).ok_or("it is not known")?;
    records.flush(on_disk).await.map_err(Into::into)
}

#[test]
fn the_sources_of_one_target_are_found_among_others() {
    let records = Records::default();
    let pairs = [("a", "z"), ("server", "page"), ("server", "conf"), ("server2", "page")];
    records.push(pairs.map(|(target, by)| Record::Pending(Notification::new(target, by))));

    let sources = records.look(|loaded| loaded.sources("server"));

    assert_eq!(sources.iter().map(|it| &**it).collect::<Vec<_>>(), ["conf", "page"]);
    assert!(records.look(|loaded| loaded.sources("serve").is_empty()));
}

#[test]
fn what_waits_while_the_disk_is_full_is_bounded() -> TestResult {
    let store = Arc::new(Flaky { is_full: true.into(), ..Flaky::default() });
    let records = Records::open(store)?;

    for thing in 0..1_000 {
        records.push([kept("page", thing)]);
    }

    assert_eq!(records.shared.queue.lock().waiting, [kept("page", 999)]);
    Ok(())
}

/// What a test does with records.
#[derive(Debug, Clone)]
enum Step {
    Push(Vec<Record>),
    Fill(bool),
    Flush,
}

fn record() -> impl Strategy<Value = Record> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    (name.clone(), name, 0..6_usize, 0..9_usize).prop_map(|(name, other, form, value)| {
        let notification = Notification::new(name, other);
        // Documents of other topics may be left out.
        let key = Key::new([Topic::Reversal, Topic::Rule][value % 2], name);
        match form {
            0 => Record::Pending(notification),
            1 => Record::Acknowledged(notification),
            2 => kept(name, value),
            3 => Record::Released { resource: name.into() },
            4 => Record::Stored { key, document: Document::of(&value).expect("it is small") },
            _ => Record::Removed { key },
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(record(), 1..5).prop_map(Step::Push),
        1 => any::<bool>().prop_map(Step::Fill),
        2 => Just(Step::Flush),
    ]
}

/// Returns all that a store has.
fn content(store: &dyn Store) -> Result<(Loaded, Vec<Option<Document>>), StoreError> {
    let loaded = store.load()?;
    let documents =
        loaded.documents.iter().map(|key| store.document(key)).collect::<Result<_, _>>()?;
    Ok((loaded, documents))
}

proptest! {
    #[test]
    fn a_store_that_fails_now_and_then_ends_as_one_that_never_does(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (store, never_full) = (Arc::new(Flaky::default()), MemoryStore::default());
        let records = Records::open(store.clone())?;
        let (mut last, mut flushed) = (Position::default(), content(&never_full)?);
        for step in steps {
            match step {
                Step::Push(pushed) => {
                    never_full.write(&pushed)?;
                    last = records.push(pushed);
                }
                Step::Fill(is_full) => store.is_full.store(is_full, Ordering::Relaxed),
                Step::Flush => {
                    let is_flushed = runtime.block_on(records.flush(last)).is_ok();
                    prop_assert!(is_flushed || store.is_full.load(Ordering::Relaxed));
                }
            }
            if store.is_full.load(Ordering::Relaxed) {
                prop_assert_eq!(&content(&*store)?, &flushed);
            } else if runtime.block_on(records.flush(last)).is_ok() {
                flushed = content(&*store)?;
                prop_assert_eq!(&flushed, &content(&never_full)?);
            }
            prop_assert_eq!(&records.look(Loaded::clone), &never_full.load()?);
        }
    }
}
