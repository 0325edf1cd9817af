//! The store.
//!
//! Invariants:
//! 1. Each write is one transaction, which is on disk when it ends (write-ahead log, synchronous).
//! 2. The file exists from the first write on, or from the first start after an earlier version
//!    that has left something. It is read also while it cannot be written.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use crankcase_resources::state::{Document, Key, Loaded, MemoryStore, Record, Store, StoreError};
use crankcase_sqlite::is_unwritable;
use parking_lot::Mutex;
use rusqlite::Connection;

use crate::error::SqliteStoreError;
use crate::file::StateFolder;
use crate::old;
use crate::tables;

/// The records of a state folder, in the file `state.db`.
#[derive(Debug)]
pub struct SqliteStore {
    state: StateFolder,
    user: User,
    access: Mutex<Access>,
}

/// Who has opened the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    /// The only process that writes.
    Agent,
    /// One of those that read.
    Reader,
}

/// How the file is open.
#[derive(Debug)]
enum Access {
    /// There is no file, or the next call opens it.
    Closed,
    /// It can be read, and could not be written when it was opened.
    Read(Connection),
    Write(Connection),
}

impl SqliteStore {
    /// Opens the store of a state folder for the only agent that uses the folder. The first write
    /// makes the file. What an earlier version of the program has left in files of other formats is
    /// taken over before, in one transaction; then these files are removed. Blocks for the disk.
    ///
    /// # Errors
    ///
    /// When the file or what an earlier version has left cannot be read, or when a later version of
    /// the program has made the file. Nothing was taken over then.
    pub fn open(state: &Path) -> Result<Self, SqliteStoreError> {
        Self::of(state, User::Agent)
    }

    /// Opens the store to read it, also while an agent uses the folder. Returns none if there is no
    /// store. Blocks for the disk.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn find(state: &Path) -> Result<Option<Self>, SqliteStoreError> {
        let store = Self::of(state, User::Reader)?;
        let is_there = !matches!(*store.access.lock(), Access::Closed);
        Ok(is_there.then_some(store))
    }

    fn of(state: &Path, user: User) -> Result<Self, SqliteStoreError> {
        let state = StateFolder::new(state);
        let store = Self { state, user, access: Access::Closed.into() };
        let access = store.opened()?;
        Ok(Self { access: access.into(), ..store })
    }

    /// Opens the file, if it exists or there is something to take over.
    fn opened(&self) -> Result<Access, SqliteStoreError> {
        let read = |found: Option<Connection>| found.map_or(Access::Closed, Access::Read);
        if self.user == User::Reader {
            return Ok(read(self.state.file.look()?));
        }
        let Some(folder) = self.state.open()? else { return Ok(Access::Closed) };
        let is_there = self.state.file.is_there()?;
        if !is_there && !old::is_there(&folder) {
            return Ok(Access::Closed);
        }
        match self.state.to_write() {
            // The first error says why the file can be neither written nor read.
            Err(error) if is_there && is_unwritable(&error) => match self.state.file.read() {
                Ok(found) if found.is_some() || !old::is_there(&folder) => {
                    let (path, error): (_, &dyn Error) = (self.state.file.path(), &error);
                    tracing::warn!(?path, error, "the records can only be read");
                    Ok(read(found))
                }
                _ => Err(error),
            },
            connection => connection.map(Access::Write),
        }
    }

    /// Reads from the file; returns nothing if it does not exist.
    fn reading<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, SqliteStoreError> {
        let access = &mut *self.access.lock();
        if matches!(access, Access::Closed) {
            *access = self.opened()?;
        }
        match access {
            Access::Closed => Ok(None),
            Access::Read(connection) | Access::Write(connection) => {
                read(connection).map(Some).map_err(|source| self.state.file.wrong(source).into())
            }
        }
    }

    fn writing(&self, records: &[Record]) -> Result<(), SqliteStoreError> {
        if self.user == User::Reader {
            return Err(SqliteStoreError::OnlyRead { path: self.state.file.path().to_owned() });
        }
        let write = |connection: &Connection| -> Result<(), SqliteStoreError> {
            let written = tables::write(connection, records);
            written.map_err(|source| self.state.file.wrong(source).into())
        };
        let access = &mut *self.access.lock();
        if let Access::Write(connection) = access {
            return write(connection);
        }
        // SQLite would give a second connection of the process no more rights than the first.
        *access = Access::Closed;
        let connection = self.state.to_write()?;
        let written = write(&connection);
        *access = Access::Write(connection);
        written
    }
}

impl Store for SqliteStore {
    fn load(&self) -> Result<Loaded, StoreError> {
        Ok(self.reading(tables::load).map_err(StoreError::new)?.unwrap_or_default())
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        let found = self.reading(|connection| tables::document(connection, key));
        Ok(found.map_err(StoreError::new)?.flatten())
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        self.writing(records).map_err(StoreError::new)
    }
}

/// Returns a store with the records of a state folder as they are now, for a plan. No record is
/// changed, and files of an earlier version are left where they are: the store has their records.
/// Blocks for the disk.
///
/// # Errors
///
/// As [`SqliteStore::find`].
pub fn reading(state: &Path) -> Result<Arc<dyn Store>, SqliteStoreError> {
    if let Some(store) = SqliteStore::find(state)? {
        return Ok(Arc::new(store));
    }
    let Some(folder) = StateFolder::new(state).open()? else {
        return Ok(Arc::new(MemoryStore::default()));
    };
    let mut records = Vec::new();
    let read = old::read(&folder, &mut |record| {
        records.push(record);
        Ok(())
    });
    // An agent that has started meanwhile has taken them over, and has removed them.
    if let Some(store) = SqliteStore::find(state)? {
        return Ok(Arc::new(store));
    }
    read?;
    let memory = MemoryStore::default();
    // A store in memory takes all.
    drop(memory.write(&records));
    Ok(Arc::new(memory))
}
