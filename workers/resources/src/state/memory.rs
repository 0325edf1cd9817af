//! A store in memory.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::state::document::Document;
use crate::state::record::{Key, Record};
use crate::state::store::{Loaded, Store, StoreError};

/// A store in memory, whose records are lost when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    loaded: Loaded,
    documents: BTreeMap<Key, Document>,
}

impl Store for MemoryStore {
    fn load(&self) -> Result<Loaded, StoreError> {
        Ok(self.0.lock().loaded.clone())
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        Ok(self.0.lock().documents.get(key).cloned())
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        let mut content = self.0.lock();
        for record in records {
            content.loaded.add(record);
            match record {
                Record::Stored { key, document } => {
                    content.documents.insert(key.clone(), document.clone());
                }
                Record::Removed { key } => {
                    content.documents.remove(key);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_blocking(&self) -> bool {
        false
    }
}
