//! Opens, creates and migrates the file of a store.
//!
//! Invariants:
//! 1. The file, and those that SQLite keeps beside it, are regular files in a folder that is opened first, and no
//!    symlinks.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crankcase_workers::{FileError, Folder};
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};

use crate::sqlite::{Access, Sqlite, wrong};
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

/// The options of a connection that only reads: it needs no room for the index of the log. Without a log the file is
/// all that there is, and needs no lock either.
const READING: &str = "mode=ro&readonly_shm=1";
const READING_WITHOUT_LOG: &str = "mode=ro&immutable=1";

/// The endings of the names of the files that SQLite keeps beside the file.
const BESIDE: &[&str] = &["-wal", "-shm", "-journal"];

impl Sqlite {
    /// Opens the store. Its file is created by the first commit. While the file cannot be written, because the disk is
    /// full or read-only, the store can be read, and each commit tries again.
    ///
    /// # Errors
    ///
    /// When the folder of the file does not exist, or the file cannot be read, is no store of facts, or was made by a
    /// later version of the program. The file is left unchanged then.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, STEPS)
    }

    /// Opens the file to read it; none if it does not exist or is empty.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and when the file has an older format: only `open` migrates it.
    pub fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        if !is_there(path)? {
            return Ok(None);
        }
        let found = || {
            let store = Self::new(connect(path)?, path, Access::Write);
            Ok(if store.has_format(STEPS)? { Some(store.set()?) } else { None })
        };
        readable(found(), || Self::to_read(path, STEPS).map(Some))
    }

    /// Returns an empty store in memory, for tests and trials. Its content is lost when it is dropped.
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::empty(Path::new(":memory:"), STEPS, Access::Write)
    }

    /// Returns an empty store in memory, with the path of a file.
    fn empty(path: &Path, steps: &[&str], access: Access) -> Result<Self, StoreError> {
        let connection = Connection::open_in_memory().map_err(|source| wrong(path, source))?;
        let store = Self::new(connection, path, access);
        store.make(steps)?;
        Ok(store)
    }

    fn open_with(path: &Path, steps: &[&str]) -> Result<Self, StoreError> {
        if is_there(path)? {
            return readable(Self::to_write(path, steps), || Self::to_read(path, steps));
        }
        Place::of(path)?;
        Self::empty(path, steps, Access::Absent)
    }

    /// Opens a file again that could not be written, or was not there, at the last look.
    pub(super) fn look_again(&mut self) -> Result<(), StoreError> {
        match self.access {
            Access::Write => Ok(()),
            Access::Absent if !is_there(&self.path)? => Ok(()),
            Access::Absent | Access::Read => self.reopen(Self::open_with),
        }
    }

    /// Opens the file to write it, unless it is open for that. Creates it if it does not exist.
    pub(super) fn write_access(&mut self) -> Result<(), StoreError> {
        if self.access == Access::Write { Ok(()) } else { self.reopen(Self::to_write) }
    }

    /// Closes the file, and then opens it: SQLite would give a second connection of the process no more rights than the
    /// first. When it cannot be opened, the next look opens it.
    fn reopen(
        &mut self,
        open: fn(&Path, &[&str]) -> Result<Self, StoreError>,
    ) -> Result<(), StoreError> {
        let nothing = Connection::open_in_memory().map_err(|source| self.wrong(source))?;
        (self.connection, self.access) = (nothing, Access::Read);
        *self = Self { kept: self.kept, ..open(&self.path, STEPS)? };
        Ok(())
    }

    fn to_write(path: &Path, steps: &[&str]) -> Result<Self, StoreError> {
        // SQLite gives its other files the mode of this one.
        let place = Place::of(path)?;
        make_private(&place, place.name)?;
        let store = Self::new(connect(path)?, path, Access::Write);
        let known = steps.len() as i64;
        match store.format()? {
            None => {
                let store = store.set()?;
                store.make(steps)?;
                Ok(store)
            }
            Some(format) if (1..known).contains(&format) => {
                migrate(&store, (format, known), &steps[format as usize..])?;
                drop(store);
                Self::to_write(path, steps)
            }
            Some(_) => {
                store.has_format(steps)?;
                store.set()
            }
        }
    }

    /// Opens a file that cannot be written.
    fn to_read(path: &Path, steps: &[&str]) -> Result<Self, StoreError> {
        let place = Place::of(path)?;
        // SQLite does not create the index of the log when it only reads. A full disk has room for an empty file.
        drop(place.folder.append(place.beside("-shm")));
        let read = |options: &str| {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = place.connect(flags, |file| uri(file, options).into())?;
            let store = Self::new(connection, path, Access::Read);
            match store.has_format(steps)? {
                true => Ok(store),
                false => Self::empty(path, steps, Access::Read),
            }
        };
        // Anything but a missing or an empty file may be a log.
        let is_none = |suffix| place.size(&place.beside(suffix)).is_ok_and(|it| it <= Some(0));
        let has_log = !["-wal", "-journal"].into_iter().all(is_none);
        match read(READING) {
            Err(_) if !has_log => read(READING_WITHOUT_LOG),
            read => read,
        }
    }

    /// Returns whether the file has the tables of the newest format; false if it is empty.
    fn has_format(&self, steps: &[&str]) -> Result<bool, StoreError> {
        let known = steps.len() as i64;
        match self.format()? {
            Some(format) if format == known => Ok(true),
            Some(format) => Err(StoreError::Format { path: self.path.clone(), format, known }),
            None => Ok(false),
        }
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
    fn set(mut self) -> Result<Self, StoreError> {
        let set = self.connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;",
        );
        set.map_err(|source| self.wrong(source))?;
        // SQLite opens a file on a read-only disk to read it, without an error.
        if self.connection.is_readonly(MAIN_DB).map_err(|source| self.wrong(source))? {
            self.access = Access::Read;
        }
        Ok(self)
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

/// A file, and the folder that it is in.
struct Place<'a> {
    /// The path that errors name.
    path: &'a Path,
    folder: Folder,
    name: &'a OsStr,
}

