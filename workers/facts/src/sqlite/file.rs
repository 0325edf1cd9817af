//! Opens, creates and migrates the file of a store.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::sqlite::{Sqlite, wrong};
use crate::store::StoreError;

/// The SQL from each format of the file to the next one. The last step makes the format that is written.
const STEPS: &[&str] = &["
    CREATE TABLE state (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        version INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        digest TEXT NOT NULL,
        history INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE fact (path TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE owned (path TEXT PRIMARY KEY, owner TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE schema (path TEXT PRIMARY KEY, owner TEXT NOT NULL, schema TEXT NOT NULL) STRICT;
    CREATE TABLE document (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        version INTEGER NOT NULL,
        facts TEXT NOT NULL
    ) STRICT;
    CREATE TABLE entry (
        revision INTEGER PRIMARY KEY,
        version INTEGER NOT NULL,
        at INTEGER NOT NULL,
        who TEXT NOT NULL,
        why TEXT,
        kind TEXT NOT NULL,
        digest TEXT NOT NULL,
        differences TEXT NOT NULL
    ) STRICT;
    INSERT INTO state VALUES (1, 0, 0, '', 0);
"];

/// The application id, which tells a store of facts from other SQLite files.
const APPLICATION: i64 = 0x4372_6661;

/// How long a connection waits for the lock of another one.
const PATIENCE: Duration = Duration::from_secs(5);

impl Sqlite {
    /// Opens the file; creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// When the file cannot be created, is no store of facts, or was made by a later version of the program. The file
    /// is left unchanged then.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        // SQLite gives its other files the mode of this one.
        make_private(path)?;
        Self::open_with(path, STEPS)
    }

    /// Opens the file to read it; none if it does not exist or is empty.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and when the file has an older format: only `open` migrates it.
    pub fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        match fs::metadata(path) {
            Ok(found) if found.len() == 0 => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Make { path: path.to_owned(), source }),
        }
        let store = Self { connection: connect(path)?, path: path.to_owned() };
        let known = STEPS.len() as i64;
        match store.format()? {
            Some(format) if format == known => {
                store.set()?;
                Ok(Some(store))
            }
            Some(format) => Err(StoreError::Format { path: path.to_owned(), format, known }),
            None => Ok(None),
        }
    }

    /// Returns an empty store in memory, for tests and trials. Its content is lost when it is dropped.
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from(":memory:");
        let connection = Connection::open_in_memory().map_err(|source| wrong(&path, source))?;
        let store = Self { connection, path };
        store.make(STEPS)?;
        Ok(store)
    }

    fn open_with(path: &Path, steps: &[&str]) -> Result<Self, StoreError> {
        let store = Self { connection: connect(path)?, path: path.to_owned() };
        let known = steps.len() as i64;
        match store.format()? {
            None => {
                store.set()?;
                store.make(steps)?;
            }
            Some(format) if format == known => store.set()?,
            Some(format) if (1..known).contains(&format) => {
                migrate(&store, (format, known), &steps[format as usize..])?;
                drop(store);
                return Self::open_with(path, steps);
            }
            Some(format) => {
                return Err(StoreError::Format { path: path.to_owned(), format, known });
            }
        }
        Ok(store)
    }

    /// Returns the format of the file; none if it is empty. Does not change the file.
    fn format(&self) -> Result<Option<i64>, StoreError> {
        let read = |query: &str| -> Result<i64, StoreError> {
            let read = self.connection.query_row(query, [], |row| row.get(0));
            read.map_err(|source| self.wrong(source))
        };
        let (id, format) = (read("PRAGMA application_id")?, read("PRAGMA user_version")?);
        if read("SELECT count(*) FROM sqlite_schema")? == 0 && (id, format) == (0, 0) {
            return Ok(None);
        }
        if id != APPLICATION {
            return Err(self.damaged("it is a database of something else"));
        }
        Ok(Some(format))
    }

    /// Sets the options for writing the file.
    fn set(&self) -> Result<(), StoreError> {
        let set = self.connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;",
        );
        set.map_err(|source| self.wrong(source))
    }

    /// Creates the tables, unless another process has created them meanwhile.
    fn make(&self, steps: &[&str]) -> Result<(), StoreError> {
        let begin = |connection: &Connection| -> rusqlite::Result<()> {
            let transaction =
                Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let format: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            if format == 0 {
                steps.iter().try_for_each(|step| transaction.execute_batch(step))?;
                transaction.pragma_update(None, "application_id", APPLICATION)?;
                transaction.pragma_update(None, "user_version", steps.len() as i64)?;
            }
            transaction.commit()
        };
        begin(&self.connection).map_err(|source| self.wrong(source))
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path).map_err(|source| wrong(path, source))?;
    connection.busy_timeout(PATIENCE).map_err(|source| wrong(path, source))?;
    Ok(connection)
}

