//! The holds of people on resources, as they are on record.
//!
//! A resource that is parked has no worker. One that is paused has a worker that leaves it alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::error::BoxError;
use crate::base::text::chain;
use crate::state::document::Document;
use crate::state::record::{Key, Record, Topic};
use crate::state::records::Records;
use crate::state::store::Loaded;

/// A hold on a resource: who has parked or paused it, why, and when.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hold {
    /// The person who holds it.
    pub who: String,
    /// The reason that the person has given.
    pub why: String,
    /// The time of the hold, in RFC 3339.
    pub at: String,
    /// The last state of a paused resource, for its dependents under the next agent. None if it is
    /// not known, or has secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<Value>,
}

/// Shows no state.
impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, why, at, .. } = self;
        let mut shown = f.debug_struct("Hold");
        shown.field("who", who).field("why", why).field("at", at).finish_non_exhaustive()
    }
}

/// Writes who it was, and why.
impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.why)
    }
}

impl Hold {
    /// Returns a hold by this person, for this reason, since this moment.
    pub fn new(who: &str, why: &str, at: String) -> Self {
        Self { who: who.to_owned(), why: why.to_owned(), at, state: None }
    }

    /// Puts a hold on record. It is on disk when this returns.
    ///
    /// # Errors
    ///
    /// When it cannot be written. It is not on record later either, unless an earlier one was.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes the hold back, as an error does.
    pub async fn note(&self, records: &Records, key: Key) -> Result<(), BoxError> {
        let document = Document::of(self)?;
        // One at a time: if this hold is taken back, a later one must not be taken with it.
        let _others_wait = records.lock_holds().await;
        let was_held = records.look(|loaded| loaded.documents.contains(&key));
        let mut unwritten = Unwritten { records, key: (!was_held).then(|| key.clone()) };
        records.flush(records.push([Record::Stored { key, document }])).await?;
        unwritten.key = None;
        Ok(())
    }

    /// Forgets a hold, if it is on record. That is on disk when this returns.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait. The hold is forgotten soon all the same, unless another
    /// hold was being written or forgotten.
    pub async fn forget(records: &Records, key: Key) -> Result<(), BoxError> {
        let _others_wait = records.lock_holds().await;
        if !records.look(|loaded| loaded.documents.contains(&key)) {
            return Ok(());
        }
        Ok(records.flush(records.push([Record::Removed { key }])).await?)
    }

    /// Returns a hold, if it is on record. The log says which hold cannot be read.
    pub async fn read(records: &Records, key: &Key) -> Option<Self> {
        let read = async {
            let document = records.document(key).await?;
            Ok::<_, BoxError>(document.map(|document| document.read()).transpose()?)
        };
        read.await.unwrap_or_else(|error| {
            let (resource, error) = (&*key.name, chain(&*error));
            tracing::warn!(resource, error, "cannot read who holds a resource");
            None
        })
    }

    /// Returns all holds of a topic that can be read, by the names of the resources.
    pub async fn all(records: &Records, topic: Topic) -> BTreeMap<Arc<str>, Self> {
        let keys: Vec<Key> = records.look(|loaded| {
            loaded.documents.iter().filter(|key| key.topic == topic).cloned().collect()
        });
        let mut all = BTreeMap::new();
        for key in keys {
            if let Some(hold) = Self::read(records, &key).await {
                all.insert(key.name, hold);
            }
        }
        all
    }
}

/// Takes a hold back that is not known to be on disk, when it is dropped.
struct Unwritten<'a> {
    records: &'a Records,
    /// None once the hold is on disk, or if an earlier one is on record.
    key: Option<Key>,
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        // A record waits until it is written, also when nobody knows of it any more.
        if let Some(key) = self.key.take() {
            self.records.push([Record::Removed { key }]);
        }
    }
}

/// Returns whether a person holds a resource.
pub(crate) fn is_held(loaded: &Loaded, resource: &Arc<str>) -> bool {
    let key = |topic| Key::new(topic, Arc::clone(resource));
    [Topic::Park, Topic::Pause].into_iter().any(|topic| loaded.documents.contains(&key(topic)))
}

