//! What outlives the process: records, and the store that keeps them.
//!
//! A [`Record`] is a change of what is known of the resources, such as a notification that is
//! pending from now on. A [`Store`] keeps what all records come to. [`Records`] stands in front of
//! a store: it has the order of the records, and knows which of them are on disk.
//!
//! # Examples
//!
//! ```
//! use crankcase_resources::state::{Notification, Record, Records};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let records = Records::default();
//! let notification = Notification::new("server", "page");
//!
//! let position = records.push([Record::Pending(notification.clone())]);
//! records.flush(position).await?;
//!
//! assert!(records.look(|loaded| loaded.pending.contains(&notification)));
//! # Ok(()) }
//! ```

mod document;
pub(crate) mod facilities;
pub(crate) mod hold;
mod memory;
mod record;
mod records;
pub(crate) mod reversal;
mod store;
pub(crate) mod world;

pub use self::document::{Document, DocumentError};
pub use self::hold::Hold;
pub use self::memory::MemoryStore;
pub use self::record::{Keep, Key, Notification, Record, Topic};
pub use self::records::{Position, Records};
pub use self::store::{Loaded, Store, StoreError};
