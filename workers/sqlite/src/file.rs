//! A file, and the ways to open it.
//!
//! Invariants:
//! 1. The file, and those that SQLite keeps beside it, are regular files with one name, in a folder
//!    that is opened first, and no symlinks. Only their owner can read them.
//! 2. Each transaction is on disk when it ends, or leaves nothing (write-ahead log, synchronous).
//! 3. A file that cannot be understood is left unchanged.
//! 4. The tables are made, or brought to the newest version, in one transaction.
//! 5. While a connection is open, its process opens the file, and the index of the log, in no other
//!    way than by SQLite. The system takes all locks of a process from a file when the process
//!    closes any descriptor of the file. Then a reader in another process takes itself for the last
//!    user, and removes the log that the connection writes to.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crankcase_workers::{EntryKind, FileError, Folder};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{SqliteError, is_unwritable};
use crate::format::Format;

/// How long a connection waits for the lock of another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits before it tries again, where SQLite does not wait itself.
const PAUSE: Duration = Duration::from_millis(10);

/// The endings of the names of the files that SQLite keeps beside the file.
const BESIDE: &[&str] = &["-wal", "-shm", "-journal"];

/// The mode of a file.
const MODE: u32 = 0o600;

/// The settings of each connection.
const SETTINGS: &str =
    "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF";

/// The options of a connection that only reads: it needs no room for the index of the log. Without
/// a log the file is all that there is, and needs no lock either.
const READING: &str = "mode=ro&readonly_shm=1";
const READING_WITHOUT_LOG: &str = "mode=ro&immutable=1";

/// One statement, so that it sees the file at one moment.
const VERSION: &str = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version";

/// A SQLite file that a program keeps for itself alone. It need not exist.
///
/// All methods that open it block. A connection waits up to 5 s for the lock of another one. One
/// that is to write waits once more, as long again, until it may have a log.
#[derive(Debug, Clone)]
pub struct SqliteFile {
    path: PathBuf,
    format: Format,
}

