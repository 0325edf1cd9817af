//! Those that own workers, and the worker that all of them own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crankcase_engine::{
    Change, Engine, Events, Manifold, Name, Outcome, Policy, Stop, Stopper, Worker,
};
use crankcase_workers::{Catacomb, CatacombConfig, ChildSpec, Runner, RunnerConfig};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Something that owns idle workers.
pub(crate) trait Owner: Sized {
    /// Starts a worker for each name; returns when all run.
    fn start(names: Vec<String>) -> impl Future<Output = Self>;

    /// Stops all; returns when all have ended.
    fn stop(self) -> impl Future<Output = ()>;
}

/// Returns the names `w0`, `w1` and so on.
pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("w{index}")).collect()
}

/// The runtime that all run on: `CRANKCASE_BENCH_RUNTIME` is `current-thread`, or by default
/// `multi-thread` with two threads.
pub(crate) fn runtime() -> Runtime {
    let mut builder = match std::env::var("CRANKCASE_BENCH_RUNTIME").as_deref() {
        Ok("current-thread") => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Tells when all workers run.
#[derive(Clone)]
struct Count {
    inner: Arc<(AtomicUsize, usize, Notify)>,
}

impl Count {
    fn new(goal: usize) -> Self {
        Self { inner: Arc::new((AtomicUsize::new(0), goal, Notify::new())) }
    }

    fn add(&self) {
        let (count, goal, notify) = &*self.inner;
        if count.fetch_add(1, Ordering::AcqRel) + 1 == *goal {
            notify.notify_one();
        }
    }

    async fn reached(&self) {
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

/// Returns the manifold of a bare idle worker: no inputs, no outputs.
fn idle(started: &Count) -> Manifold {
    let start = |started, (), _ctx| async move { Ok(Idle { started }) };
    Manifold::builder().start_with(started.clone(), start).build()
}

/// An engine whose events are followed by a subscriber that never reads.
fn engine() -> (Engine, Events) {
    let engine = Engine::builder()
        .policy(Policy::default().bounce_delay(std::time::Duration::ZERO))
        .build()
        .unwrap();
    let events = engine.events();
    (engine, events)
}

/// An engine whose workers are installed one by one.
pub(crate) struct EngineOwner(
    Engine,
    #[expect(dead_code, reason = "it follows the events")] Events,
);

impl Owner for EngineOwner {
    async fn start(names: Vec<String>) -> Self {
        let (engine, events) = engine();
        let started = Count::new(names.len());
        for name in names {
            let name = Name::<()>::parse(&name).unwrap();
            engine.install(name, idle(&started)).await.unwrap();
        }
        started.reached().await;
        Self(engine, events)
    }

    async fn stop(self) {
        self.0.stop().await.unwrap();
    }
}

/// An engine whose workers are installed as one group.
pub(crate) struct GroupOwner(EngineOwner);

impl Owner for GroupOwner {
    async fn start(names: Vec<String>) -> Self {
        let (engine, events) = engine();
        let started = Count::new(names.len());
        let change = names.into_iter().fold(Change::new(), |change, name| {
            change.install(Name::<()>::parse(&name).unwrap(), idle(&started))
        });
        engine.apply(change).await.unwrap();
        started.reached().await;
        Self(EngineOwner(engine, events))
    }

    async fn stop(self) {
        self.0.stop().await;
    }
}

/// A worker that runs in a task of its own.
struct Running {
    stopper: Stopper,
    task: JoinSet<Outcome>,
}

impl Running {
    fn new(worker: impl Worker) -> Self {
        let (stopper, stop) = Stop::pair();
        let mut task = JoinSet::new();
        task.spawn(worker.run(stop));
        Self { stopper, task }
    }

    async fn stop(mut self) {
        self.stopper.stop();
        self.task.join_next().await.unwrap().unwrap().unwrap();
    }
}

pub(crate) struct CatacombOwner(Running);

impl Owner for CatacombOwner {
    async fn start(names: Vec<String>) -> Self {
        let catacomb = Catacomb::new(CatacombConfig::default());
        let children = catacomb.handle();
        let running = Running::new(catacomb);
        let started = Count::new(names.len());
        for name in names {
            children.add(&name, Idle { started: started.clone() }).unwrap();
        }
        started.reached().await;
        Self(running)
    }

    async fn stop(self) {
        self.0.stop().await;
    }
}

pub(crate) struct RunnerOwner(Running);

impl Owner for RunnerOwner {
    async fn start(names: Vec<String>) -> Self {
        let runner = Runner::new(RunnerConfig::default()).unwrap();
        let workers = runner.handle();
        let running = Running::new(runner);
        let started = Count::new(names.len());
        for name in names {
            let started = started.clone();
            let spec = ChildSpec::permanent(move |_ctx| {
                let started = started.clone();
                async move { Ok(Idle { started }) }
            });
            workers.start(&name, spec).await.unwrap();
        }
        started.reached().await;
        Self(running)
    }

    async fn stop(self) {
        self.0.stop().await;
    }
}
