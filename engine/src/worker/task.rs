//! The task of one worker: its start, its outputs and its run, in one future.
//!
//! Invariants:
//! 1. All user code runs inside `catch_unwind`, in this task.
//! 2. The worker's future is dropped first, then `beside`, then the end is sent, even if a drop
//!    panics.
//! 3. The end is sent exactly once, even if the task is dropped.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use pin_project_lite::pin_project;
use tokio::task::AbortHandle;

use super::context::{Context, Health};
use super::finish::TaskEnd;
use super::guard::{Guard, panicked};
use super::host::Identity;
use super::launch::{Blueprint, InputValues, Launch};
use super::message::Message;
use super::publish::{Changes, Handoff};
use super::stop::Stop;
use super::wrap::{WrapPoint, Wrapped};
use crate::seen::report::ReportFn;
use crate::vocabulary::exit::{Exit, Outcome, Panicked};
use crate::vocabulary::value::Outputs;

/// The health of a closure that goes on after it has dropped its `Up`.
pub(crate) const NEVER_UP: &str =
    "it has dropped its `Up` without a call of `ready`, and can never come up";

/// The outputs and the reporter of a worker that is up.
pub(crate) struct Offered {
    pub(crate) outputs: Outputs,
    pub(crate) reporter: Option<ReportFn>,
}

impl Offered {
    /// Returns the message that the worker is up.
    pub(crate) fn message(self, stop: &Stop) -> Message {
        if self.reporter.is_some() {
            stop.set_drops();
        }
        let identity = stop.identity();
        Message::Started {
            node: identity.node,
            generation: identity.generation,
            outputs: self.outputs,
            reporter: self.reporter,
        }
    }
}

/// The steps by which a manifold starts a worker `W` with a future `F`, and runs it with a future
/// `R`.
///
/// A trait and not closures, because a backtrace writes the type of a worker's task in many frames,
/// and the type of each closure repeats the manifold's.
pub(crate) trait Steps<W, F, R>: Blueprint + 'static {
    /// Puts the first future into the task's state.
    fn begin(
        &self,
        input_values: InputValues,
        ctx: Context,
        handoff: &mut Handoff,
        state: Pin<&mut TaskState<F, R>>,
    );

    /// Takes the outputs and the reporter from a worker that has started.
    fn offer(&self, worker: &W, identity: &Identity, changes: &mut Changes) -> Offered;
}

impl Launch {
    /// Runs a worker in a task. `run` makes the future of a worker that has started.
    pub(crate) fn spawn<M, W, F, R, N>(mut self, manifold: Arc<M>, run: N) -> Option<AbortHandle>
    where
        M: Steps<W, F, R>,
        F: Future<Output = Result<W, Exit>> + Send + 'static,
        R: Future<Output = Outcome> + Send + 'static,
        N: Fn(W, Stop) -> R + Send + 'static,
    {
        let guard = Guard::new(&mut self);
        let environment = guard.identity().environment();
        let runtime = environment.runtime_of(guard.settings.as_deref()).clone();
        let state = TaskState::New { input_values: self.input_values, ctx: Some(self.ctx) };
        let task = Task { state, manifold, run, beside: None, guard };
        Some(runtime.spawn(task).abort_handle())
    }
}

pin_project! {
    /// The task of one worker. Written by hand, because an `async` block would hold the worker
    /// twice.
    struct Task<M, F, R, N> {
        #[pin]
        state: TaskState<F, R>,
        manifold: Arc<M>,
        run: N,
        // Dropped after the worker's future and before its end is sent.
        beside: Option<Box<Beside>>,
        guard: Guard,
    }

    impl<M, F, R, N> PinnedDrop for Task<M, F, R, N> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A drop that blocks its thread is like a poll that does.
            this.guard.stop.begin_poll();
            let panicked = end(this.state, this.beside);
            this.guard.stop.end_poll();
            if panicked.is_some() {
                let path = this.guard.identity().path();
                tracing::warn!(parent: None, worker = %path, "a worker panicked while it was dropped");
            }
        }
    }
}

/// Drops a worker's future and then `beside`. A panic in the first drop does not prevent the
/// second. Returns the first panic.
fn end<F, R>(
    mut state: Pin<&mut TaskState<F, R>>,
    beside: &mut Option<Box<Beside>>,
) -> Option<Panicked> {
    let future = catch_unwind(AssertUnwindSafe(|| state.set(TaskState::Ended)));
    let beside = catch_unwind(AssertUnwindSafe(|| *beside = None));
    let [future, beside] =
        [future, beside].map(|dropped| dropped.err().map(Panicked::from_payload));
    future.or(beside)
}

/// Returns the outcome of a worker whose future panicked while it was dropped. The outcome is a
/// failure, unless the worker ended with `Fatal` or `Uninstall`.
fn outcome_after(outcome: Outcome, panicked: Panicked) -> Outcome {
    if matches!(outcome, Err(Exit::Fatal(_) | Exit::Uninstall)) {
        return outcome;
    }
    // The drop of an error is foreign code, and may panic too.
    drop(catch_unwind(AssertUnwindSafe(|| drop(outcome))));
    Err(Exit::failed(panicked))
}

/// Parts that only few workers have.
#[derive(Default)]
struct Beside {
    handoff: Handoff,
    changes: Changes,
    wrapped: Option<Box<dyn Wrapped>>,
}

