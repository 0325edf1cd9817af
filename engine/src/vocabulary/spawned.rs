//! A task that is aborted when its owner is dropped.

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

/// Runs user code on another runtime than its caller's.
pub(crate) struct Spawned<T> {
    task: JoinHandle<T>,
}

impl<T: Send + 'static> Spawned<T> {
    pub(crate) fn on(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { task: runtime.spawn(work) }
    }

    pub(crate) async fn over(mut self) -> Result<T, JoinError> {
        (&mut self.task).await
    }
}

impl<T> Drop for Spawned<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
