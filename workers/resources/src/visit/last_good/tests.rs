//! Last good configs on record, also on a disk without room for them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crankcase_workers::Secrets;
use serde_json::json;

use super::{forget, has_secrets, note_as, read};
use crate::base::error::BoxError;
use crate::declare::declaration::{Config, Declaration};
use crate::declare::earlier_config::EarlierConfig;
use crate::declare::literal::Literal;
use crate::declare::params::{Parameter, Secret, Table};
use crate::kind::secrets::has_sensitive;
use crate::state::{
    Document, Key, Loaded, MemoryStore, Notification, Record, Records, Store, StoreError, Topic,
};

/// A store on a disk that has no room for configs, or for nothing.
#[derive(Debug, Default)]
struct Small {
    inner: MemoryStore,
    is_small: AtomicBool,
    is_full: AtomicBool,
}

#[derive(Debug, thiserror::Error)]
#[error("the disk is full")]
struct FullError;

impl Store for Small {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        self.inner.document(key)
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        let is_config = |record: &Record| matches!(record, Record::Stored { .. });
        let is_small = self.is_small.load(Ordering::Relaxed);
        if self.is_full.load(Ordering::Relaxed) || is_small && records.iter().any(is_config) {
            return Err(StoreError::new(FullError));
        }
        self.inner.write(records)
    }

    fn is_blocking(&self) -> bool {
        false
    }
}

fn declare(name: &str, kind: &str) -> Declaration {
    Literal::new(Config::new()).declare(Path::new("/srv"), name, kind)
}

fn config(content: &str) -> EarlierConfig {
    let config = [("content".to_owned(), json!(content))].into_iter().collect();
    EarlierConfig { config, hidden: BTreeSet::new() }
}

fn note(records: &Records, name: &str, config: &EarlierConfig) {
    note_as(records, (name, "file"), || Some(config.clone()), &OnceLock::new());
}

fn documents(records: &Records) -> usize {
    records.look(|loaded| loaded.documents.len())
}

#[tokio::test]
async fn the_last_config_of_a_resource_is_on_record_until_it_is_forgotten() {
    let records = Records::default();

    for content in ["one", "two", "two"] {
        note(&records, "page", &config(content));
        note(&records, "pages", &config("other"));
    }

    assert_eq!(documents(&records), 2);
    assert_eq!(read(&records, &declare("page", "file")).await, Some(config("two")));
    assert_eq!(read(&records, &declare("page", "exec")).await, None);
    records.push(records.look(|loaded| forget(loaded, "page")));
    assert_eq!(read(&records, &declare("page", "file")).await, None);
    assert_eq!(read(&records, &declare("pages", "file")).await, Some(config("other")));
}

#[test]
fn a_config_with_secrets_is_not_on_record_and_the_one_before_is_forgotten() {
    let (records, key) = (Records::default(), OnceLock::new());
    note(&records, "page", &config("one"));

    note_as(&records, ("page", "file"), || None, &key);
    let before = records.push([]);
    note_as(&records, ("page", "file"), || panic!("nobody needs the config"), &key);

    assert_eq!((documents(&records), records.push([])), (0, before));
}

#[test]
fn what_is_hidden_and_what_holds_a_secret_is_secret() {
    let secrets = Secrets::default();
    secrets.add("pass\nword");
    let hidden = EarlierConfig { hidden: ["content".to_owned()].into(), ..config("one") };

    assert!(has_secrets(&hidden, &secrets));
    assert!(has_secrets(&config("the pass\nword is here"), &secrets));
    assert!(!has_secrets(&config("one"), &secrets));
}

#[test]
fn a_sensitive_attribute_is_secret_however_short_it_is() {
    let pin = Parameter::of::<Secret<String>>("content", "the number that opens the door");
    let table = Table::new("a door", vec![pin]);

    assert!(!has_sensitive(&config("123").config, Table::open()));
    assert!(has_sensitive(&config("123").config, &table));
}

#[test]
fn a_config_that_is_on_record_is_not_written_again_and_its_key_is_made_once() {
    let records = Records::default();
    let key = OnceLock::new();
    note_as(&records, ("page", "file"), || Some(config("one")), &key);
    let before = records.push([]);

    note_as(&records, ("page", "file"), || panic!("nobody needs the config"), &key);
    note(&records, "page", &config("one"));

    assert_eq!(records.push([]), before);
}

#[tokio::test]
async fn the_names_of_resources_may_have_line_breaks() {
    let records = Records::default();

    note(&records, "page\nof", &config("other"));
    note(&records, "page", &config("one"));

    assert_eq!(read(&records, &declare("page", "file")).await, Some(config("one")));
    records.push(records.look(|loaded| forget(loaded, "page")));
    assert_eq!(read(&records, &declare("page", "file")).await, None);
    assert_eq!(read(&records, &declare("page\nof", "file")).await, Some(config("other")));
}

#[tokio::test]
async fn a_disk_without_room_for_a_config_holds_up_no_notification() -> Result<(), BoxError> {
    let store = Arc::new(Small { is_small: true.into(), ..Small::default() });
    let records = Records::open(store.clone())?;
    let (notification, key) = (Notification::new("server", "page"), OnceLock::new());
    let noted = || note_as(&records, ("page", "file"), || Some(config("one")), &key);

    noted();
    records.flush(records.push([Record::Pending(notification.clone())])).await?;
    let without = store.load()?;
    store.is_small.store(false, Ordering::Relaxed);
    noted();
    records.flush(records.push([])).await?;

    assert_eq!((without.documents.len(), without.pending.len()), (0, 1));
    assert_eq!(read(&Records::open(store)?, &declare("page", "file")).await, Some(config("one")));
    Ok(())
}

#[tokio::test]
async fn a_config_that_shares_a_write_holds_up_no_notification() -> Result<(), BoxError> {
    let store = Arc::new(Small { is_full: true.into(), ..Small::default() });
    let records = Records::open(store.clone())?;
    records.push([Record::Pending(Notification::new("server", "page"))]);
    store.is_full.store(false, Ordering::Relaxed);
    store.is_small.store(true, Ordering::Relaxed);

    note(&records, "page", &config("one"));

    assert_eq!(store.load()?.pending.len(), 1);
    assert_eq!(records.look(Loaded::clone), store.load()?);
    Ok(())
}

#[tokio::test]
async fn on_a_full_disk_what_was_on_record_before_is_forgotten_at_last() -> Result<(), BoxError> {
    let store = Arc::new(Small::default());
    let records = Records::open(store.clone())?;
    note(&records, "page", &config("old"));
    store.is_full.store(true, Ordering::Relaxed);

    for number in 0..100 {
        note(&records, "page", &config(&number.to_string()));
        note(&records, "page", &config("old"));
    }
    let end = records.push([]);
    assert!(records.flush(end).await.is_err());
    store.is_full.store(false, Ordering::Relaxed);
    records.flush(end).await?;
    note(&records, "page", &config("new"));
    records.flush(records.push([])).await?;

    let is_of = |key: &&Key| key.topic == Topic::LastGood;
    assert_eq!(store.load()?.documents.iter().filter(is_of).count(), 1);
    assert_eq!(read(&Records::open(store)?, &declare("page", "file")).await, Some(config("new")));
    Ok(())
}
