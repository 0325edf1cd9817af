//! The tables, and what records change in them.

use std::sync::Arc;

use crankcase_resources::state::{Document, Keep, Key, Loaded, Notification, Record, Topic};
use rusqlite::types::Type;
use rusqlite::{
    Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params_from_iter,
};

/// The SQL from each version of the tables to the next one.
pub(crate) const STEPS: &[&str] = &["
    CREATE TABLE notification (
        target TEXT NOT NULL,
        source TEXT NOT NULL,
        PRIMARY KEY (target, source)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE kept (
        resource TEXT PRIMARY KEY,
        type TEXT NOT NULL,
        thing TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE document (
        topic TEXT NOT NULL,
        name TEXT NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (topic, name)
    ) STRICT;
    CREATE TABLE taken_over (path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
"];

/// Writes records in one transaction.
pub(crate) fn write(connection: &Connection, records: &[Record]) -> rusqlite::Result<()> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    records.iter().try_for_each(|record| put(&transaction, record))?;
    transaction.commit()
}

/// Writes one record.
pub(crate) fn put(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let execute = |sql: &str, row: &[&str]| {
        connection.prepare_cached(sql)?.execute(params_from_iter(row)).map(drop)
    };
    match record {
        Record::Pending(Notification { target, source }) => {
            execute("INSERT OR REPLACE INTO notification VALUES (?1, ?2)", &[target, source])
        }
        Record::Acknowledged(Notification { target, source }) => {
            execute("DELETE FROM notification WHERE target = ?1 AND source = ?2", &[target, source])
        }
        Record::Kept { resource, keep: Keep { kind, thing } } => {
            execute("INSERT OR REPLACE INTO kept VALUES (?1, ?2, ?3)", &[resource, kind, thing])
        }
        Record::Released { resource } => {
            execute("DELETE FROM kept WHERE resource = ?1", &[resource])
        }
        Record::Stored { key: Key { topic, name }, document } => execute(
            "INSERT OR REPLACE INTO document VALUES (?1, ?2, ?3)",
            &[topic.word(), name, document.as_str()],
        ),
        Record::Removed { key: Key { topic, name } } => {
            execute("DELETE FROM document WHERE topic = ?1 AND name = ?2", &[topic.word(), name])
        }
    }
}

/// Reads what all records come to, as it is at one moment.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Loaded> {
    let transaction = connection.unchecked_transaction()?;
    let mut loaded = Loaded::default();
    each(&transaction, "SELECT target, source FROM notification", |row| {
        loaded.pending.insert(Notification { target: row.get(0)?, source: row.get(1)? });
        Ok(())
    })?;
    each(&transaction, "SELECT resource, type, thing FROM kept", |row| {
        loaded.kept.insert(row.get(0)?, Keep { kind: row.get(1)?, thing: row.get(2)? });
        Ok(())
    })?;
    // The index has both columns, so no document is read.
    each(&transaction, "SELECT topic, name FROM document", |row| {
        let word: String = row.get(0)?;
        let topic = Topic::of_word(&word);
        let topic = topic.ok_or(rusqlite::Error::InvalidColumnType(0, word, Type::Text))?;
        loaded.documents.insert(Key { topic, name: row.get(1)? });
        Ok(())
    })?;
    transaction.commit()?;
    Ok(loaded)
}

/// Reads a document; none if there is none.
pub(crate) fn document(
    connection: &Connection,
    Key { topic, name }: &Key,
) -> rusqlite::Result<Option<Document>> {
    let query = "SELECT document FROM document WHERE topic = ?1 AND name = ?2";
    let mut statement = connection.prepare_cached(query)?;
    let text: Option<Arc<str>> =
        statement.query_row([topic.word(), name], |row| row.get(0)).optional()?;
    let document = text.map(Document::from_text).transpose();
    document
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

/// Returns the files that were taken over and may still be there, as paths in the state folder.
pub(crate) fn taken_over(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut paths = Vec::new();
    each(connection, "SELECT path FROM taken_over", |row| {
        paths.push(row.get(0)?);
        Ok(())
    })?;
    Ok(paths)
}

fn each(
    connection: &Connection,
    query: &str,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}
