//! The file.
//!
//! Invariants:
//! 1. Each transaction is on disk when it ends, or leaves nothing (write-ahead log, synchronous).
//! 2. Only its owner can read the file.
//! 3. The file, and those that SQLite keeps beside it, are regular files in a folder that is opened first, and no
//!    symlinks.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crankcase_workers::{FileError, Folder};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

/// The version of the tables.
const VERSION: i64 = STEPS.len() as i64;

/// How long one who reads waits for one who writes, or the other way round.
const PATIENCE: Duration = Duration::from_secs(5);

/// The endings of the names of the files that SQLite keeps beside the file.
const BESIDE: &[&str] = &["-wal", "-shm", "-journal"];

/// The SQL from each version of the tables to the next one.
const STEPS: [&str; 2] = [
    "
    CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        mode TEXT NOT NULL,
        site TEXT NOT NULL,
        began INTEGER NOT NULL,
        ended INTEGER,
        outcome TEXT
    ) STRICT;
    CREATE TABLE event (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        at INTEGER NOT NULL,
        event TEXT NOT NULL,
        resource TEXT NOT NULL,
        type TEXT NOT NULL,
        differences TEXT NOT NULL,
        actions TEXT NOT NULL,
        error TEXT,
        why TEXT NOT NULL,
        took_ms INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX event_of_run ON event (run, id);
    CREATE INDEX event_of_resource ON event (resource, id);
",
    "ALTER TABLE event ADD COLUMN details TEXT;",
];

/// Why the history cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The file cannot be made, or looked for.
    #[error("cannot make or find {}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is damaged, or no history, or the disk refuses.
    #[error("cannot use the history in {}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A later version of the program has made it.
    #[error("the history in {} has version {version}; this program reads up to {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
}

/// An open history.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the file, and makes it if it is not there.
    pub(crate) fn make(path: &Path) -> Result<Self, HistoryError> {
        let failed = |error| unmade(path, error);
        let (folder, name) = folder_of(path).map_err(failed)?;
        folder.look_for_file(name).map_err(failed)?;
        // SQLite gives its other files the mode of this one.
        drop(folder.append(name).map_err(failed)?);
        Self::open(path, &folder, name)
    }

    /// Opens the file to read it; nothing if it is not there.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, HistoryError> {
        let found = folder_of(path).and_then(|(folder, name)| {
            let found = folder.look_for_file(name)?;
            Ok(found.map(|_| (folder, name)))
        });
        match found {
            Ok(Some((folder, name))) => Self::open(path, &folder, name).map(Some),
            Ok(None) => Ok(None),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(unmade(path, error)),
        }
    }

    fn open(path: &Path, folder: &Folder, name: &OsStr) -> Result<Self, HistoryError> {
        let wrong = |source| HistoryError::Store { path: path.to_owned(), source };
        // A write-ahead log is read with a lock, which is a write.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let open = |path: &Path| Connection::open_with_flags(path, flags);
        let opened = folder.open_by_path(name, BESIDE, open);
        let connection = opened.map_err(|error| unmade(path, error))?.map_err(wrong)?;
        connection.busy_timeout(PATIENCE).map_err(wrong)?;
        let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = \
                        ON; PRAGMA trusted_schema = OFF;";
        connection.execute_batch(settings).map_err(wrong)?;
        let store = Self { connection, path: path.to_owned() };
        store.migrate()?;
        Ok(store)
    }

    /// Makes the tables if there are none, and brings older ones up to date.
    fn migrate(&self) -> Result<(), HistoryError> {
        let read = |connection: &Connection| {
            connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
        };
        let version = read(&self.connection).map_err(|source| self.wrong(source))?;
        if version == VERSION {
            return Ok(());
        }
        if !(0..VERSION).contains(&version) {
            return Err(HistoryError::Version { path: self.path.clone(), version });
        }
        let step = || {
            let behavior = TransactionBehavior::Immediate;
            let transaction = Transaction::new_unchecked(&self.connection, behavior)?;
            // Another process may have done it meanwhile.
            let version = usize::try_from(read(&transaction)?).unwrap_or(STEPS.len());
            for step in STEPS.iter().skip(version) {
                transaction.execute_batch(step)?;
            }
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()
        };
        step().map_err(|source| self.wrong(source))
    }

    pub(crate) fn wrong(&self, source: rusqlite::Error) -> HistoryError {
        HistoryError::Store { path: self.path.clone(), source }
    }
}

/// Opens the folder of a file; returns it with the file's name.
fn folder_of(path: &Path) -> Result<(Folder, &OsStr), FileError> {
    let missing = || FileError::MissingFolder { path: path.to_owned() };
    let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(missing)?;
    Ok((Folder::open(folder)?, name))
}

/// Returns the error of a file that cannot be made or found.
fn unmade(path: &Path, error: FileError) -> HistoryError {
    HistoryError::Make { path: path.to_owned(), source: error.into() }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_history_of_an_older_version_is_brought_up_to_date() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("history.db");
        let old = Connection::open(&path)?;
        old.execute_batch(STEPS[0])?;
        old.execute_batch(
            "INSERT INTO run (mode, site, began) VALUES ('run', 'site', 1);
             INSERT INTO event VALUES (1, 1, 1, 'changed', 'page', 'file', '', '', NULL, '', 1);
             PRAGMA user_version = 1;",
        )?;
        drop(old);

        let store = Store::make(&path)?;

        let query = "SELECT resource, details FROM event";
        let found: (String, Option<String>) =
            store.connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        assert_eq!(found, ("page".to_owned(), None));
        let version = "PRAGMA user_version";
        let version: i64 = store.connection.query_row(version, [], |row| row.get(0))?;
        assert_eq!(version, VERSION);
        Ok(())
    }
}
