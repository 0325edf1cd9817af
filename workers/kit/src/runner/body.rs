//! What a stay's task holds of the user's: the workers of a spec, one after another, in one place
//! that is as large as the largest.
//!
//! The task is written by hand and of the worker's own type, so that a child is one allocation; what
//! decides about it is not, and is written once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crankcase_engine::{Exit, Outcome, Stop, Worker};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;

use super::spec::ChildContext;
use super::stay::{Presence, Stay};

/// How to get and run workers of one type.
pub(super) trait Recipe: Send + Sync {
    /// Runs the workers of a stay in a task.
    fn keep(self: Arc<Self>, presence: Presence, runtime: &Handle);
}

impl<S, F, W> Recipe for S
where
    S: Fn(ChildContext) -> F + Send + Sync + 'static,
    F: Future<Output = Result<W, Exit>> + Send + 'static,
    W: Worker,
{
    fn keep(self: Arc<Self>, presence: Presence, runtime: &Handle) {
        let body = Workers { start: self, run: W::run, stage: Stage::Empty };
        // Nobody waits for the task: its end is told when the presence is dropped.
        drop(runtime.spawn(Task { body, presence }));
    }
}

/// The present worker of a stay, of any type. All methods call the user's code, which may panic.
pub(super) trait Body {
    /// Begins a start.
    fn begin(self: Pin<&mut Self>, ctx: ChildContext);

    /// Goes on with the start. When it has made a worker, says so to the stay and begins the run.
    fn poll_start(
        self: Pin<&mut Self>,
        stay: &Stay,
        stop: &Stop,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Exit>>;

    /// Goes on with the run.
    fn poll_run(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome>;

    /// Drops what is left of the worker.
    fn clear(self: Pin<&mut Self>);
}

pin_project! {
    /// The body stands first, so that it is dropped first.
    struct Task<B> {
        #[pin]
        body: B,
        presence: Presence,
    }
}

impl<B: Body> Future for Task<B> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.presence.poll(this.body, cx)
    }
}

pin_project! {
    struct Workers<S, N, F, R> {
        // Dropped first: a worker may use what its start holds.
        #[pin]
        stage: Stage<F, R>,
        start: Arc<S>,
        run: N,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F, R> {
        Empty,
        Start { #[pin] start: F },
        Run { #[pin] run: R },
    }
}

impl<S, N, F, R, W> Body for Workers<S, N, F, R>
where
    S: Fn(ChildContext) -> F,
    N: Fn(W, Stop) -> R,
    F: Future<Output = Result<W, Exit>>,
    R: Future<Output = Outcome>,
{
    fn begin(self: Pin<&mut Self>, ctx: ChildContext) {
        let mut this = self.project();
        let start = (this.start)(ctx);
        this.stage.set(Stage::Start { start });
    }

    fn poll_start(
        self: Pin<&mut Self>,
        stay: &Stay,
        stop: &Stop,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Exit>> {
        let mut this = self.project();
        let StageProjection::Start { start } = this.stage.as_mut().project() else {
            return Poll::Pending;
        };
        let worker = match ready!(start.poll(cx)) {
            Ok(worker) => worker,
            Err(exit) => return Poll::Ready(Err(exit)),
        };
        stay.on_up();
        let run = (this.run)(worker, stop.clone());
        this.stage.set(Stage::Run { run });
        Poll::Ready(Ok(()))
    }

    fn poll_run(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self.project().stage.project() {
            StageProjection::Run { run } => run.poll(cx),
            StageProjection::Empty | StageProjection::Start { .. } => Poll::Pending,
        }
    }

    fn clear(self: Pin<&mut Self>) {
        self.project().stage.set(Stage::Empty);
    }
}
