//! What is on disk when a site is not kept any more.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crankcase_resources::state::{
    Document, Key, Loaded, MemoryStore, Record, Records, Store, StoreError, Topic,
};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::site::machine::{Machine, TestResult, within};

/// A store whose write of a last good config waits for a permission.
#[derive(Debug)]
struct Gated {
    inner: MemoryStore,
    begun: UnboundedSender<()>,
    permission: Mutex<mpsc::Receiver<()>>,
}

impl Store for Gated {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        self.inner.document(key)
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        let is_config =
            |it: &Record| matches!(it, Record::Stored { key, .. } if key.topic == Topic::LastGood);
        if records.iter().any(is_config) {
            self.begun.send(()).map_err(StoreError::new)?;
            self.permission.lock().recv().map_err(StoreError::new)?;
        }
        self.inner.write(records)
    }
}

#[tokio::test]
async fn what_nobody_waits_for_is_on_disk_when_the_site_is_not_kept_any_more() -> TestResult {
    let ((begun, mut has_begun), (permit, permission)) = (unbounded_channel(), mpsc::channel());
    let inner = MemoryStore::default();
    let store = Arc::new(Gated { inner, begun, permission: permission.into() });
    let site = "resources:\n  page: {type: file, config: {path: '@/page', content: x}}\n";
    let machine = Machine::recorded(site, Records::open(store.clone())?).await?;
    within(has_begun.recv()).await.ok_or("no write")?;

    let mut stopping = pin!(machine.stop());
    let early = timeout(Duration::from_millis(500), &mut stopping).await;
    permit.send(())?;
    assert!(early.is_err(), "it ends before the write");
    stopping.await?;

    assert!(store.load()?.documents.iter().any(|key| key.topic == Topic::LastGood));
    Ok(())
}
