//! Facts in one SQLite file.
//!
//! Invariants:
//! 1. Each commit is on disk when it returns, or leaves nothing (write-ahead log, synchronous).
//! 2. Only its owner can read the file.
//! 3. A file that cannot be understood is left unchanged.
//! 4. The file exists from the first commit on, and is read also while it cannot be written.
//! 5. Each commit seals the schemas and the document. A seal of an older revision counts for nothing: a program that
//!    knows no seals has committed since.

mod file;
mod history;

use std::time::{Duration, SystemTime};

use crankcase_sqlite::{SqliteError, SqliteFile};
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior, params,
};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::authority::OwnerChanges;
use crate::difference::{Difference, Digest};
use crate::pointer::Pointer;
use crate::schema::Schema;
use crate::sqlite::history::{Counts, Kept};
use crate::store::{Backend, Commit, Document, Entry, OWN, StoreError, Stored};
use crate::tree::Tree;

/// Facts in a file. Several processes may use the file at the same time.
#[derive(Debug)]
pub struct Sqlite {
    /// A connection to the file or, while there is none, to an empty store in memory.
    connection: Connection,
    file: SqliteFile,
    access: Access,
    /// The counts of the history after a revision. None before the first commit of this connection.
    counts: Option<(i64, Counts)>,
    kept: Kept,
}

/// How the file is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// There is no file.
    Absent,
    /// It can be read, and could not be written at the last look.
    Read,
    Write,
}

/// The parts that a file of this format may lack, because an earlier program has made it.
const ADDED: &str = "
    CREATE TABLE IF NOT EXISTS seal (
        name TEXT PRIMARY KEY,
        revision INTEGER NOT NULL,
        digest TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS entry_of_agent ON entry (revision, octet_length(differences))
        WHERE kind = 'own' AND differences <> '[]';
    CREATE INDEX IF NOT EXISTS entry_of_users ON entry (revision) WHERE kind <> 'own';
";

impl Sqlite {
    #[cfg(test)]
    fn keep(&mut self, kept: Kept) {
        self.kept = kept;
    }

    fn new(connection: Connection, file: SqliteFile, access: Access) -> Self {
        Self { connection, file, access, counts: None, kept: Kept::default() }
    }

    fn wrong(&self, source: rusqlite::Error) -> StoreError {
        self.file.wrong(source).into()
    }

    fn damaged(&self, why: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.file.path().to_owned(), why: why.into() }
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
        if !self.is_sealed(SCHEMAS, revision, schemas(&self.connection))? {
            return Err(self.damaged("the schemas are not those that were written last"));
        }
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

    /// Returns whether a part of the store agrees with its seal. Without a seal of this revision it
    /// counts as agreeing.
    fn is_sealed(
        &self,
        name: &str,
        revision: i64,
        found: rusqlite::Result<String>,
    ) -> Result<bool, StoreError> {
        let sealed = || -> rusqlite::Result<Option<String>> {
            let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'seal'";
            if self.connection.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
                return Ok(None);
            }
            let seal = "SELECT digest FROM seal WHERE name = ?1 AND revision = ?2";
            self.connection.query_row(seal, params![name, revision], |row| row.get(0)).optional()
        };
        let (sealed, found) = match (sealed(), found) {
            (Ok(sealed), Ok(found)) => (sealed, found),
            (Err(source), _) | (_, Err(source)) => return Err(self.wrong(source)),
        };
        Ok(sealed.is_none_or(|sealed| sealed == found))
    }

    fn write(&mut self, commit: &Commit) -> rusqlite::Result<bool> {
        let Commit { stored, entry, owners, changes_schema, document } = commit;
        let behavior = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(&self.connection, behavior)?;
        let (version, revision) = (stored.version as i64, stored.revision as i64);
        if self.counts.is_none() {
            transaction.execute_batch(ADDED)?;
        }
        let mut state = transaction.prepare_cached(
            "UPDATE state SET version = ?1, revision = ?2, digest = ?3 WHERE revision = ?2 - 1",
        )?;
        if state.execute(params![version, revision, stored.digest.to_string()])? == 0 {
            return Ok(false);
        }
        let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO fact VALUES (?1, ?2)")?;
        let mut remove = transaction.prepare_cached("DELETE FROM fact WHERE path = ?1")?;
        commit.each_row(|path, value| match value {
            Some(value) => put.execute([path, &to_json(value)]).map(drop),
            None => remove.execute([path]).map(drop),
        })?;
        write_owners(&transaction, owners)?;
        if let Some(path) = changes_schema {
            transaction.execute("DELETE FROM schema WHERE path = ?1", [path.to_string()])?;
            if let Some((_, schema)) = stored.schemas.iter().find(|(at, _)| *at == path) {
                let row = [path.to_string(), schema.owner.clone(), schema.value().to_string()];
                transaction.execute("INSERT INTO schema VALUES (?1, ?2, ?3)", row)?;
            }
        }
        if let Some(Document { version, facts }) = document {
            let row = params![*version as i64, to_json(facts)];
            transaction.execute("INSERT OR REPLACE INTO document VALUES (1, ?1, ?2)", row)?;
        }
        let mut insert = transaction
            .prepare_cached("INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        let differences = to_json(&written(&entry.differences));
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
        seal(&transaction, revision, (changes_schema.is_some(), document.is_some()))?;
        let counts = self.counts.filter(|(last, _)| *last == revision - 1).map(|(_, it)| it);
        let added = (entry.kind == OWN, differences.len() as i64);
        let counts = history::trim(&transaction, counts, added, self.kept)?;
        drop((state, put, remove, insert));
        transaction.commit()?;
        self.counts = Some((revision, counts));
        Ok(true)
    }

    fn entries(&self, before: u64, most: usize) -> rusqlite::Result<Vec<RawEntry>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT revision, version, at, who, why, kind, digest, differences FROM entry
             WHERE revision < ?1 ORDER BY revision DESC LIMIT ?2",
        )?;
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        // A text that is no UTF-8 is damaged, and its entry is found by it.
        let text = |row: &Row<'_>, column: usize| -> rusqlite::Result<String> {
            Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
        };
        let rows = statement.query_map(params![before, most], |row| {
            let why = row.get_ref(4)?.as_bytes_or_null()?;
            Ok(RawEntry {
                entry: Entry {
                    revision: row.get::<_, i64>(0)? as u64,
                    version: row.get::<_, i64>(1)? as u64,
                    at: SystemTime::UNIX_EPOCH,
                    who: text(row, 3)?,
                    why: why.map(|why| String::from_utf8_lossy(why).into_owned()),
                    kind: text(row, 5)?,
                    digest: Digest::default(),
                    differences: Vec::new(),
                },
                at: row.get(2)?,
                digest: text(row, 6)?,
                differences: text(row, 7)?,
            })
        })?;
        let (mut entries, mut size) = (Vec::new(), 0);
        for entry in rows {
            let entry = entry?;
            size += entry.differences.len();
            entries.push(entry);
            if size > LARGEST_PAGE {
                break;
            }
        }
        Ok(entries)
    }

    fn entry(&self, raw: RawEntry) -> Result<Entry, StoreError> {
        let RawEntry { entry, at, digest, differences } = raw;
        let differences = serde_json::from_str(&differences).ok().and_then(|it| read(&it));
        match (time(at), differences, Digest::parse(&digest)) {
            (Some(at), Some(differences), Some(digest)) => {
                Ok(Entry { at, differences, digest, ..entry })
            }
            _ => Err(StoreError::Entry {
                path: self.file.path().to_owned(),
                revision: entry.revision,
                version: entry.version,
            }),
        }
    }
}

