//! A worker that runs without an engine.

use std::fmt;

use crankcase_engine::owner;
use crankcase_engine::{Exit, Outcome, Panicked, Stop, Stopper, Worker};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::wait::within;

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
/// check_alive(&worker).await?;
/// clean_kill(worker).await?;
/// # Ok(()) }
/// ```
#[must_use = "the worker is dropped when this is"]
pub struct Bare {
    stopper: Stopper,
    stop: Stop,
    task: JoinHandle<Outcome>,
    /// What it has ended with, for those who ask again.
    outcome: Option<Outcome>,
}

impl Bare {
    /// Runs a worker in a task of its own.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn run(worker: impl Worker) -> Self {
        let (stopper, stop) = Stop::pair();
        Self::run_with(stopper, stop, worker)
    }

    /// Runs a worker whose start was given its stop.
    #[expect(clippy::disallowed_methods, reason = "the task is aborted when this is dropped")]
    pub(crate) fn run_with(stopper: Stopper, stop: Stop, worker: impl Worker) -> Self {
        let task = tokio::spawn(worker.run(stop.clone()));
        Self { stopper, stop, task, outcome: None }
    }

    /// Returns the handle that tells the worker to stop or that an input is lost.
    pub fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// Waits until the worker ends by itself, and returns how; a panic is a failure, as to an engine.
    /// Asked again it says the same, errors by their text. What [lingers](Stop::linger) of it is not
    /// waited for.
    ///
    /// # Errors
    ///
    /// When it does not end within ten minutes by the clock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&mut self) -> Result<Outcome, Failure> {
        within(|| "it has not ended".to_owned(), self.outcome()).await
    }

    /// Waits for its end for as long as it takes.
    pub(crate) async fn outcome(&mut self) -> Outcome {
        if self.outcome.is_none() {
            let outcome = match (&mut self.task).await {
                Ok(outcome) => outcome,
                Err(error) => match error.try_into_panic() {
                    Ok(payload) => Err(Exit::failed(owner::panic_of(payload))),
                    Err(error) => Err(Exit::failed(error)),
                },
            };
            self.outcome = Some(outcome);
        }
        match self.outcome.take() {
            Some(Err(exit)) => {
                self.outcome = Some(Err(copy_of(&exit)));
                Err(exit)
            }
            _ => {
                self.outcome = Some(Ok(()));
                Ok(())
            }
        }
    }

    /// Waits until nothing lingers of a worker that has ended.
    pub(crate) async fn gone(&self) {
        gone(&self.stop).await;
    }

    pub(crate) fn abort(&self) {
        self.task.abort();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

/// Waits until nothing lingers of a worker, whose future has been dropped.
pub(crate) async fn gone(stop: &Stop) {
    let (gone, is_gone) = oneshot::channel();
    owner::once_gone(stop, move || {
        // Who waits may have been dropped.
        let _ = gone.send(());
    });
    // It is called in any case.
    let _ = is_gone.await;
}

/// Returns an exit like another one, with its error as text; a panic stays one.
pub(crate) fn copy_of(exit: &Exit) -> Exit {
    let panicked = exit.error().and_then(|error| error.downcast_ref::<Panicked>());
    match exit {
        Exit::Missing(reason) => Exit::missing(reason),
        Exit::Bounce => Exit::Bounce,
        Exit::Uninstall => Exit::Uninstall,
        Exit::Fatal(_) => Exit::fatal(exit.to_string()),
        _ => panicked.cloned().map_or_else(|| Exit::failed(exit.to_string()), Exit::failed),
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