impl SqliteFile {
    /// Returns a file at a path. Opens nothing.
    pub fn new(path: &Path, format: Format) -> Self {
        Self { path: path.to_owned(), format }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file exists and is not empty.
    ///
    /// # Errors
    ///
    /// When something else is in its place, or the way to it is not safe.
    pub fn is_there(&self) -> Result<bool, SqliteError> {
        match Place::of(self).and_then(|place| place.size("")) {
            Ok(size) => Ok(size > Some(0)),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(self.unmade(error)),
        }
    }

    /// Requires that the folder of the file exists.
    ///
    /// # Errors
    ///
    /// When it does not, or the way to it is not safe.
    pub fn require_folder(&self) -> Result<(), SqliteError> {
        self.place().map(drop)
    }

    /// Opens the file to write it. Makes it, for its owner alone, if it does not exist; its folder
    /// must exist.
    ///
    /// Unless its tables have the newest version, `update` is called in a transaction. It has to call
    /// [`Update::run_steps`], and may work before and after that. The transaction is committed if
    /// `update` succeeds, and changes nothing if it fails.
    ///
    /// # Errors
    ///
    /// When the file cannot be made or written, is damaged, holds something else, or has a later
    /// version; and the error of `update`.
    pub fn write<E: From<SqliteError>>(
        &self,
        update: impl FnOnce(&Update<'_>) -> Result<(), E>,
    ) -> Result<Connection, E> {
        let place = self.place()?;
        // SQLite gives its other files the mode of this one. A file with content may be another
        // program's, and is left as it is until its version was read.
        if self.is_new(&place)? {
            place.make_private()?;
        }
        let connection = place.connect_to_write()?;
        let version = self.version(&connection)?;
        // With a log and its index SQLite opens a file on a read-only disk too, to read it.
        let is_readonly = connection.is_readonly(MAIN_DB).map_err(|source| self.wrong(source))?;
        if is_readonly {
            let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY);
            return Err(self.wrong(rusqlite::Error::SqliteFailure(error, None)).into());
        }
        place.make_private()?;
        self.set_log(&connection, PATIENCE)?;
        if version < self.format.newest() {
            self.update(&connection, update)?;
        }
        Ok(connection)
    }

    /// Opens the file to look at it while others may write it. Changes no content; SQLite may make or
    /// remove the files that it keeps beside the file. Returns none if the file does not exist or has
    /// no tables.
    ///
    /// A file that cannot be written is opened as by [`read`](Self::read). A connection to one that
    /// can be written may write.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is damaged, holds something else, or has another version.
    pub fn look(&self) -> Result<Option<Connection>, SqliteError> {
        if !self.is_there()? {
            return Ok(None);
        }
        match self.connect().and_then(|connection| self.with_tables(connection)) {
            // The first error says why: the file can be neither written nor read.
            Err(error) if is_unwritable(&error) => self.read().map_err(|_| error),
            looked => looked,
        }
    }

    /// Opens a file that cannot be written, because its disk is full or read-only. Returns none if
    /// it has no tables.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look), and when it does not exist.
    pub fn read(&self) -> Result<Option<Connection>, SqliteError> {
        let place = self.place()?;
        // SQLite does not make the index of the log when it only reads. A full disk has room for an
        // empty file. No connection has one that is missing open (invariant 5).
        if matches!(place.size("-shm"), Ok(None)) {
            drop(place.folder.append(place.beside("-shm")));
        }
        let read = |options: &str| {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let connection = place.connect(flags, |path| uri(path, options).into())?;
            self.with_tables(connection)
        };
        // Anything but a missing or an empty file may be a log.
        let is_none = |ending| place.size(ending).is_ok_and(|size| size <= Some(0));
        let has_log = !["-wal", "-journal"].into_iter().all(is_none);
        match read(READING) {
            Err(_) if !has_log => read(READING_WITHOUT_LOG),
            read => read,
        }
    }

    /// Connects to the file, whatever its version is. It must exist.
    ///
    /// # Errors
    ///
    /// When the file cannot be found, or is no database.
    pub fn connect(&self) -> Result<Connection, SqliteError> {
        self.place()?.connect_to_write()
    }

    /// Returns a connection to an empty database in memory, with the tables of the newest version.
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub fn in_memory(&self) -> Result<Connection, SqliteError> {
        let connection = Connection::open_in_memory().map_err(|source| self.wrong(source))?;
        Update { file: self, connection: &connection, before: 0 }.run_steps()?;
        Ok(connection)
    }

    /// Copies the file, whatever its version is, into one beside it, whose name is longer by an
    /// ending; a file of that name is replaced. The copy is on disk when this returns.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or the copy cannot be made.
    pub fn copy(&self, ending: &str) -> Result<Self, SqliteError> {
        let Place { folder, name, .. } = self.place()?;
        let name = with_ending(name, ending);
        let copy = Self::new(&folder.path().join(&name), self.format);
        let unmade = |error| copy.unmade(error);
        let entries = folder.entries().map_err(unmade)?;
        folder.forget(&name).map_err(unmade)?;
        let place = Place { file: &copy, folder, name: &name };
        // SQLite keeps the mode of an empty file that it writes into.
        place.make_private()?;
        let connection = self.connect()?;
        let write = |path: &Path| {
            // The system takes any bytes for a path, and so does SQLite for a text.
            let path = ToSqlOutput::Borrowed(ValueRef::Text(path.as_os_str().as_bytes()));
            connection.execute("VACUUM INTO ?1", [path])
        };
        let written = place.folder.open_by_path(&name, BESIDE, write).map_err(unmade)?;
        written.map_err(|source| self.wrong(source))?;
        let (written, _) = place.folder.open_file(&name).map_err(unmade)?;
        let synced = written.sync_all().map_err(FileError::io("sync", &copy.path));
        synced.map_err(unmade)?;
        entries.sync().map_err(unmade)?;
        Ok(copy)
    }

    /// Returns the error of SQLite as one that names the file.
    pub fn wrong(&self, source: rusqlite::Error) -> SqliteError {
        SqliteError::Use { content: self.format.content, path: self.path.clone(), source }
    }

    /// Returns the error of a file or folder that cannot be made or found as one that names the
    /// file.
    pub fn unmade(&self, error: FileError) -> SqliteError {
        SqliteError::Make { path: self.path.clone(), source: error.into() }
    }

    fn place(&self) -> Result<Place<'_>, SqliteError> {
        Place::of(self).map_err(|error| self.unmade(error))
    }

