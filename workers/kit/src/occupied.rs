//! A worker that is a guest of a fortress for its whole life.

use std::fmt;

use crankcase_engine::owner;
use crankcase_engine::{Exit, Outcome, Stop, Worker};

use crate::fortress::{Guest, Visit};

/// A worker that occupies a fortress for its life; made by [`Guest::occupy`].
///
/// It waits until it is let in, starts its worker, and leaves when nothing of that is left.
///
/// # Guarantees
///
/// - The fortress is occupied from before the start until the worker's future, and all that lingers
///   of it, is gone, whatever happens: also when the start fails, panics or is dropped half way.
/// - When a guard wants to lock down, the worker is told to stop, so that the lockdown comes to an
///   end. If it then ends well, this asks to be started again with [`Exit::Bounce`]: the next one
///   waits until it is let in.
///
/// What must not be interrupted should not occupy a fortress for its life, but
/// [`visit`](Guest::visit) it for each piece of work.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Exit, Outcome, Stop, Worker};
/// use crankcase_workers::Fortress;
///
/// struct Writer;
///
/// impl Worker for Writer {
///     async fn run(self, stop: Stop) -> Outcome {
///         stop.wait().await;
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let fortress = Fortress::new();
/// let guard = fortress.guard();
/// guard.unlock();
/// let occupied = fortress.guest().occupy(|| async { Ok(Writer) });
/// let (_stopper, stop) = Stop::pair();
/// let lockdown = async {
///     tokio::task::yield_now().await;
///     guard.lockdown().await
/// };
/// let (outcome, locked) = tokio::join!(occupied.run(stop), lockdown);
/// assert!(matches!(outcome, Err(Exit::Bounce)));
/// locked?;
/// # Ok(()) }
/// ```
#[must_use = "a worker does nothing until it runs"]
pub struct Occupied<S> {
    guest: Guest,
    start: S,
}

impl Guest {
    /// Returns a worker that occupies the fortress for its life; see [`Occupied`].
    pub fn occupy<S, F, W>(&self, start: S) -> Occupied<S>
    where
        S: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<W, Exit>> + Send + 'static,
        W: Worker,
    {
        Occupied { guest: self.clone(), start }
    }
}

impl<S, F, W> Worker for Occupied<S>
where
    S: FnOnce() -> F + Send + 'static,
    F: Future<Output = Result<W, Exit>> + Send + 'static,
    W: Worker,
{
    async fn run(self, stop: Stop) -> Outcome {
        let Self { guest, start } = self;
        let visit = tokio::select! {
            biased;
            () = stop.wait() => return Ok(()),
            visit = guest.visit() => visit?,
        };
        let (stopper, inner) = Stop::pair();
        // First, so that it is dropped last.
        let held = Held { visit: Some(visit), inner: inner.clone(), outer: stop.clone() };
        let mut life = std::pin::pin!(live(start, inner));
        let (mut is_told, mut is_lost, mut is_asked) = (false, false, false);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut life => break outcome,
                // Before the stop: who is told to is to see by then what it has lost before.
                () = owner::only_input_lost(&stop), if !is_lost => {
                    is_lost = true;
                    owner::lose_input(&stopper);
                }
                () = stop.wait(), if !is_told => {
                    is_told = true;
                    stopper.stop();
                }
                () = held.asked_to_leave(), if !is_asked => {
                    is_asked = true;
                    stopper.stop();
                }
            }
        };
        match outcome {
            Ok(()) if is_asked && !stop.is_stopped() => Err(Exit::Bounce),
            outcome => outcome,
        }
    }
}

/// Starts a worker and runs it.
async fn live<S, F, W>(start: S, stop: Stop) -> Outcome
where
    S: FnOnce() -> F,
    F: Future<Output = Result<W, Exit>>,
    W: Worker,
{
    let worker = tokio::select! {
        biased;
        () = stop.wait() => return Ok(()),
        worker = start() => worker?,
    };
    worker.run(stop).await
}

/// A visit that ends when nothing is left of a worker.
struct Held {
    visit: Option<Visit>,
    /// What the worker was given.
    inner: Stop,
    /// What its owner was given, which does not end before the worker either.
    outer: Stop,
}

impl Held {
    async fn asked_to_leave(&self) {
        match &self.visit {
            Some(visit) => visit.asked_to_leave().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let (visit, linger) = (self.visit.take(), self.outer.linger());
        owner::once_gone(&self.inner, move || {
            drop(visit);
            drop(linger);
        });
    }
}

impl<S> fmt::Debug for Occupied<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Occupied").field("guest", &self.guest).finish_non_exhaustive()
    }
}
