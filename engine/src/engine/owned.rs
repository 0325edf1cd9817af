//! Tells the loop when the last handle from the engine's builder was dropped.

use std::sync::Arc;

use crate::supervisor::Shared;
use crate::supervisor::call::Call;

/// Tells the loop when the last handle is dropped that came from the engine's builder. The handles
/// that workers get do not count.
pub(super) struct Owned {
    shared: Arc<Shared>,
}

impl Owned {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Not on this thread: a drop may be anywhere, also under a lock of the user.
        self.shared.inbox.call(Call::Disowned);
    }
}
