use std::fmt;

use crankcase_engine::{Exit, Outcome, Panicked, Stop, Stopper, Worker};
use tokio::task::JoinHandle;

/// A worker that runs without an engine.
///
/// Use it to test a worker by itself; [`start`](crate::start) tests its manifold.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Outcome, Stop, Worker};
/// use crankcase_testing::{Bare, check_alive, clean_kill};
///
/// struct Idle;
///
/// impl Worker for Idle {
///     async fn run(self, stop: Stop) -> Outcome {
///         stop.wait().await;
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let worker = Bare::run(Idle);
/// check_alive(&worker)?;
/// clean_kill(worker).await?;
/// # Ok(()) }
/// ```
#[must_use = "the worker is dropped when this is"]
pub struct Bare {
    stopper: Stopper,
    task: JoinHandle<Outcome>,
}

impl Bare {
    /// Runs a worker in a task of its own.
    #[expect(clippy::disallowed_methods, reason = "the task is aborted when this is dropped")]
    pub fn run(worker: impl Worker) -> Self {
        let (stopper, stop) = Stop::pair();
        Self { stopper, task: tokio::spawn(worker.run(stop)) }
    }

    /// Returns the handle that tells the worker to stop or that an input is lost.
    pub fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// Waits until the worker ends by itself, and returns how.
    ///
    /// # Errors
    ///
    /// What the worker ends with; a panic is a failure, as to an engine.
    pub async fn ended(&mut self) -> Outcome {
        match (&mut self.task).await {
            Ok(outcome) => outcome,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => Err(Exit::failed(Panicked::from_payload(payload))),
                Err(error) => Err(Exit::failed(error)),
            },
        }
    }

    pub(crate) fn abort(&self) {
        self.task.abort();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bare").field("stopper", &self.stopper).finish_non_exhaustive()
    }
}