/// Returns the keys of the holds of resources that are not there any more.
pub(crate) fn lost(loaded: &Loaded, is_there: impl Fn(&str) -> bool) -> Vec<Key> {
    let keys = loaded.documents.iter();
    let holds = keys.filter(|key| matches!(key.topic, Topic::Park | Topic::Pause));
    holds.filter(|key| !is_there(&key.name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::task::Poll;

    use parking_lot::Mutex;
    use serde_json::json;

    use super::{Hold, lost};
    use crate::base::error::BoxError;
    use crate::state::{
        Document, Key, Loaded, MemoryStore, Record, Records, Store, StoreError, Topic,
    };

    /// A store that can be full.
    #[derive(Debug, Default)]
    struct Flaky {
        inner: MemoryStore,
        is_full: AtomicBool,
    }

    impl Store for Flaky {
        fn load(&self) -> Result<Loaded, StoreError> {
            self.inner.load()
        }

        fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
            self.inner.document(key)
        }

        fn write(&self, records: &[Record]) -> Result<(), StoreError> {
            match self.is_full.load(Ordering::Relaxed) {
                true => Err(StoreError::new(std::io::Error::other("no space"))),
                false => self.inner.write(records),
            }
        }

        fn is_blocking(&self) -> bool {
            false
        }
    }

    /// A store whose writes wait until the sender of the permission is dropped.
    #[derive(Debug)]
    struct Slow {
        inner: MemoryStore,
        permission: Mutex<mpsc::Receiver<()>>,
    }

    impl Store for Slow {
        fn load(&self) -> Result<Loaded, StoreError> {
            self.inner.load()
        }

        fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
            self.inner.document(key)
        }

        fn write(&self, records: &[Record]) -> Result<(), StoreError> {
            let _is_open = self.permission.lock().recv().is_ok();
            self.inner.write(records)
        }
    }

    #[tokio::test]
    async fn a_hold_that_takes_too_long_is_not_on_record_later() -> Result<(), BoxError> {
        let (permit, permission) = mpsc::channel();
        let (inner, permission) = (MemoryStore::default(), permission.into());
        let store = Arc::new(Slow { inner, permission });
        let records = Records::open(Arc::<Slow>::clone(&store))?;
        let (hold, key) = (Hold::new("ada", "x", String::new()), Key::new(Topic::Pause, "page"));

        {
            let mut noting = pin!(hold.note(&records, key.clone()));
            let waits = poll_fn(|context| Poll::Ready(noting.as_mut().poll(context).is_pending()));
            assert!(waits.await);
        }
        drop(permit);
        records.flush(records.push([])).await?;

        assert!(store.load()?.documents.is_empty());
        Ok(())
    }

    #[tokio::test]
    async fn a_hold_that_is_taken_back_takes_no_later_one_with_it() -> Result<(), BoxError> {
        let (permit, permission) = mpsc::channel();
        let (inner, permission) = (MemoryStore::default(), permission.into());
        let store = Arc::new(Slow { inner, permission });
        let records = Records::open(Arc::<Slow>::clone(&store))?;
        let hold = |who| Hold::new(who, "x", String::new());
        let (first, second, key) = (hold("ada"), hold("bob"), Key::new(Topic::Pause, "page"));
        let mut later = pin!(second.note(&records, key.clone()));

        {
            let mut earlier = pin!(first.note(&records, key.clone()));
            let wait = poll_fn(|context| {
                let waits = earlier.as_mut().poll(context).is_pending();
                Poll::Ready(waits && later.as_mut().poll(context).is_pending())
            });
            assert!(wait.await);
        }
        drop(permit);
        later.await?;
        records.flush(records.push([])).await?;

        let held = store.document(&key)?.ok_or("it is not held")?;
        assert_eq!(held.read::<Hold>()?, second);
        Ok(())
    }

    #[tokio::test]
    async fn a_hold_that_cannot_be_written_is_not_on_record_later() -> Result<(), BoxError> {
        let store = Arc::new(Flaky::default());
        let records = Records::open(Arc::<Flaky>::clone(&store))?;
        let (hold, key) = (Hold::new("ada", "x", String::new()), Key::new(Topic::Pause, "page"));
        store.is_full.store(true, Ordering::Relaxed);

        let refused = hold.note(&records, key.clone()).await;
        store.is_full.store(false, Ordering::Relaxed);
        records.flush(records.push([])).await?;

        assert!(refused.is_err());
        assert_eq!(Hold::read(&records, &key).await, None);
        assert!(store.load()?.documents.is_empty());
        Ok(())
    }

    #[tokio::test]
    async fn a_hold_is_on_record_until_it_is_forgotten() -> Result<(), BoxError> {
        let (records, key) = (Records::default(), Key::new(Topic::Park, "page"));
        let hold = Hold::new("ada", "a look", "2026-01-02T03:04:05.000Z".to_owned());

        hold.note(&records, key.clone()).await?;
        assert_eq!(Hold::read(&records, &key).await, Some(hold.clone()));
        assert_eq!(Hold::all(&records, Topic::Park).await["page"], hold);
        assert!(Hold::all(&records, Topic::Pause).await.is_empty());
        Hold::forget(&records, key.clone()).await?;
        assert_eq!(Hold::read(&records, &key).await, None);
        Ok(())
    }

    #[tokio::test]
    async fn holds_of_what_is_not_there_are_lost() -> Result<(), BoxError> {
        let records = Records::default();
        let hold = Hold::new("ada", "a look", String::new());
        let key = |name: &str| Key::new(Topic::Pause, name);
        for name in ["gone", "page"] {
            hold.note(&records, key(name)).await?;
        }

        let lost = records.look(|loaded| lost(loaded, |name| name == "page"));

        assert_eq!(lost, [key("gone")]);
        Ok(())
    }

    #[test]
    fn a_hold_shows_no_state() {
        let hold = Hold { state: Some(json!("hush")), ..Hold::new("ada", "x", String::new()) };

        assert!(!format!("{hold:?} {hold}").contains("hush"));
    }
}
