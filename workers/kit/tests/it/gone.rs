//! What tells when nothing is left of a worker whose future was dropped.

use crankcase_engine::Stop;
use crankcase_engine::owner;
use tokio::sync::watch;

/// Whether nothing lingers of a worker any more.
pub(crate) struct Gone(watch::Receiver<bool>);

impl Gone {
    /// Begins to watch the worker that has this stop.
    pub(crate) fn of(stop: &Stop) -> Self {
        let (gone, watched) = watch::channel(false);
        owner::once_gone(stop, move || gone.send_modify(|is_gone| *is_gone = true));
        Self(watched)
    }

    pub(crate) fn is_gone(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is gone.
    pub(crate) async fn wait(&mut self) {
        drop(self.0.wait_for(|is_gone| *is_gone).await);
    }
}
