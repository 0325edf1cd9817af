//! Helpers that the tests share.

use std::error::Error;
use std::path::Path;

use crankcase_sqlite::{Format, SqliteError, SqliteFile};
use rusqlite::Connection;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;

pub(crate) const APPLICATION: i32 = 0x4372_6e6f;

pub(crate) const NOTES: Format = Format {
    content: "notes",
    application: APPLICATION,
    steps: &["CREATE TABLE note (text TEXT NOT NULL) STRICT"],
};

/// The format of the next version of the program.
pub(crate) const LATER: Format =
    Format { steps: &[NOTES.steps[0], "ALTER TABLE note ADD COLUMN author TEXT"], ..NOTES };

/// Returns the file of the notes in a folder.
pub(crate) fn notes(folder: &Path) -> SqliteFile {
    SqliteFile::new(&folder.join("notes.db"), NOTES)
}

#[expect(clippy::redundant_closure_for_method_calls, reason = "the path has too few lifetimes")]
pub(crate) fn write(file: &SqliteFile) -> Result<Connection, SqliteError> {
    file.write(|update| update.run_steps())
}

/// Adds a note.
pub(crate) fn add(connection: &Connection, text: &str) -> TestResult {
    connection.execute("INSERT INTO note (text) VALUES (?1)", [text])?;
    Ok(())
}

/// Returns the notes that a connection sees, in order.
pub(crate) fn texts(connection: &Connection) -> TestResult<Vec<String>> {
    let mut statement = connection.prepare("SELECT text FROM note ORDER BY rowid")?;
    let texts = statement.query_map([], |row| row.get(0))?;
    Ok(texts.collect::<rusqlite::Result<_>>()?)
}

/// Returns the notes that a look at a file finds.
pub(crate) fn looked(file: &SqliteFile) -> TestResult<Vec<String>> {
    texts(&file.look()?.ok_or("there are no notes")?)
}