pin_project! {
    /// The state of a worker's task. A worker has a start that returns it, or begins with its run.
    #[project = TaskStateProjection]
    pub(crate) enum TaskState<F, R> {
        New { input_values: InputValues, ctx: Option<Context> },
        Start { #[pin] start: F },
        Run { #[pin] run: R },
        Ended,
    }
}

impl Beside {
    /// Passes new values of changing outputs to the engine.
    fn poll(&mut self, cx: &mut TaskContext<'_>) {
        if let Some(changes) = self.handoff.take(cx) {
            self.changes = changes;
        }
        self.changes.poll(cx);
    }
}

impl<M, W, F, R, N> Future for Task<M, F, R, N>
where
    M: Steps<W, F, R>,
    F: Future<Output = Result<W, Exit>>,
    R: Future<Output = Outcome>,
    N: Fn(W, Stop) -> R,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.guard.stop.begin_poll();
        let mut advance = || {
            let observed = self.guard.observed.as_ref().map(|observed| observed.span());
            let _entered = observed.as_ref().map(|span| span.enter());
            self.as_mut().advance(cx)
        };
        // Not generic, because a backtrace writes a generic frame with all of the worker's types.
        let advance: &mut dyn FnMut() -> Poll<Outcome> = &mut advance;
        let mut outcome = match catch_unwind(AssertUnwindSafe(advance)) {
            Ok(Poll::Pending) => {
                self.guard.stop.end_poll();
                return Poll::Pending;
            }
            Ok(Poll::Ready(outcome)) => outcome,
            Err(payload) => Err(panicked(payload)),
        };
        let mut this = self.project();
        if let Some(panicked) = end(this.state.as_mut(), this.beside) {
            outcome = outcome_after(outcome, panicked);
        }
        let message = this.guard.finish(TaskEnd::Outcome(outcome));
        this.guard.stop.end_poll();
        this.guard.identity().host.tell(message);
        Poll::Ready(())
    }
}

impl<M, W, F, R, N> Task<M, F, R, N>
where
    M: Steps<W, F, R>,
    F: Future<Output = Result<W, Exit>>,
    R: Future<Output = Outcome>,
    N: Fn(W, Stop) -> R,
{
    /// Asks the wrapper whether the worker may go on or must end.
    fn ask_wrapped(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        let this = self.project();
        let step = match &*this.state {
            TaskState::New { input_values, ctx: Some(ctx) } => {
                let beside = this.beside.get_or_insert_default();
                if beside.wrapped.is_none() {
                    beside.wrapped = this.guard.wrap(ctx, input_values, &**this.manifold);
                }
                WrapPoint::Begin
            }
            TaskState::Start { .. } => WrapPoint::Start,
            TaskState::Run { .. } => WrapPoint::Run,
            TaskState::New { ctx: None, .. } | TaskState::Ended => return Poll::Ready(None),
        };
        let wrapped = this.beside.as_mut().and_then(|beside| beside.wrapped.as_mut());
        wrapped.map_or(Poll::Ready(None), |wrapped| wrapped.before(step, cx))
    }

    fn advance(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Outcome> {
        loop {
            if self.guard.identity().environment().wrap.is_some()
                && let Some(outcome) = ready!(self.as_mut().ask_wrapped(cx))
            {
                return Poll::Ready(outcome);
            }
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                TaskStateProjection::New { input_values, ctx } => {
                    let Some(ctx) = ctx.take() else { return Poll::Pending };
                    let input_values = mem::take(input_values);
                    if let Err(exit) = this.guard.enter(&ctx) {
                        return Poll::Ready(Err(exit));
                    }
                    let mut handoff = Handoff::default();
                    this.manifold.begin(input_values, ctx, &mut handoff, this.state.as_mut());
                    if handoff.is_awaited() {
                        this.beside.get_or_insert_default().handoff = handoff;
                    }
                    let has_started = matches!(*this.state, TaskState::Run { .. });
                    if has_started && this.guard.stop.start_ended() {
                        return Poll::Ready(Ok(()));
                    }
                }
                TaskStateProjection::Start { start } => match ready!(start.poll(cx)) {
                    Err(exit) => return Poll::Ready(Err(exit)),
                    Ok(worker) => {
                        if this.guard.stop.start_ended() {
                            return Poll::Ready(Ok(()));
                        }
                        let (identity, mut changes) = (this.guard.identity(), Changes::default());
                        let offered = this.manifold.offer(&worker, identity, &mut changes);
                        if !changes.is_empty() {
                            this.beside.get_or_insert_default().changes = changes;
                        }
                        let run = (this.run)(worker, this.guard.stop.clone());
                        this.state.set(TaskState::Run { run });
                        if let Some(observed) = &this.guard.observed {
                            observed.started();
                        }
                        let message = offered.message(&this.guard.stop);
                        this.guard.identity().host.tell(message);
                    }
                },
                TaskStateProjection::Run { run } => {
                    let outcome = run.poll(cx);
                    if let Some(beside) = this.beside {
                        beside.poll(cx);
                    }
                    // Not if the worker ends in this poll, or was told to stop.
                    let stop = &this.guard.stop;
                    if outcome.is_pending() && stop.take_unready() && !stop.is_stopped() {
                        Health::of(stop).degraded(NEVER_UP);
                    }
                    return outcome;
                }
                TaskStateProjection::Ended => return Poll::Pending,
            }
        }
    }
}