/// The names of the seals.
const SCHEMAS: &str = "schemas";
const DOCUMENT: &str = "document";

type Digester = fn(&Connection) -> rusqlite::Result<String>;

/// Writes the owners that have changed.
fn write_owners(transaction: &Transaction<'_>, owners: &OwnerChanges) -> rusqlite::Result<()> {
    for (path, owner) in owners {
        let path = path.to_string();
        match owner {
            Some(owner) => transaction
                .prepare_cached("INSERT OR REPLACE INTO owned VALUES (?1, ?2)")?
                .execute([&path, owner])?,
            None => {
                transaction.prepare_cached("DELETE FROM owned WHERE path = ?1")?.execute([&path])?
            }
        };
    }
    Ok(())
}

/// Seals the schemas and the document of a commit. Computes only the seals of the changed parts, if
/// the seals of the commit before are there.
fn seal(
    transaction: &Transaction<'_>,
    revision: i64,
    (has_schemas, has_document): (bool, bool),
) -> rusqlite::Result<()> {
    let mut keep = transaction
        .prepare_cached("UPDATE seal SET revision = ?1 WHERE name = ?2 AND revision = ?1 - 1")?;
    let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO seal VALUES (?1, ?2, ?3)")?;
    let parts: [(_, _, Digester); 2] =
        [(SCHEMAS, has_schemas, schemas), (DOCUMENT, has_document, the_document)];
    for (name, has_changed, of) in parts {
        if has_changed || keep.execute(params![revision, name])? == 0 {
            put.execute(params![name, revision, of(transaction)?])?;
        }
    }
    Ok(())
}

