//! The thread of a worker that blocks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::context::Context;
use super::finish::TaskEnd;
use super::guard::{Guard, panicked};
use super::launch::{Blueprint, InputValues, Launch};
use super::wrap::WrapPoint;
use crate::vocabulary::discard::discard;
use crate::vocabulary::exit::Outcome;

impl Launch {
    /// Runs a worker on a thread of its own.
    pub(crate) fn spawn_thread(
        mut self,
        manifold: Arc<dyn Blueprint>,
        run: impl FnOnce(InputValues, Context) -> Outcome + Send + 'static,
    ) -> Option<AbortHandle> {
        let mut guard = Guard::new(&mut self);
        guard.if_dropped = Some(TaskEnd::NoThread);
        let (input_values, ctx) = (self.input_values, self.ctx);
        let workers = guard.identity().environment().workers.clone();
        let name = ctx.name().to_owned();
        let start = move |guard: &mut Guard| {
            if guard.stop.start_ended() {
                return Ok(());
            }
            let mut wrapped = guard.wrap(&ctx, &input_values, &*manifold);
            let mut cx = TaskContext::from_waker(Waker::noop());
            match wrapped.as_mut().map(|wrapped| wrapped.before(WrapPoint::Begin, &mut cx)) {
                Some(Poll::Ready(Some(outcome))) => outcome,
                _ => {
                    guard.enter(&ctx)?;
                    run(input_values, ctx)
                }
            }
        };
        let body = ThreadBody { parts: Some((start, guard)), workers };
        let spawned = std::thread::Builder::new().name(name).spawn(move || body.run());
        if let Err(error) = spawned {
            tracing::warn!(parent: None, %error, "cannot make a thread for a blocking worker");
        }
        None
    }
}

/// The body of a worker's thread. If there is no thread, it is dropped outside the loop.
struct ThreadBody<S: FnOnce(&mut Guard) -> Outcome + Send + 'static> {
    /// The order matters: what the worker starts with is dropped before its end is sent.
    parts: Option<(S, Guard)>,
    workers: Handle,
}

impl<S: FnOnce(&mut Guard) -> Outcome + Send + 'static> ThreadBody<S> {
    fn run(mut self) {
        let Some((start, mut guard)) = self.parts.take() else { return };
        guard.if_dropped = Some(TaskEnd::Dropped);
        let _runtime = self.workers.enter();
        let span = guard.observed.as_ref().map(|observed| observed.span());
        let entered = span.as_ref().map(|span| span.enter());
        let outcome = catch_unwind(AssertUnwindSafe(|| start(&mut guard)));
        // Code that runs because of the end is not part of the worker's span.
        drop(entered);
        let outcome = outcome.unwrap_or_else(|payload| Err(panicked(payload)));
        let message = guard.finish(TaskEnd::Outcome(outcome));
        guard.identity().host.send(message);
    }
}

impl<S: FnOnce(&mut Guard) -> Outcome + Send + 'static> Drop for ThreadBody<S> {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            discard(&self.workers, parts);
        }
    }
}
