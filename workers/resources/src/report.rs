//! What is said of resources: what was found, planned and done, and who sees it.

pub(crate) mod account;
pub(crate) mod crash_loops;
pub(crate) mod flood;
pub(crate) mod found;
pub(crate) mod listing;
pub(crate) mod observer;
pub(crate) mod planned;
pub(crate) mod progress;
pub(crate) mod released;
pub(crate) mod said;
pub(crate) mod seal;
pub(crate) mod tally;

pub use self::account::Accounted;
pub use self::observer::{AskedBy, EventKind, LastEvent};
pub use self::planned::{Change, PlannedResource, Refresh};
pub use self::seal::{Basis, Salt, Seal};
pub use self::tally::ResourceTally;
