//! The folder in which an agent keeps what outlives it.

mod deleted;
mod dir;
mod error;
mod folder;
mod lock;

pub use dir::StateDir;
pub use error::StateError;
pub(crate) use folder::own;
pub use lock::StateLock;
