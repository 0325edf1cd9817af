//! Parks that end while the site parks again what was parked before.

use std::sync::{Arc, OnceLock};

use crankcase_engine::Name;
use crankcase_manifolds::site::ResourceHolds;
use crankcase_resources::run::State;
use crankcase_resources::state::{
    Document, Hold, Key, Loaded, MemoryStore, Record, Records, Store, StoreError, Topic,
};
use crankcase_status::Holder;

use crate::site::machine::{Machine, TestResult, within};

const SITE: &str = "resources:\n  page: {type: file, config: {path: '@/page', content: x}}\n";

/// A store whose parks are forgotten as soon as they are read, as if a person had unparked the
/// resource at that moment.
#[derive(Debug, Default)]
struct Forgetful {
    inner: MemoryStore,
    records: OnceLock<Records>,
}

impl Store for Forgetful {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        let document = self.inner.document(key);
        if let Some(records) = self.records.get().filter(|_| key.topic == Topic::Park) {
            records.push([Record::Removed { key: key.clone() }]);
        }
        document
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        self.inner.write(records)
    }

    fn is_blocking(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn what_is_unparked_before_it_is_parked_again_is_kept() -> TestResult {
    let store = Arc::new(Forgetful::default());
    let document = Document::of(&Hold::new("ada", "a look", String::new()))?;
    store.write(&[Record::Stored { key: Key::new(Topic::Park, "page"), document }])?;
    let records = Records::open(store.clone())?;
    store.records.set(records.clone()).map_err(|_| "it was set before")?;

    let machine = Machine::recorded(SITE, records).await?;

    machine.until("page", |text| text == "x").await?;
    machine.stop().await
}

#[tokio::test]
async fn the_end_of_a_park_unparks_what_was_parked_meanwhile() -> TestResult {
    let holds = ResourceHolds::default();
    let machine = Machine::held(SITE, holds.clone()).await?;
    machine.running("page").await?;
    let resources = machine.resources().await?;
    within(resources.park(Name::<State>::parse("page")?)).await?;

    holds.note_park(&format!("{}/page", resources.path()), None).await?;

    machine.running("page").await?;
    machine.stop().await
}
