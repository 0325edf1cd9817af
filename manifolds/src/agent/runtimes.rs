//! The three runtimes of an agent: for the engine's loop, for its workers and for its frame.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::error::AgentError;

/// How long the control socket, and what is left of workers after the end, may take to go.
pub(super) const LAST_GRACE: Duration = Duration::from_secs(2);

/// Where everything runs.
pub(super) struct Runtimes {
    /// The engine's loop, on the caller's thread.
    pub(super) driver: Runtime,
    /// Signals and the control socket.
    pub(super) frame: Runtime,
    pub(super) workers: Runtime,
}

impl Runtimes {
    pub(super) fn new(worker_threads: Option<usize>) -> Result<Self, AgentError> {
        let failed = |source| AgentError::Threads { source };
        // A runtime panics where it cannot make its threads.
        std::thread::Builder::new().spawn(|| {}).map_err(failed)?;
        let mut workers = Builder::new_multi_thread();
        if let Some(threads) = worker_threads {
            workers.worker_threads(threads);
        }
        let mut frame = Builder::new_multi_thread();
        Ok(Self {
            driver: Builder::new_current_thread().enable_all().build().map_err(failed)?,
            frame: frame
                .worker_threads(1)
                .thread_name("frame")
                .enable_all()
                .build()
                .map_err(failed)?,
            workers: workers.thread_name("worker").enable_all().build().map_err(failed)?,
        })
    }

    /// Lets everything go; what does not go in time ends with the process.
    pub(super) fn end(self) {
        self.workers.shutdown_timeout(LAST_GRACE);
        self.frame.shutdown_timeout(LAST_GRACE);
    }
}