/// Returns the digest of the schemas.
fn schemas(connection: &Connection) -> rusqlite::Result<String> {
    digest(connection, "SELECT path, owner, schema FROM schema ORDER BY path")
}

/// Returns the digest of the document.
fn the_document(connection: &Connection) -> rusqlite::Result<String> {
    digest(connection, "SELECT CAST(version AS TEXT), '', facts FROM document")
}

/// Returns the digest of rows with three texts each.
fn digest(connection: &Connection, query: &str) -> rusqlite::Result<String> {
    let mut hasher = Sha256::new();
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..3 {
            let text = row.get_ref(column)?.as_str()?;
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
    }
    Ok(base16ct::lower::encode_string(&hasher.finalize()))
}

/// An entry whose time, digest and differences are still as they are stored.
struct RawEntry {
    entry: Entry,
    at: i64,
    digest: String,
    differences: String,
}

/// The size of the entries that are read at a time, in bytes of JSON; one entry may be larger.
const LARGEST_PAGE: usize = 1024 * 1024;

impl Backend for Sqlite {
    fn load(&mut self) -> Result<Stored, StoreError> {
        self.look_again()?;
        // In one transaction, so that all reads see one state of the file.
        let begin =
            |it: &Self, text| it.connection.execute_batch(text).map_err(|source| it.wrong(source));
        begin(self, "BEGIN")?;
        let stored = self.read();
        begin(self, "COMMIT")?;
        stored
    }

    fn revision(&mut self) -> Result<u64, StoreError> {
        self.look_again()?;
        let read = |connection: &Connection| {
            let mut statement = connection.prepare_cached("SELECT revision FROM state")?;
            statement.query_row([], |row| row.get::<_, i64>(0))
        };
        read(&self.connection).map(|revision| revision as u64).map_err(|source| self.wrong(source))
    }

    fn commit(&mut self, commit: &Commit) -> Result<bool, StoreError> {
        self.write_access()?;
        self.write(commit).map_err(|source| {
            if source.sqlite_error_code() == Some(ErrorCode::ReadOnly) {
                self.access = Access::Read;
            }
            self.wrong(source)
        })
    }

    fn log(&mut self, before: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.look_again()?;
        let mut read = Vec::new();
        for raw in self.entries(before, most).map_err(|source| self.wrong(source))? {
            match self.entry(raw) {
                Ok(entry) => read.push(entry),
                Err(error) if read.is_empty() => return Err(error),
                // The entries before the damaged one are whole.
                Err(_) => break,
            }
        }
        Ok(read)
    }

    fn document(&mut self) -> Result<Option<Document>, StoreError> {
        let revision = self.revision()? as i64;
        if !self.is_sealed(DOCUMENT, revision, the_document(&self.connection))? {
            return Err(self.damaged("the document is not the one that was loaded last"));
        }
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

impl From<SqliteError> for StoreError {
    fn from(error: SqliteError) -> Self {
        match error {
            SqliteError::Make { path, source } => Self::Make { path, source },
            SqliteError::Use { path, source, .. } => match source.sqlite_error_code() {
                // Of an unknown code: a missing table or column, or a value of another type.
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
                | None => Self::Damaged { path, why: source.to_string() },
                _ => Self::Use { path, source: source.into() },
            },
            SqliteError::Foreign { path, .. } => {
                Self::Damaged { path, why: "it is a database of something else".to_owned() }
            }
            SqliteError::Older { path, version, newest, .. } => {
                Self::Older { path, format: version, newest }
            }
            SqliteError::Version { path, version, newest, .. } => {
                Self::Format { path, format: version, known: newest }
            }
        }
    }
}

/// The last millisecond of the year 9999: no later time can be written as a text.
const LAST: i64 = 253_402_300_799_999;

fn millis(at: SystemTime) -> i64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(LAST).min(LAST)
}

/// Returns the time that [`millis`] has written; none if it has not.
fn time(millis: i64) -> Option<SystemTime> {
    let millis = u64::try_from(millis).ok().filter(|_| millis <= LAST)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

/// Returns differences as they are written: `[path, before, after]`. `before` and `after` are lists of one value, or
/// empty lists.
fn written(differences: &[Difference]) -> Vec<(String, &[Tree], &[Tree])> {
    let differences = differences.iter();
    differences.map(|it| (it.path.to_string(), it.before.as_slice(), it.after.as_slice())).collect()
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("facts are JSON")
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
