//! Facts in one SQLite file.
//!
//! Invariants:
//! 1. Each commit is on disk when it returns, or leaves nothing (write-ahead log, synchronous).
//! 2. Only its owner can read the file.
//! 3. A file that cannot be understood is left unchanged.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params,
};
use serde_json::Value;

use crate::difference::{Difference, Digest};
use crate::pointer::Pointer;
use crate::schema::Schema;
use crate::store::{Backend, Commit, Document, Entry, KEPT_ENTRIES, StoreError, Stored};
use crate::tree::Tree;

/// The SQL from each format of the file to the next one. The last step makes the format that is written.
const STEPS: &[&str] = &["
    CREATE TABLE state (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        version INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        digest TEXT NOT NULL
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
    INSERT INTO state VALUES (1, 0, 0, '');
"];

/// The application id, which tells a store of facts from other SQLite files.
const APPLICATION: i64 = 0x4372_6661;

/// How long a connection waits for the lock of another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Facts in a file. Several processes may use the file at the same time.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
}

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
                migrate(&store, &steps[format as usize..], known)?;
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

    fn wrong(&self, source: rusqlite::Error) -> StoreError {
        wrong(&self.path, source)
    }

    fn damaged(&self, why: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), why: why.into() }
    }

    /// Returns the rows of a query, with two texts each.
    fn pairs(&self, query: &str) -> Result<Vec<(String, String)>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(query)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|source| self.wrong(source))
    }

    fn pointer(&self, text: &str) -> Result<Pointer, StoreError> {
        text.parse().map_err(|_| self.damaged(format!("{text:?} is no path")))
    }

    fn json(&self, text: &str) -> Result<Value, StoreError> {
        serde_json::from_str(text)
            .map_err(|error| self.damaged(format!("a value is no JSON: {error}")))
    }

    fn read(&self) -> Result<Stored, StoreError> {
        let state = "SELECT version, revision, digest FROM state";
        let (version, revision, digest): (i64, i64, String) = self
            .connection
            .query_row(state, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .map_err(|source| self.wrong(source))?;
        let mut facts = Tree::default();
        for (path, value) in self.pairs("SELECT path, value FROM fact")? {
            let (path, value) = (self.pointer(&path)?, self.json(&value)?);
            let tree = Tree::from_value(value);
            facts.put(&path, tree.map_err(|(_, why)| self.damaged(why))?.0);
        }
        let found = Digest::of(&facts);
        // Before the first commit there is no digest.
        if revision > 0 && Digest::parse(&digest) != Some(found) {
            return Err(self.damaged("the facts are not those that were written last"));
        }
        let mut stored = Stored {
            facts,
            version: version as u64,
            revision: revision as u64,
            digest: found,
            ..Stored::default()
        };
        let owned = self.pairs("SELECT path, owner FROM owned")?.into_iter();
        let owned = owned.map(|(path, owner)| Ok((self.pointer(&path)?, owner)));
        stored.owned = owned.collect::<Result<_, StoreError>>()?;
        for (path, owner) in self.pairs("SELECT path, owner FROM schema")? {
            let schema = "SELECT schema FROM schema WHERE path = ?1";
            let schema: String = self
                .connection
                .query_row(schema, [&path], |row| row.get(0))
                .map_err(|source| self.wrong(source))?;
            let schema = Schema::read(&owner, self.json(&schema)?);
            let schema = schema.map_err(|error| self.damaged(error.to_string()))?;
            stored.schemas = stored.schemas.with(&self.pointer(&path)?, Some(schema));
        }
        Ok(stored)
    }

    fn write(&mut self, commit: &Commit) -> rusqlite::Result<bool> {
        let Commit { stored, entry, owners, changes_schema, document } = commit;
        let behavior = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(&self.connection, behavior)?;
        let (version, revision) = (stored.version as i64, stored.revision as i64);
        let mut state = transaction.prepare_cached(
            "UPDATE state SET version = ?1, revision = ?2, digest = ?3 WHERE revision = ?2 - 1",
        )?;
        if state.execute(params![version, revision, stored.digest.to_string()])? == 0 {
            return Ok(false);
        }
        let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO fact VALUES (?1, ?2)")?;
        let mut remove = transaction.prepare_cached("DELETE FROM fact WHERE path = ?1")?;
        for (path, value) in commit.rows() {
            match value {
                Some(value) => put.execute([path.to_string(), value.to_string()])?,
                None => remove.execute([path.to_string()])?,
            };
        }
        for (path, owner) in owners {
            let path = path.to_string();
            match owner {
                Some(owner) => transaction
                    .prepare_cached("INSERT OR REPLACE INTO owned VALUES (?1, ?2)")?
                    .execute([&path, owner])?,
                None => transaction
                    .prepare_cached("DELETE FROM owned WHERE path = ?1")?
                    .execute([&path])?,
            };
        }
        if let Some(path) = changes_schema {
            transaction.execute("DELETE FROM schema WHERE path = ?1", [path.to_string()])?;
            if let Some((_, schema)) = stored.schemas.iter().find(|(at, _)| *at == path) {
                let row = [path.to_string(), schema.owner.clone(), schema.value().to_string()];
                transaction.execute("INSERT INTO schema VALUES (?1, ?2, ?3)", row)?;
            }
        }
        if let Some(Document { version, facts }) = document {
            let row = params![*version as i64, facts.to_value().to_string()];
            transaction.execute("INSERT OR REPLACE INTO document VALUES (1, ?1, ?2)", row)?;
        }
        let mut insert = transaction
            .prepare_cached("INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        let differences = written(&entry.differences).to_string();
        insert.execute(params![
            revision,
            version,
            millis(entry.at),
            entry.who,
            entry.why,
            entry.kind,
            entry.digest.to_string(),
            differences
        ])?;
        let forget = "DELETE FROM entry WHERE revision <= ?1";
        transaction.prepare_cached(forget)?.execute([revision - KEPT_ENTRIES as i64])?;
        drop((state, put, remove, insert));
        transaction.commit()?;
        Ok(true)
    }

    fn entries(&self, before: u64, most: usize) -> rusqlite::Result<Vec<RawEntry>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT revision, version, at, who, why, kind, digest, differences FROM entry
             WHERE revision < ?1 ORDER BY revision DESC LIMIT ?2",
        )?;
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![before, most as i64], |row| {
            Ok(RawEntry {
                entry: Entry {
                    revision: row.get::<_, i64>(0)? as u64,
                    version: row.get::<_, i64>(1)? as u64,
                    at: SystemTime::UNIX_EPOCH
                        + Duration::from_millis(row.get::<_, i64>(2)? as u64),
                    who: row.get(3)?,
                    why: row.get(4)?,
                    kind: row.get(5)?,
                    digest: Digest::parse(&row.get::<_, String>(6)?).unwrap_or_default(),
                    differences: Vec::new(),
                },
                differences: row.get(7)?,
            })
        })?;
        rows.collect()
    }
}

