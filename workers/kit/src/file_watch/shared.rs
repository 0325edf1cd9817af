//! The state that a watcher shares with its handles and subscriptions.

use std::fmt;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::table::Table;

/// What the worker, the handles and the subscriptions share.
pub(super) struct Shared {
    pub(super) table: Mutex<Table>,
    /// Wakes the worker when a subscription has a problem from the start.
    pub(super) woken: Notify,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.lock().fmt(f)
    }
}
