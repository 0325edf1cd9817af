//! SQLite files that a program keeps for itself alone, each in a folder.
//!
//! A [`SqliteFile`] is opened in one of three ways: to [write](SqliteFile::write) it, to
//! [look](SqliteFile::look) at it while others may write it, and to [read](SqliteFile::read) it
//! when it cannot be written. Its [`Format`] says what is in it.
//!
//! # Examples
//!
//! ```
//! use crankcase_sqlite::{Format, SqliteFile};
//!
//! const NOTES: Format = Format {
//!     content: "notes",
//!     application: 0x4372_6e6f,
//!     steps: &["CREATE TABLE note (text TEXT NOT NULL) STRICT"],
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let file = SqliteFile::new(&folder.path().join("notes.db"), NOTES);
//! assert!(file.look()?.is_none());
//!
//! let writer = file.write(|update| update.run_steps())?;
//! writer.execute("INSERT INTO note VALUES ('hello')", [])?;
//!
//! let reader = file.look()?.ok_or("the file was just made")?;
//! let text: String = reader.query_row("SELECT text FROM note", [], |row| row.get(0))?;
//! assert_eq!(text, "hello");
//! # Ok(()) }
//! ```

mod error;
mod file;
mod format;

pub use error::{SqliteError, is_unwritable};
pub use file::{SqliteFile, Update};
pub use format::Format;
