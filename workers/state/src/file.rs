//! Opens the file, and makes it.
//!
//! Invariants:
//! 1. The file, and those that SQLite keeps beside it, are regular files in a folder that is opened
//!    first, and no symlinks. Only their owner can read them.
//! 2. A file that cannot be understood is left unchanged.
//! 3. The tables are made in the transaction that takes over what an earlier version has left. The
//!    files of that version are removed after it is on disk.
//! 4. While a connection is open, its process opens and closes the file, and the index of the log,
//!    in no other way. The system takes all locks of a process from a file when the process closes
//!    any descriptor of the file. Then a reader in another process takes itself for the last user,
//!    and removes the log that the connection writes to.

use std::error::Error;
use std::fmt::Write;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crankcase_workers::{FileError, Folder};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::SqliteStoreError;
use crate::old;
use crate::tables::{STEPS, VERSION, put, taken_over};

/// The name of the file.
const NAME: &str = "state.db";

/// The endings of the names of the files that SQLite keeps beside the file.
const BESIDE: &[&str] = &["-wal", "-shm", "-journal"];

/// The application id, which tells the records from other SQLite files.
const APPLICATION: i64 = 0x4372_7374;

/// How long a connection waits for the lock of another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// The options of a connection that only reads: it needs no room for the index of the log. Without
/// a log the file is all that there is, and needs no lock either.
const READING: &str = "mode=ro&readonly_shm=1";
const READING_WITHOUT_LOG: &str = "mode=ro&immutable=1";

/// The file of a state folder.
#[derive(Debug)]
pub(crate) struct StateFile {
    state: PathBuf,
    path: PathBuf,
}

impl StateFile {
    pub(crate) fn new(state: &Path) -> Self {
        Self { state: state.to_owned(), path: state.join(NAME) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of the file; none if it does not exist.
    pub(crate) fn folder(&self) -> Result<Option<Folder>, SqliteStoreError> {
        match Folder::open(&self.state) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(self.unmade(error)),
        }
    }

    /// Returns whether the file exists and is not empty.
    pub(crate) fn is_there(&self, folder: &Folder) -> Result<bool, SqliteStoreError> {
        let found = folder.look_for_file(NAME).map_err(|error| self.unmade(error))?;
        Ok(found.is_some_and(|found| found.size > 0))
    }

    /// Opens the file to write it. Makes it if it does not exist, and takes over what an earlier
    /// version has left.
    pub(crate) fn to_write(&self) -> Result<Connection, SqliteStoreError> {
        let folder = Folder::make(&self.state).map_err(|error| self.unmade(error))?;
        folder.make_private().map_err(|error| self.unmade(error))?;
        self.make(&folder)?;
        let connection = self.connect_to_write(&folder)?;
        let version = self.version(&connection)?;
        let set = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                   PRAGMA trusted_schema = OFF;";
        connection.execute_batch(set).map_err(|source| self.wrong(source))?;
        if version < VERSION {
            self.bring_up_to_date(&connection, &folder)?;
        }
        self.remove_old(&connection, &folder)?;
        Ok(connection)
    }

    /// Makes the file if it does not exist. Only its owner can read it then. Closes it again, before
    /// there is a connection (invariant 4).
    fn make(&self, folder: &Folder) -> Result<(), SqliteStoreError> {
        let file = folder.append(NAME).map_err(|error| self.unmade(error))?;
        // SQLite gives its other files the mode of this one. The umask may have removed some of it.
        let made = file.set_permissions(Permissions::from_mode(0o600));
        made.map_err(|source| SqliteStoreError::Make { path: self.path.clone(), source })
    }

    /// Opens the file to read it while another process may write it. Returns none if it has no
    /// tables.
    pub(crate) fn to_look(&self) -> Result<Option<Connection>, SqliteStoreError> {
        let Some(folder) = self.folder()? else { return Ok(None) };
        if !self.is_there(&folder)? {
            return Ok(None);
        }
        let looking = || {
            let connection = self.connect_to_write(&folder)?;
            self.with_tables(connection)
        };
        match looking() {
            Err(error) if error.is_unwritable() => self.to_read().map_err(|_| error),
            looking => looking,
        }
    }

    /// Opens a file that cannot be written. Returns none if it has no tables.
    pub(crate) fn to_read(&self) -> Result<Option<Connection>, SqliteStoreError> {
        let Some(folder) = self.folder()? else { return Ok(None) };
        // SQLite does not make the index of the log when it only reads. A full disk has room for an
        // empty file. No connection is open yet (invariant 4).
        drop(folder.append(format!("{NAME}-shm")));
        let read = |options: &str| {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = self.connect(&folder, flags, |file| uri(file, options).into())?;
            self.with_tables(connection)
        };
        // Anything but a missing or an empty file may be a log.
        let is_none = |ending: &str| {
            let found = folder.look(format!("{NAME}{ending}"));
            found.is_ok_and(|found| found.is_none_or(|found| found.size == 0))
        };
        let has_log = !["-wal", "-journal"].into_iter().all(is_none);
        match read(READING) {
            Err(_) if !has_log => read(READING_WITHOUT_LOG),
            read => read,
        }
    }

    fn connect_to_write(&self, folder: &Folder) -> Result<Connection, SqliteStoreError> {
        // A write-ahead log is read with a lock, which is a write.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        self.connect(folder, flags, Path::to_owned)
    }

    /// Connects to the file, by a text that `of` makes of its path.
    fn connect(
        &self,
        folder: &Folder,
        flags: OpenFlags,
        of: impl FnOnce(&Path) -> PathBuf,
    ) -> Result<Connection, SqliteStoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let open = |path: &Path| Connection::open_with_flags(of(path), flags);
        let opened = folder.open_by_path(NAME, BESIDE, open).map_err(|error| self.unmade(error))?;
        let connection = opened.and_then(|it| it.busy_timeout(PATIENCE).map(|()| it));
        connection.map_err(|source| self.wrong(source))
    }