/// An entry whose differences are still text.
struct RawEntry {
    entry: Entry,
    differences: String,
}

impl Backend for Sqlite {
    fn load(&mut self) -> Result<Stored, StoreError> {
        // In one transaction, so that all reads see one state of the file.
        let begin =
            |it: &Self, text| it.connection.execute_batch(text).map_err(|source| it.wrong(source));
        begin(self, "BEGIN")?;
        let stored = self.read();
        begin(self, "COMMIT")?;
        stored
    }

    fn revision(&mut self) -> Result<u64, StoreError> {
        let read = |connection: &Connection| {
            let mut statement = connection.prepare_cached("SELECT revision FROM state")?;
            statement.query_row([], |row| row.get::<_, i64>(0))
        };
        read(&self.connection).map(|revision| revision as u64).map_err(|source| self.wrong(source))
    }

    fn commit(&mut self, commit: &Commit) -> Result<bool, StoreError> {
        self.write(commit).map_err(|source| self.wrong(source))
    }

    fn log(&mut self, before: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        let entries = self.entries(before, most).map_err(|source| self.wrong(source))?;
        let read = |RawEntry { entry, differences }| {
            let differences = read(&self.json(&differences)?);
            let differences =
                differences.ok_or_else(|| self.damaged("an entry of the history is no such"))?;
            Ok(Entry { differences, ..entry })
        };
        entries.into_iter().map(read).collect()
    }

    fn document(&mut self) -> Result<Option<Document>, StoreError> {
        let found: Option<(i64, String)> = self
            .connection
            .query_row("SELECT version, facts FROM document", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(|source| self.wrong(source))?;
        let Some((version, text)) = found else { return Ok(None) };
        let facts = Tree::from_value(self.json(&text)?).map_err(|(_, why)| self.damaged(why))?;
        Ok(Some(Document { version: version as u64, facts }))
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

fn wrong(path: &Path, source: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { path, why: source.to_string() }
        }
        // A missing table or column, or a value of another type.
        Some(ErrorCode::Unknown) | None => StoreError::Damaged { path, why: source.to_string() },
        _ => StoreError::Use { path, source: source.into() },
    }
}

/// Migrates a file of an older format to the newest one, in one transaction. First puts a copy beside the file, and
/// reads the copy to check it.
fn migrate(store: &Sqlite, steps: &[&str], known: i64) -> Result<(), StoreError> {
    let copy = PathBuf::from(format!("{}.before-migration", store.path.display()));
    let make = |source| StoreError::Make { path: copy.clone(), source };
    let behavior = TransactionBehavior::Immediate;
    // No other process writes from here on.
    let lock = connect(&store.path)?;
    let transaction =
        Transaction::new_unchecked(&lock, behavior).map_err(|source| store.wrong(source))?;
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
        transaction.pragma_update(None, "user_version", known)?;
        transaction.commit()
    };
    step().map_err(|source| store.wrong(source))
}

fn millis(at: SystemTime) -> i64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns differences as JSON: `[path, before, after]`. `before` and `after` are lists of one value, or empty lists.
fn written(differences: &[Difference]) -> Value {
    let side = |tree: &Option<Tree>| Value::Array(tree.iter().map(Tree::to_value).collect());
    let one = |it: &Difference| {
        Value::Array(vec![it.path.to_string().into(), side(&it.before), side(&it.after)])
    };
    differences.iter().map(one).collect()
}

fn read(value: &Value) -> Option<Vec<Difference>> {
    let side = |value: &Value| match &value.as_array()?[..] {
        [] => Some(None),
        [value] => Some(Some(Tree::from_value(value.clone()).ok()?)),
        _ => None,
    };
    let one = |value: &Value| match &value.as_array()?[..] {
        [path, before, after] => {
            let path = path.as_str()?.parse().ok()?;
            Some(Difference { path, before: side(before)?, after: side(after)? })
        }
        _ => None,
    };
    value.as_array()?.iter().map(one).collect()
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