impl<'a> Place<'a> {
    /// Opens the folder of a file. The file need not exist.
    fn find(path: &'a Path) -> Result<Self, FileError> {
        let missing = || FileError::MissingFolder { path: path.to_owned() };
        let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(missing)?;
        Ok(Self { path, folder: Folder::open(folder)?, name })
    }

    fn of(path: &'a Path) -> Result<Self, StoreError> {
        Self::find(path).map_err(|error| unmade(path, error))
    }

    /// Returns the name of one of the other files that SQLite keeps.
    fn beside(&self, suffix: &str) -> OsString {
        let mut name = self.name.to_owned();
        name.push(suffix);
        name
    }

    /// Returns the size of a file in the folder, in bytes; none if it does not exist.
    fn size(&self, name: &OsStr) -> Result<Option<u64>, StoreError> {
        let found = self.folder.look_for_file(name);
        Ok(found.map_err(|error| unmade(self.path, error))?.map(|found| found.size))
    }

    /// Connects to the file, by a text that `of` makes of its path.
    fn connect(
        &self,
        flags: OpenFlags,
        of: impl FnOnce(&Path) -> PathBuf,
    ) -> Result<Connection, StoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let open = |path: &Path| Connection::open_with_flags(of(path), flags);
        let opened = self.folder.open_by_path(self.name, BESIDE, open);
        let connection = opened.map_err(|error| unmade(self.path, error))?;
        let connection = connection.and_then(|it| it.busy_timeout(PATIENCE).map(|()| it));
        connection.map_err(|source| wrong(self.path, source))
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    Place::of(path)?.connect(OpenFlags::default(), Path::to_owned)
}

/// Returns the error of a file that cannot be made or found.
fn unmade(path: &Path, error: FileError) -> StoreError {
    StoreError::Make { path: path.to_owned(), source: error.into() }
}

/// Returns whether the file exists and is not empty.
fn is_there(path: &Path) -> Result<bool, StoreError> {
    match Place::find(path) {
        Ok(place) => Ok(place.size(place.name)? > Some(0)),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(unmade(path, error)),
    }
}

/// Returns the store, or the one that can only be read if the reason of the failure is that the file cannot be written.
fn readable<T>(
    opened: Result<T, StoreError>,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match opened {
        // The first error says why: the file can be neither written nor read.
        Err(error) if is_unwritable(&error) => read().map_err(|_| error),
        opened => opened,
    }
}

fn is_unwritable(error: &StoreError) -> bool {
    match error {
        StoreError::Make { source, .. } => matches!(
            source.kind(),
            ErrorKind::StorageFull
                | ErrorKind::QuotaExceeded
                | ErrorKind::ReadOnlyFilesystem
                | ErrorKind::PermissionDenied
        ),
        StoreError::Use { source, .. } => {
            let source = source.downcast_ref::<rusqlite::Error>();
            matches!(
                source.and_then(rusqlite::Error::sqlite_error_code),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::PermissionDenied
                )
            )
        }
        _ => false,
    }
}

/// Returns the address of a file, with options.
fn uri(path: &Path, options: &str) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            byte => write!(uri, "%{byte:02x}").expect("a text takes what is written"),
        }
    }
    format!("{uri}?{options}")
}

/// Creates the file if it does not exist, and lets only its owner read it.
fn make_private(place: &Place<'_>, name: &OsStr) -> Result<(), StoreError> {
    let file = place.folder.append(name).map_err(|error| unmade(place.path, error))?;
    // The umask may have removed some of the mode.
    let made = file.set_permissions(Permissions::from_mode(0o600));
    made.map_err(|source| StoreError::Make { path: place.path.to_owned(), source })
}

/// Migrates a file of an older format to the newest one, in one transaction. First puts a copy beside the file, and
/// reads the copy to check it. Changes nothing if another process has migrated the file meanwhile.
fn migrate(store: &Sqlite, (from, to): (i64, i64), steps: &[&str]) -> Result<(), StoreError> {
    let place = Place::of(&store.path)?;
    let name = place.beside(".before-migration");
    let copy = place.folder.path().join(&name);
    let make = |error: FileError| unmade(&copy, error);
    let behavior = TransactionBehavior::Immediate;
    // No other process writes from here on.
    let lock = connect(&store.path)?;
    let transaction =
        Transaction::new_unchecked(&lock, behavior).map_err(|source| store.wrong(source))?;
    if store.format()? != Some(from) {
        return Ok(());
    }
    place.folder.forget(&name).map_err(make)?;
    // SQLite keeps the mode of an empty file that it writes into.
    make_private(&place, &name)?;
    let write = |path: &Path| store.connection.execute("VACUUM INTO ?1", [path.to_string_lossy()]);
    let written = place.folder.open_by_path(&name, BESIDE, write).map_err(make)?;
    written.map_err(|source| store.wrong(source))?;
    let synced = place.folder.open_file(&name).map_err(make)?.0.sync_all();
    synced.map_err(|source| StoreError::Make { path: copy.clone(), source })?;
    let before = store.read()?;
    let copied = Sqlite::new(connect(&copy)?, &copy, Access::Read);
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
        drop(Sqlite::to_write(&path, STEPS)?);

        let failed = Sqlite::open_with(&path, &[STEPS[0], "CREATE NONSENSE"]);

        assert!(failed.is_err());
        assert_eq!(Sqlite::open(&path)?.load()?.revision, 0);
        Ok(())
    }
}
