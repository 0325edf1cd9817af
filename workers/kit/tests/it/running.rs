//! Runs a worker without an engine.

use std::time::Duration;

use crankcase_engine::{Outcome, Stop, Worker};
use tokio::task::JoinSet;

/// The error that tests end with.
pub(crate) type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A worker that runs in a task of its own; dropping it drops the worker's future.
pub(crate) struct Running {
    stop: Box<dyn Fn() + Send>,
    tasks: JoinSet<Outcome>,
}

impl Running {
    /// Starts the worker.
    pub(crate) fn start(worker: impl Worker) -> Self {
        let (stopper, stop) = Stop::pair();
        let mut tasks = JoinSet::new();
        tasks.spawn(worker.run(stop));
        Self { stop: Box::new(move || stopper.stop()), tasks }
    }

    /// Tells the worker to stop.
    pub(crate) fn stop(&self) {
        (self.stop)();
    }

    /// Waits for the worker's own end.
    pub(crate) async fn end(&mut self) -> Outcome {
        self.tasks.join_next().await.expect("the worker ended before").expect("the worker panicked")
    }

    /// Tells the worker to stop and waits for its end.
    pub(crate) async fn clean_kill(mut self) -> Outcome {
        self.stop();
        self.end().await
    }
}

/// Ends a test that hangs.
pub(crate) async fn guarded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), test).await.expect("the test hangs")
}
