//! A worker in a task of its own, without an engine.
//!
//! Invariants:
//! 1. The worker's code runs inside `catch_unwind`.
//! 2. The worker's end is told after its future was dropped and nothing lingers of it.
//! 3. Its end is told exactly once, also when its task is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crankcase_engine::owner;
use crankcase_engine::{Exit, Outcome, Stop, Worker};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tracing::Span;

/// How a worker's task came to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// By itself; a panic is a failure.
    Outcome(Outcome),
    /// It was dropped.
    Dropped,
}

/// What a child's log stands in; nothing where nobody would see it, as for most of many children.
pub(crate) type ChildSpan = Option<Box<Span>>;

/// Returns the span of a child, in that of its owner.
pub(crate) fn span_of(owner: &Span, name: &str) -> ChildSpan {
    let span = tracing::debug_span!(parent: owner, "child", name);
    (!span.is_disabled()).then(|| Box::new(span))
}

/// Runs a worker in a task, and calls `ended` when it is gone.
///
/// `ended` is called in the task, or wherever the last of what lingers ends.
pub(crate) fn spawn<W, E>(
    runtime: &Handle,
    worker: W,
    stop: Stop,
    span: ChildSpan,
    ended: E,
) -> AbortHandle
where
    W: Worker,
    E: FnOnce(End) + Send + 'static,
{
    let guard = Guard { stop: stop.clone(), ended: Some(ended) };
    let stage = Stage::New { worker: Some((worker, stop)) };
    runtime.spawn(Task { stage, run: W::run, span, guard }).abort_handle()
}

/// Lives the life of an owner of children until its end, which may be long after its stop; passes
/// on meanwhile that an input of it was lost.
pub(crate) async fn passing_on_loss<T>(
    life: impl Future<Output = T>,
    stop: &Stop,
    lose: impl FnOnce(),
) -> T {
    let (mut life, mut lose) = (std::pin::pin!(life), Some(lose));
    loop {
        tokio::select! {
            biased;
            // First: who is told to stop is to see by then what it has lost before.
            () = owner::only_input_lost(stop), if lose.is_some() => {
                lose.take().into_iter().for_each(|lose| lose());
            }
            end = &mut life => return end,
        }
    }
}

/// Calls `work`, and makes a failure of its panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Exit> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Exit::failed(owner::panic_of(payload)))
}

/// Tells the end, whatever happens to the task.
struct Guard<E: FnOnce(End) + Send + 'static> {
    stop: Stop,
    ended: Option<E>,
}

impl<E: FnOnce(End) + Send + 'static> Guard<E> {
    fn tell(&mut self, end: End) {
        if let Some(ended) = self.ended.take() {
            owner::once_gone(&self.stop, move || ended(end));
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
        span: ChildSpan,
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

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let _entered = this.span.as_ref().map(|span| span.enter());
        let mut outcome = match caught(|| this.stage.as_mut().advance(&*this.run, cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => outcome,
            Err(exit) => Err(exit),
        };
        if let Err(exit) = caught(|| this.stage.set(Stage::Ended)) {
            outcome = Err(exit);
        }
        this.guard.tell(End::Outcome(outcome));
        Poll::Ready(())
    }
}

impl<W, R: Future<Output = Outcome>> Stage<W, R> {
    fn advance(
        mut self: Pin<&mut Self>,
        run: impl Fn(W, Stop) -> R,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome> {
        loop {
            match self.as_mut().project() {
                StageProjection::New { worker } => {
                    let Some((worker, stop)) = worker.take() else { return Poll::Pending };
                    let run = run(worker, stop);
                    self.set(Self::Run { run });
                }
                StageProjection::Run { run } => return run.poll(cx),
                StageProjection::Ended => return Poll::Pending,
            }
        }
    }
}