    /// Returns whether the file is missing or empty.
    fn is_new(&self, place: &Place<'_>) -> Result<bool, SqliteError> {
        Ok(place.size("").map_err(|error| self.unmade(error))? <= Some(0))
    }

    /// Lets the connection write to a log. SQLite would wait at each try while another connection
    /// reads, and not at all while one sets the same for a new file. So only this waits.
    #[expect(clippy::disallowed_methods, reason = "all that opens the file blocks")]
    fn set_log(&self, connection: &Connection, patience: Duration) -> Result<(), SqliteError> {
        let wrong = |source| self.wrong(source);
        connection.busy_timeout(Duration::ZERO).map_err(wrong)?;
        let mut waited = Duration::ZERO;
        loop {
            let set = connection.execute_batch("PRAGMA journal_mode = WAL");
            let code = set.as_ref().err().and_then(rusqlite::Error::sqlite_error_code);
            if code != Some(ErrorCode::DatabaseBusy) || waited >= patience {
                return set.and(connection.busy_timeout(PATIENCE)).map_err(wrong);
            }
            thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }

    /// Returns the connection; none if there are no tables.
    fn with_tables(&self, connection: Connection) -> Result<Option<Connection>, SqliteError> {
        match self.version(&connection)? {
            0 => Ok(None),
            version if version == self.format.newest() => Ok(Some(connection)),
            version => {
                let (content, newest) = (self.format.content, self.format.newest());
                Err(SqliteError::Older { content, path: self.path.clone(), version, newest })
            }
        }
    }

    /// Returns the version of the tables; 0 if there are none. Does not change the file.
    fn version(&self, connection: &Connection) -> Result<i64, SqliteError> {
        let read: rusqlite::Result<(i32, i64, i64)> =
            connection.query_row(VERSION, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        match read.map_err(|source| self.wrong(source))? {
            (0, 0, 0) => Ok(0),
            (id, version, _) if id == self.format.application && version > 0 => {
                let is_known = version <= self.format.newest();
                if is_known { Ok(version) } else { Err(self.other_version(version)) }
            }
            _ => {
                let (content, path) = (self.format.content, self.path.clone());
                Err(SqliteError::Foreign { content, path })
            }
        }
    }

    fn other_version(&self, version: i64) -> SqliteError {
        let (content, newest) = (self.format.content, self.format.newest());
        SqliteError::Version { content, path: self.path.clone(), version, newest }
    }

    /// Calls `update`, unless another process has brought the tables to the newest version
    /// meanwhile.
    fn update<E: From<SqliteError>>(
        &self,
        connection: &Connection,
        update: impl FnOnce(&Update<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let wrong = |source| self.wrong(source);
        let behavior = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(connection, behavior).map_err(wrong)?;
        let before = self.version(&transaction)?;
        if before < self.format.newest() {
            update(&Update { file: self, connection: &transaction, before })?;
        }
        Ok(transaction.commit().map_err(wrong)?)
    }
}

/// An update of a file to the newest version.
#[derive(Debug)]
pub struct Update<'a> {
    file: &'a SqliteFile,
    /// The connection, in the transaction of the update.
    pub connection: &'a Connection,
    /// The version of the tables before; 0 if there are none.
    pub before: i64,
}

impl Update<'_> {
    /// Runs the steps to the newest version.
    ///
    /// # Errors
    ///
    /// When a step fails, as on a full disk.
    pub fn run_steps(&self) -> Result<(), SqliteError> {
        let Self { file: SqliteFile { format, .. }, connection, before } = self;
        let run = || -> rusqlite::Result<()> {
            for step in &format.steps[*before as usize..] {
                connection.execute_batch(step)?;
            }
            connection.pragma_update(None, "application_id", format.application)?;
            connection.pragma_update(None, "user_version", format.newest())
        };
        run().map_err(|source| self.file.wrong(source))
    }
}

/// The folder of a file, and the name of the file in it.
struct Place<'a> {
    file: &'a SqliteFile,
    folder: Folder,
    name: &'a OsStr,
}