    /// Returns a connection that only reads; none if there are no tables.
    fn with_tables(&self, connection: Connection) -> Result<Option<Connection>, SqliteStoreError> {
        match self.version(&connection)? {
            0 => Ok(None),
            VERSION => Ok(Some(connection)),
            version => Err(SqliteStoreError::Version { path: self.path.clone(), version }),
        }
    }

    /// Returns the version of the tables; 0 if there are none. Does not change the file.
    fn version(&self, connection: &Connection) -> Result<i64, SqliteStoreError> {
        let read = |query: &str| -> Result<i64, SqliteStoreError> {
            let read = connection.query_row(query, [], |row| row.get(0));
            read.map_err(|source| self.wrong(source))
        };
        let (id, version) = (read("PRAGMA application_id")?, read("PRAGMA user_version")?);
        let path = self.path.clone();
        match (id, version) {
            (0, 0) if read("SELECT count(*) FROM sqlite_schema")? == 0 => Ok(0),
            (APPLICATION, 1..=VERSION) => Ok(version),
            (APPLICATION, version) => Err(SqliteStoreError::Version { path, version }),
            _ => Err(SqliteStoreError::Foreign { path }),
        }
    }

    /// Makes the tables or brings them up to date, unless another process has done it meanwhile.
    /// Takes over what an earlier version has left, if there were none.
    fn bring_up_to_date(
        &self,
        connection: &Connection,
        folder: &Folder,
    ) -> Result<(), SqliteStoreError> {
        let wrong = |source| self.wrong(source);
        let behavior = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(connection, behavior).map_err(wrong)?;
        let version = self.version(&transaction)?;
        let steps = STEPS.iter().skip(usize::try_from(version).unwrap_or(STEPS.len()));
        for step in steps {
            transaction.execute_batch(step).map_err(wrong)?;
        }
        if version == 0 {
            let paths = old::read(folder, &mut |record| put(&transaction, &record).map_err(wrong))?;
            let insert = "INSERT INTO taken_over VALUES (?1)";
            for path in paths {
                transaction.execute(insert, [path]).map_err(wrong)?;
            }
            transaction.pragma_update(None, "application_id", APPLICATION).map_err(wrong)?;
        }
        transaction.pragma_update(None, "user_version", VERSION).map_err(wrong)?;
        transaction.commit().map_err(wrong)
    }

    /// Removes the files that were taken over. What cannot be removed is tried again the next time.
    fn remove_old(&self, connection: &Connection, folder: &Folder) -> Result<(), SqliteStoreError> {
        let paths = taken_over(connection).map_err(|source| self.wrong(source))?;
        if paths.is_empty() {
            return Ok(());
        }
        if let Err(error) = old::remove(folder, &paths) {
            let (path, error): (_, &dyn Error) = (&self.state, &error);
            tracing::warn!(?path, error, "cannot remove what an earlier version has left");
            return Ok(());
        }
        let forgotten = connection.execute("DELETE FROM taken_over", []);
        forgotten.map(drop).map_err(|source| self.wrong(source))
    }

    pub(crate) fn wrong(&self, source: rusqlite::Error) -> SqliteStoreError {
        SqliteStoreError::Use { path: self.path.clone(), source }
    }

    /// Returns the error of a file that cannot be made or found.
    fn unmade(&self, error: FileError) -> SqliteStoreError {
        SqliteStoreError::Make { path: self.path.clone(), source: error.into() }
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
