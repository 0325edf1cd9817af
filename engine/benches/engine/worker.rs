//! The bench worker: one output, default backoff.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crankcase_engine::{Engine, Exit, Manifold, Name, Outcome, Policy, Stop, Worker};
use tokio::sync::Notify;

/// Tells when a number of workers has started.
#[derive(Clone)]
pub(crate) struct Count {
    inner: Arc<(AtomicUsize, AtomicUsize, Notify)>,
}

impl Count {
    pub(crate) fn new(goal: usize) -> Self {
        let inner = (AtomicUsize::new(0), AtomicUsize::new(goal), Notify::new());
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn add(&self) {
        let (count, goal, notify) = &*self.inner;
        if count.fetch_add(1, Ordering::AcqRel) + 1 == goal.load(Ordering::Acquire) {
            notify.notify_one();
        }
    }

    pub(crate) fn get(&self) -> usize {
        self.inner.0.load(Ordering::Acquire)
    }

    /// Counts anew, up to another goal.
    pub(crate) fn reset(&self, goal: usize) {
        self.inner.1.store(goal, Ordering::Release);
        self.inner.0.store(0, Ordering::Release);
    }

    pub(crate) async fn reached(&self) {
        self.inner.2.notified().await;
    }
}

struct Idle {
    started: Count,
}

impl Worker for Idle {
    async fn run(self, stop: Stop) -> Outcome {
        self.started.add();
        stop.wait().await;
        Ok(())
    }
}

/// Returns the manifold of an independent idle worker with one output.
pub(crate) fn idle(started: &Count) -> Manifold {
    Manifold::builder()
        .start_with(started.clone(), |started, (), _ctx| async move { Ok(Idle { started }) })
        .output(|idle| idle.started.get())
        .build()
}

/// Returns the manifold of an idle worker with inputs and one output.
pub(crate) fn user(inputs: Vec<Name<usize>>, started: &Count) -> Manifold {
    Manifold::builder()
        .inputs(inputs)
        .start_with(started.clone(), |started, _inputs, _ctx| async move { Ok(Idle { started }) })
        .output(|idle| idle.started.get())
        .build()
}

/// Returns a worker that asks for a bounce whenever it is told.
pub(crate) fn bouncing(again: &Arc<Notify>, started: &Count) -> Manifold {
    struct Bouncing {
        again: Arc<Notify>,
        started: Count,
    }
    impl Worker for Bouncing {
        async fn run(self, stop: Stop) -> Outcome {
            self.started.add();
            tokio::select! {
                biased;
                () = stop.wait() => Ok(()),
                () = self.again.notified() => Err(Exit::Bounce),
            }
        }
    }
    let config = (Arc::clone(again), started.clone());
    Manifold::builder()
        .start_with(
            config,
            |(again, started), (), _ctx| async move { Ok(Bouncing { again, started }) },
        )
        .output(|worker| worker.started.get())
        .build()
}

/// Returns the names `w0`, `w1` and so on.
pub(crate) fn names(count: usize) -> Vec<Name<usize>> {
    (0..count).map(|index| Name::parse(&format!("w{index}")).unwrap()).collect()
}

/// Begins an engine whose events are followed by a subscriber that never reads.
pub(crate) fn engine() -> (Engine, crankcase_engine::Events) {
    let engine = Engine::builder()
        .policy(Policy::default().bounce_delay(std::time::Duration::ZERO))
        .build()
        .unwrap();
    let events = engine.events();
    (engine, events)
}
