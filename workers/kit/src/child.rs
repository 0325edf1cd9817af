//! A worker in a task of its own, without an engine.
//!
//! Invariants:
//! 1. The worker's code runs inside `catch_unwind`.
//! 2. The worker's end is told after its future was dropped and nothing lingers of it.
//! 3. Its end is told exactly once, also when its task is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crankcase_engine::{Exit, Outcome, Panicked, Stop, Worker};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// How a worker's task came to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// By itself; a panic is a failure.
    Outcome(Outcome),
    /// It was dropped.
    Dropped,
}

/// Runs a worker in a task, and calls `ended` when it is gone.
///
/// `ended` is called in the task, or wherever the last of what lingers ends.
pub(crate) fn spawn<W, E>(runtime: &Handle, worker: W, stop: Stop, ended: E) -> AbortHandle
where
    W: Worker,
    E: FnOnce(End) + Send + 'static,
{
    let guard = Guard { stop: stop.clone(), ended: Some(ended) };
    let stage = Stage::New { worker: Some((worker, stop)) };
    runtime.spawn(Task { stage, run: W::run, guard }).abort_handle()
}

/// Calls `work`, and makes a failure of its panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Exit> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|payload| Exit::failed(Panicked::from_payload(payload)))
}

/// Tells the end, whatever happens to the task.
struct Guard<E: FnOnce(End) + Send + 'static> {
    stop: Stop,
    ended: Option<E>,
}

impl<E: FnOnce(End) + Send + 'static> Guard<E> {
    fn tell(&mut self, end: End) {
        if let Some(ended) = self.ended.take() {
            self.stop.once_gone(move || ended(end));
        }
    }
}

impl<E: FnOnce(End) + Send + 'static> Drop for Guard<E> {
    fn drop(&mut self) {
        self.tell(End::Dropped);
    }
}

pin_project! {
    /// Written by hand: an `async` block would hold the worker twice.
    ///
    /// The stage stands first, so that it is dropped first.
    struct Task<W, R, N, E>
    where
        E: FnOnce(End),
        E: Send,
        E: 'static,
    {
        #[pin]
        stage: Stage<W, R>,
        run: N,
        guard: Guard<E>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<W, R> {
        New { worker: Option<(W, Stop)> },
        Run { #[pin] run: R },
        Ended,
    }
}

impl<W, R, N, E> Future for Task<W, R, N, E>
where
    R: Future<Output = Outcome>,
    N: Fn(W, Stop) -> R,
    E: FnOnce(End) + Send + 'static,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut outcome = match caught(|| self.as_mut().advance(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => outcome,
            Err(exit) => Err(exit),
        };
        let this = self.as_mut().project();
        let mut stage = this.stage;
        if let Err(exit) = caught(|| stage.set(Stage::Ended)) {
            outcome = Err(exit);
        }
        this.guard.tell(End::Outcome(outcome));
        Poll::Ready(())
    }
}

impl<W, R, N, E> Task<W, R, N, E>
where
    R: Future<Output = Outcome>,
    N: Fn(W, Stop) -> R,
    E: FnOnce(End) + Send + 'static,
{
    fn advance(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let mut this = self.as_mut().project();
            match this.stage.as_mut().project() {
                StageProjection::New { worker } => {
                    let Some((worker, stop)) = worker.take() else { return Poll::Pending };
                    let run = (this.run)(worker, stop);
                    this.stage.set(Stage::Run { run });
                }
                StageProjection::Run { run } => return run.poll(cx),
                StageProjection::Ended => return Poll::Pending,
            }
        }
    }
}
