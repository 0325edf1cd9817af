//! The file.
//!
//! Invariants:
//! 1. Each transaction is on disk when it ends, or leaves nothing (write-ahead log, synchronous).
//! 2. Only its owner can read the file.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// The version of the tables.
const VERSION: i64 = 1;

/// How long one who reads waits for one who writes, or the other way round.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = "
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
    PRAGMA user_version = 1;
";

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
        // SQLite gives its other files the mode of this one.
        let made = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        made.map_err(|source| HistoryError::Make { path: path.to_owned(), source })?;
        Self::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    /// Opens the file to read it; nothing if it is not there.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, HistoryError> {
        // A write-ahead log is read with a lock, which is a write.
        let exists = path.try_exists();
        let exists =
            exists.map_err(|source| HistoryError::Make { path: path.to_owned(), source })?;
        if exists {
            Self::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map(Some)
        } else {
            Ok(None)
        }
    }

    fn open(path: &Path, flags: OpenFlags) -> Result<Self, HistoryError> {
        let wrong = |source| HistoryError::Store { path: path.to_owned(), source };
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(wrong)?;
        connection.busy_timeout(PATIENCE).map_err(wrong)?;
        let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = \
                        ON; PRAGMA trusted_schema = OFF;";
        connection.execute_batch(settings).map_err(wrong)?;
        let store = Self { connection, path: path.to_owned() };
        store.migrate()?;
        Ok(store)
    }

    /// Makes the tables, if there are none.
    fn migrate(&self) -> Result<(), HistoryError> {
        let version = "PRAGMA user_version";
        let read = || self.connection.query_row(version, [], |row| row.get::<_, i64>(0));
        match read().map_err(|source| self.wrong(source))? {
            0 => {
                // Of two at once the later one finds the tables.
                let begin = "BEGIN IMMEDIATE";
                self.connection.execute_batch(begin).map_err(|source| self.wrong(source))?;
                let made = match read() {
                    Ok(0) => self.connection.execute_batch(TABLES),
                    other => other.map(drop),
                };
                let end = if made.is_ok() { "COMMIT" } else { "ROLLBACK" };
                let ended = self.connection.execute_batch(end);
                made.and(ended).map_err(|source| self.wrong(source))
            }
            VERSION => Ok(()),
            version => Err(HistoryError::Version { path: self.path.clone(), version }),
        }
    }

    pub(crate) fn wrong(&self, source: rusqlite::Error) -> HistoryError {
        HistoryError::Store { path: self.path.clone(), source }
    }
}