/// Creates the file if it does not exist, and lets only its owner read it.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let options = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    // The umask may have removed some of the mode.
    let made = options.and_then(|file| file.set_permissions(Permissions::from_mode(0o600)));
    made.map_err(|source| StoreError::Make { path: path.to_owned(), source })
}

/// Migrates a file of an older format to the newest one, in one transaction. First puts a copy beside the file, and
/// reads the copy to check it. Changes nothing if another process has migrated the file meanwhile.
fn migrate(store: &Sqlite, (from, to): (i64, i64), steps: &[&str]) -> Result<(), StoreError> {
    let copy = PathBuf::from(format!("{}.before-migration", store.path.display()));
    let make = |source| StoreError::Make { path: copy.clone(), source };
    let behavior = TransactionBehavior::Immediate;
    // No other process writes from here on.
    let lock = connect(&store.path)?;
    let transaction =
        Transaction::new_unchecked(&lock, behavior).map_err(|source| store.wrong(source))?;
    if store.format()? != Some(from) {
        return Ok(());
    }
    if copy.exists() {
        fs::remove_file(&copy).map_err(make)?;
    }
    // SQLite keeps the mode of an empty file that it writes into.
    make_private(&copy)?;
    let into = store.connection.execute("VACUUM INTO ?1", [copy.to_string_lossy()]);
    into.map_err(|source| store.wrong(source))?;
    File::open(&copy).and_then(|file| file.sync_all()).map_err(make)?;
    let before = store.read()?;
    let copied = Sqlite { connection: connect(&copy)?, path: copy.clone() };
    if copied.read()? != before {
        return Err(copied.damaged("the copy before the migration holds something else"));
    }
    let step = || -> rusqlite::Result<()> {
        steps.iter().try_for_each(|step| transaction.execute_batch(step))?;
        transaction.pragma_update(None, "user_version", to)?;
        transaction.commit()
    };
    step().map_err(|source| store.wrong(source))
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::time::SystemTime;

    use super::{STEPS, Sqlite};
    use crate::store::{Backend, StoreError};
    use crate::{Change, Facts, Submission, Update};
    use serde_json::json;

    #[test]
    fn a_file_of_an_older_format_is_migrated_on_a_copy() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("facts.db");
        let update = Update::read(&json!({"version": 3, "ops": [["SET", "/a", 1]]}))?;
        let facts = Facts::open(Box::new(Sqlite::open(&path)?))?;
        facts.submit(&Submission::new(Change::Update(update), "ada"), SystemTime::UNIX_EPOCH)?;
        drop(facts);
        let steps: Vec<&str> =
            STEPS.iter().copied().chain(["CREATE TABLE more (id INTEGER)"]).collect();

        let mut store = Sqlite::open_with(&path, &steps)?;

        assert_eq!(store.load()?.facts.to_value(), json!({"a": 1}));
        assert_eq!((store.load()?.version, store.format()?), (3, Some(steps.len() as i64)));
        drop(store);
        let newer = Sqlite::open(&path).err();
        assert!(matches!(newer, Some(StoreError::Format { format: 2, known: 1, .. })), "{newer:?}");
        let before = folder.path().join("facts.db.before-migration");
        assert_eq!(Sqlite::open(&before)?.load()?.facts.to_value(), json!({"a": 1}));
        Ok(())
    }

    #[test]
    fn a_migration_that_fails_leaves_the_file_as_it_is() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("facts.db");
        drop(Sqlite::open(&path)?);

        let failed = Sqlite::open_with(&path, &[STEPS[0], "CREATE NONSENSE"]);

        assert!(failed.is_err());
        assert_eq!(Sqlite::open(&path)?.load()?.revision, 0);
        Ok(())
    }
}
