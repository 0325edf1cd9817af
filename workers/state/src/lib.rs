//! The store of records of a state folder, in one SQLite file.
//!
//! [`SqliteStore`] keeps what is known of resources and outlives the process, as
//! [`crankcase_resources::state`] describes it. [`reading`] returns what a plan reads.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//! use crankcase_resources::state::{Notification, Record, Records};
//! use crankcase_state::SqliteStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let notification = Notification::new("server", "page");
//!
//! let records = Records::open(Arc::new(SqliteStore::open(folder.path())?))?;
//! let position = records.push([Record::Pending(notification.clone())]);
//! records.flush(position).await?;
//! drop(records);
//!
//! let records = Records::open(Arc::new(SqliteStore::open(folder.path())?))?;
//! assert!(records.look(|loaded| loaded.pending.contains(&notification)));
//! # Ok(()) }
//! ```

mod error;
mod file;
mod old;
mod store;
mod tables;

pub use crankcase_sqlite::SqliteError;
pub use error::SqliteStoreError;
pub use store::{SqliteStore, reading};
