//! The worker of a manifold, made one that can be checked like any other.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};

use crankcase_engine::testing::{Wrap, WrapPoint, Wrapped, WrappedInput};
use crankcase_engine::{Context, Exit, Manifold, Outcome, Stop, Worker};

use crate::started::{StartError, Started, start};
use crate::stubs::Stubs;
use crate::subject::SUBJECT;

/// The worker of a manifold together with the engine that it runs in; made by
/// [`Conformance::of`](super::Conformance::of).
///
/// When it is dropped, the worker's future is.
pub struct Installed {
    started: Option<Started>,
    axe: Axe,
}

impl Installed {
    /// Starts a manifold among stubs.
    pub(super) async fn start(manifold: Manifold, stubs: Stubs, stop: Stop) -> Result<Self, Exit> {
        // Kept with the manifold: the worker is gone when its engine is.
        let linger = stop.linger();
        let manifold = manifold.admitted((), move |(), _ctx| {
            let _kept = &linger;
            Ok(())
        });
        let axe = Axe::default();
        match start(manifold, stubs.wrapped(Arc::new(axe.clone()))).await {
            Ok(started) => Ok(Self { started: Some(started), axe }),
            Err(StartError::Ended(Err(exit))) => Err(exit),
            Err(error) => Err(Exit::failed(error)),
        }
    }
}

impl Worker for Installed {
    async fn run(mut self, stop: Stop) -> Outcome {
        if let Some(started) = &mut self.started {
            tokio::select! {
                biased;
                () = stop.wait() => {}
                outcome = started.own_end() => return outcome,
            }
        }
        match self.started.take() {
            Some(started) => started.stop().await,
            None => Ok(()),
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        self.axe.0.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installed").field("started", &self.started).finish()
    }
}

/// Drops the future of the worker under test at its next turn after it has fallen, as the end of its
/// runtime would. The engine, which is killed then, gives it that turn.
#[derive(Clone, Default)]
struct Axe(Arc<AtomicBool>);

impl Wrap for Axe {
    fn wrap(&self, ctx: &Context, _inputs: &[WrappedInput<'_>]) -> Box<dyn Wrapped> {
        Box::new(Under(Some(self.clone()).filter(|_| ctx.name() == SUBJECT.as_str())))
    }
}

/// A worker, if it is the one under test.
struct Under(Option<Axe>);

impl Wrapped for Under {
    fn before(&mut self, _point: WrapPoint, _cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        let has_fallen = self.0.as_ref().is_some_and(|axe| axe.0.load(Ordering::Acquire));
        Poll::Ready(has_fallen.then_some(Ok(())))
    }
}
