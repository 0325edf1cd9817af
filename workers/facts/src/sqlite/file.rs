//! Opens, creates and migrates the file of a store.

use std::path::Path;

use crankcase_sqlite::{Format, SqliteFile, is_unwritable};
use rusqlite::{Connection, MAIN_DB};

use crate::sqlite::{Access, Sqlite};
use crate::store::StoreError;

/// The format of the file.
const FORMAT: Format = Format { content: "facts", application: 0x4372_6661, steps: STEPS };

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

/// The ending of the name of the copy that is made before a migration.
const BEFORE_MIGRATION: &str = ".before-migration";

impl Sqlite {
    /// Opens the store. Its file is created by the first commit. While the file cannot be written, because the disk is
    /// full or read-only, the store can be read, and each commit tries again.
    ///
    /// # Errors
    ///
    /// When the folder of the file does not exist, or the file cannot be read, is no store of facts, or was made by a
    /// later version of the program. The file is left unchanged then.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_file(SqliteFile::new(path, FORMAT))
    }

    /// Opens the file to read it; none if it does not exist or is empty.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and when the file has an older format: only `open` migrates it.
    pub fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = SqliteFile::new(path, FORMAT);
        let Some(connection) = file.look()? else { return Ok(None) };
        // SQLite opens a file on a read-only disk to read it, without an error.
        let is_readonly = connection.is_readonly(MAIN_DB).map_err(|source| file.wrong(source))?;
        let access = if is_readonly { Access::Read } else { Access::Write };
        Ok(Some(Self::new(connection, file, access)))
    }

    /// Returns an empty store in memory, for tests and trials. Its content is lost when it is dropped.
    ///
    /// # Errors
    ///
    /// When there is not enough memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::empty(SqliteFile::new(Path::new(":memory:"), FORMAT), Access::Write)
    }

    /// Returns an empty store in memory, with the path of a file.
    fn empty(file: SqliteFile, access: Access) -> Result<Self, StoreError> {
        Ok(Self::new(file.in_memory()?, file, access))
    }

    fn open_file(file: SqliteFile) -> Result<Self, StoreError> {
        if !file.is_there()? {
            file.require_folder()?;
            return Self::empty(file, Access::Absent);
        }
        match Self::to_write(file.clone()) {
            // The first error says why: the file can be neither written nor read.
            Err(error) if is_unwritable(&error) => Self::to_read(file).map_err(|_| error),
            opened => opened,
        }
    }

    fn to_write(file: SqliteFile) -> Result<Self, StoreError> {
        let connection = file.write(|update| -> Result<(), StoreError> {
            if update.before > 0 {
                keep_copy(&file)?;
            }
            update.run_steps().map_err(StoreError::from)
        })?;
        Ok(Self::new(connection, file, Access::Write))
    }

    /// Opens a file that cannot be written.
    fn to_read(file: SqliteFile) -> Result<Self, StoreError> {
        match file.read()? {
            Some(connection) => Ok(Self::new(connection, file, Access::Read)),
            None => Self::empty(file, Access::Read),
        }
    }

    /// Opens a file again that could not be written, or was not there, at the last look.
    pub(super) fn look_again(&mut self) -> Result<(), StoreError> {
        match self.access {
            Access::Write => Ok(()),
            Access::Absent if !self.file.is_there()? => Ok(()),
            Access::Absent | Access::Read => self.reopen(Self::open_file),
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
        open: fn(SqliteFile) -> Result<Self, StoreError>,
    ) -> Result<(), StoreError> {
        let nothing = Connection::open_in_memory().map_err(|source| self.wrong(source))?;
        (self.connection, self.access) = (nothing, Access::Read);
        *self = Self { kept: self.kept, ..open(self.file.clone())? };
        Ok(())
    }
}

/// Copies a file of an older format before its migration, because facts are entered by hand and
/// exist nowhere else. Reads the copy to check it.
fn keep_copy(file: &SqliteFile) -> Result<(), StoreError> {
    let open = |file: &SqliteFile| -> Result<Sqlite, StoreError> {
        Ok(Sqlite::new(file.connect()?, file.clone(), Access::Read))
    };
    let copy = open(&file.copy(BEFORE_MIGRATION)?)?;
    if copy.read()? != open(file)?.read()? {
        return Err(copy.damaged("the copy before the migration holds something else"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::path::Path;
    use std::time::SystemTime;

    use super::{FORMAT, Format, STEPS, Sqlite, SqliteFile};
    use crate::store::{Backend, StoreError};
    use crate::{Change, Facts, Submission, Update};
    use serde_json::json;

    /// The steps to a later format.
    const MORE: &[&str] = &[STEPS[0], "CREATE TABLE more (id INTEGER)"];

    fn with(path: &Path, steps: &'static [&'static str]) -> SqliteFile {
        SqliteFile::new(path, Format { steps, ..FORMAT })
    }

    #[test]
    fn a_file_of_an_older_format_is_migrated_on_a_copy() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("facts.db");
        let update = Update::read(&json!({"version": 3, "ops": [["SET", "/a", 1]]}))?;
        let facts = Facts::open(Box::new(Sqlite::open(&path)?))?;
        facts.submit(&Submission::new(Change::Update(update), "ada"), SystemTime::UNIX_EPOCH)?;
        drop(facts);

        let mut store = Sqlite::open_file(with(&path, MORE))?;

        assert_eq!(store.load()?.facts.to_value(), json!({"a": 1}));
        let format = "PRAGMA user_version";
        let format: i64 = store.connection.query_row(format, [], |row| row.get(0))?;
        assert_eq!((store.load()?.version, format), (3, 2));
        drop(store);
        let newer = Sqlite::open(&path).err();
        assert!(matches!(newer, Some(StoreError::Format { format: 2, known: 1, .. })), "{newer:?}");
        let before = folder.path().join("facts.db.before-migration");
        assert_eq!(Sqlite::open(&before)?.load()?.facts.to_value(), json!({"a": 1}));
        Ok(())
    }

    #[test]
    fn a_reader_of_an_older_format_is_told_what_migrates_it() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("facts.db");
        drop(Sqlite::to_write(with(&path, STEPS))?);

        let older = with(&path, MORE).look().err().ok_or("it was read")?;

        let expected = format!(
            "the facts in {} have format 1; an agent or a change of a fact brings them to format 2",
            path.display()
        );
        assert_eq!(StoreError::from(older).to_string(), expected);
        Ok(())
    }

    #[test]
    fn a_migration_that_fails_leaves_the_file_as_it_is() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("facts.db");
        drop(Sqlite::to_write(with(&path, STEPS))?);
        const WRONG: &[&str] = &[STEPS[0], "CREATE NONSENSE"];

        let failed = Sqlite::open_file(with(&path, WRONG));

        assert!(failed.is_err());
        assert_eq!(Sqlite::open(&path)?.load()?.revision, 0);
        Ok(())
    }
}
