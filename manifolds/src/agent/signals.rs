//! The signals that the frame listens for, until the process ends.

use crankcase_engine::{Stop, Stopper, Worker};
use crankcase_workers::{SignalHandle, Signals};
use tokio::runtime::Handle;

use super::AgentError;

/// Listens for signals outside of any engine: a second one must be seen while the engine stops.
pub(super) struct Listening {
    handle: SignalHandle,
    stopper: Stopper,
}

impl Listening {
    pub(super) fn begin(runtime: &Handle) -> Result<Self, AgentError> {
        let _runtime = runtime.enter();
        let signals = Signals::new()?;
        let handle = signals.handle();
        let (stopper, stop) = Stop::pair();
        drop(runtime.spawn(async move {
            if let Err(exit) = signals.run(stop).await {
                tracing::error!(error = %exit, "no signal is seen any more");
            }
        }));
        Ok(Self { handle, stopper })
    }

    pub(super) fn handle(&self) -> SignalHandle {
        self.handle.clone()
    }

    /// Waits until the process was asked to end this many times.
    pub(super) async fn asked_to_end(&self, times: u64) {
        if self.handle.next_end(times - 1).await.is_err() {
            // Nobody will ask any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
