//! The file.

use std::path::Path;

pub use crankcase_sqlite::SqliteError as HistoryError;
use crankcase_sqlite::{Format, SqliteFile};
use rusqlite::Connection;

/// The format of the file. Files of the first version have no application id, so all have none.
const FORMAT: Format = Format { content: "history", application: 0, steps: STEPS };

/// The SQL from each version of the tables to the next one.
const STEPS: &[&str] = &[
    "
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
",
    "ALTER TABLE event ADD COLUMN details TEXT;",
];

/// An open history.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) connection: Connection,
    file: SqliteFile,
}

impl Store {
    /// Opens the file, and makes it if it is not there.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the path has too few lifetimes")]
    pub(crate) fn make(path: &Path) -> Result<Self, HistoryError> {
        let file = SqliteFile::new(path, FORMAT);
        let connection = file.write(|update| update.run_steps())?;
        Ok(Self { connection, file })
    }

    /// Opens the file to read it; nothing if it is not there.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, HistoryError> {
        let file = SqliteFile::new(path, FORMAT);
        match file.look() {
            // After an update of the program a history is read before anybody writes it again.
            Err(HistoryError::Older { .. }) => Self::make(path).map(Some),
            looked => Ok(looked?.map(|connection| Self { connection, file })),
        }
    }

    pub(crate) fn wrong(&self, source: rusqlite::Error) -> HistoryError {
        self.file.wrong(source)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_history_of_an_older_version_is_brought_up_to_date() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("history.db");
        let old = Connection::open(&path)?;
        old.execute_batch(STEPS[0])?;
        old.execute_batch(
            "INSERT INTO run (mode, site, began) VALUES ('run', 'site', 1);
             INSERT INTO event VALUES (1, 1, 1, 'changed', 'page', 'file', '', '', NULL, '', 1);
             PRAGMA user_version = 1;",
        )?;
        drop(old);

        let store = Store::read(&path)?.ok_or("there is no history")?;

        let query = "SELECT resource, details FROM event";
        let found: (String, Option<String>) =
            store.connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        assert_eq!(found, ("page".to_owned(), None));
        let version = "PRAGMA user_version";
        let version: i64 = store.connection.query_row(version, [], |row| row.get(0))?;
        assert_eq!(version, 2);
        Ok(())
    }
}
