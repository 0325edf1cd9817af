//! The file, and how it takes over what an earlier version has left.
//!
//! Invariant: the tables are made in the transaction that takes over what an earlier version has
//! left. The files of that version are removed after it is on disk.

use std::error::Error;
use std::path::{Path, PathBuf};

use crankcase_sqlite::{Format, SqliteFile, Update};
use crankcase_workers::Folder;
use rusqlite::Connection;

use crate::error::SqliteStoreError;
use crate::old;
use crate::tables::{STEPS, put, taken_over};

/// The name of the file.
const NAME: &str = "state.db";

/// The format of the file.
const FORMAT: Format = Format { content: "records", application: 0x4372_7374, steps: STEPS };

/// A state folder, and its file.
#[derive(Debug)]
pub(crate) struct StateFolder {
    path: PathBuf,
    pub(crate) file: SqliteFile,
}

impl StateFolder {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: SqliteFile::new(&path.join(NAME), FORMAT) }
    }

    /// Opens the folder; none if it does not exist.
    pub(crate) fn open(&self) -> Result<Option<Folder>, SqliteStoreError> {
        match Folder::open(&self.path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(self.file.unmade(error).into()),
        }
    }

    /// Opens the file to write it. Makes it, and the folder, if they do not exist, and takes over
    /// what an earlier version has left.
    pub(crate) fn to_write(&self) -> Result<Connection, SqliteStoreError> {
        let made =
            Folder::make(&self.path).and_then(|folder| folder.make_private().map(|()| folder));
        let folder = made.map_err(|error| self.file.unmade(error))?;
        let connection = self.file.write(|update| self.update(update, &folder))?;
        self.remove_old(&connection, &folder)?;
        Ok(connection)
    }

    /// Makes the tables or brings them up to date. Takes over what an earlier version has left, if
    /// there were none.
    fn update(&self, update: &Update<'_>, folder: &Folder) -> Result<(), SqliteStoreError> {
        update.run_steps()?;
        if update.before > 0 {
            return Ok(());
        }
        let wrong = |source| SqliteStoreError::from(self.file.wrong(source));
        let connection = update.connection;
        let paths = old::read(folder, &mut |record| put(connection, &record).map_err(wrong))?;
        let insert = "INSERT INTO taken_over VALUES (?1)";
        for path in paths {
            connection.execute(insert, [path]).map_err(wrong)?;
        }
        Ok(())
    }

    /// Removes the files that were taken over. What cannot be removed is tried again the next time.
    fn remove_old(&self, connection: &Connection, folder: &Folder) -> Result<(), SqliteStoreError> {
        let wrong = |source| self.file.wrong(source);
        let paths = taken_over(connection).map_err(wrong)?;
        if paths.is_empty() {
            return Ok(());
        }
        if let Err(error) = old::remove(folder, &paths) {
            let (path, error): (_, &dyn Error) = (&self.path, &error);
            tracing::warn!(?path, error, "cannot remove what an earlier version has left");
            return Ok(());
        }
        connection.execute("DELETE FROM taken_over", []).map_err(wrong)?;
        Ok(())
    }
}