impl<'a> Place<'a> {
    /// Opens the folder of a file.
    fn of(file: &'a SqliteFile) -> Result<Self, FileError> {
        let path = &file.path;
        let missing = || FileError::MissingFolder { path: path.clone() };
        let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(missing)?;
        Ok(Self { file, folder: Folder::open(folder)?, name })
    }

    /// Returns the name of a file that SQLite keeps beside the file.
    fn beside(&self, ending: &str) -> OsString {
        with_ending(self.name, ending)
    }

    /// Returns the size of the file, or of one beside it, in bytes; none if it does not exist.
    fn size(&self, ending: &str) -> Result<Option<u64>, FileError> {
        Ok(self.folder.look_for_file(self.beside(ending))?.map(|found| found.size))
    }

    /// Makes the file if it does not exist, and lets only its owner read it and those beside it. What
    /// exists is not opened, because another connection of the process may be open (invariant 5).
    fn make_private(&self) -> Result<(), SqliteError> {
        let make = || {
            // The error of a look says what is in the place of the file.
            if self.folder.look_for_own_file(self.name)?.is_none() {
                drop(self.folder.append(self.name)?);
            }
            // The umask may have removed some of the mode of a new file.
            self.set_mode(self.name)?;
            // SQLite may have made them before, with the mode that the file had.
            for ending in BESIDE {
                match self.set_mode(&self.beside(ending)) {
                    Err(error) if !error.is_missing() => return Err(error),
                    _ => {}
                }
            }
            Ok(())
        };
        make().map_err(|error| self.file.unmade(error))
    }

    fn set_mode(&self, name: &OsStr) -> Result<(), FileError> {
        let (held, path) = (self.folder.hold(name)?, self.folder.path().join(name));
        let found = held.look()?.require(EntryKind::File, &path)?.require_one_link(&path)?;
        if found.mode == MODE { Ok(()) } else { held.set_mode(MODE) }
    }

    fn connect_to_write(&self) -> Result<Connection, SqliteError> {
        // A write-ahead log is read with a lock, which is a write.
        self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE, Path::to_owned)
    }

    /// Connects to the file, by the address that `of` makes of its path.
    fn connect(
        &self,
        flags: OpenFlags,
        of: impl FnOnce(&Path) -> PathBuf,
    ) -> Result<Connection, SqliteError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let open = |path: &Path| -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(of(path), flags)?;
            connection.busy_timeout(PATIENCE)?;
            connection.execute_batch(SETTINGS)?;
            Ok(connection)
        };
        let opened = self.folder.open_by_path(self.name, BESIDE, open);
        let opened = opened.map_err(|error| self.file.unmade(error))?;
        opened.map_err(|source| self.file.wrong(source))
    }
}

fn with_ending(name: &OsStr, ending: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(ending);
    name
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

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use rusqlite::Connection;

    use super::SqliteFile;
    use crate::format::Format;

    #[test]
    fn the_wait_for_a_log_ends_while_another_connection_reads() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("file.db");
        let reader = Connection::open(&path)?;
        reader.execute_batch("CREATE TABLE a (b); BEGIN")?;
        reader.query_row("SELECT count(*) FROM a", [], |row| row.get::<_, i64>(0))?;
        let writer = Connection::open(&path)?;
        writer.busy_timeout(Duration::from_secs(3_600))?;
        let file = SqliteFile::new(&path, Format { content: "a file", application: 1, steps: &[] });

        let (sender, receiver) = mpsc::channel();
        let waiting = thread::spawn(move || {
            let set = file.set_log(&writer, Duration::ZERO);
            let patience = writer.query_row("PRAGMA busy_timeout", [], |row| row.get::<_, i64>(0));
            sender.send((set.is_err(), patience.ok()))
        });

        // It would be an hour.
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok((true, Some(5_000))));
        waiting.join().map_err(|_| "it panicked")??;
        Ok(())
    }
}
