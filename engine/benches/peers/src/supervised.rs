//! task-supervisor: named tasks that are started again after a failure.
//!
//! It has backoff with jitter, a limit of restarts, a stop timeout, and the state of each task by its
//! name. It has no inputs and outputs, so no order of starts and stops and no bounces of dependents;
//! no changes as one group; no reports, reasons or events; and no nesting. A restart after a failure
//! goes through a timer, also without a delay, and tokio's timers end on whole milliseconds: a row of
//! it would compare a delay with a cost, so restarts are by hand here.

use std::time::Duration;

use task_supervisor::{
    CancellationToken, SupervisedTask, SupervisorBuilder, SupervisorHandle, TaskResult,
};
use tokio::time::Instant;

use crate::engine::RESTARTS;
use crate::join_map::texts;
use crate::worker::Count;

#[derive(Clone)]
struct Idle {
    started: Count,
}

impl SupervisedTask for Idle {
    async fn run(self, cancel: CancellationToken) -> TaskResult {
        self.started.add();
        cancel.cancelled().await;
        Ok(())
    }
}

/// Starts a supervisor that has all its tasks from the beginning.
async fn start(names: Vec<String>) -> SupervisorHandle {
    let started = Count::new(names.len());
    let supervisor = names
        .iter()
        .fold(SupervisorBuilder::new(), |all, name| {
            all.with_task(name, Idle { started: started.clone() })
        })
        .spawn();
    started.reached().await;
    supervisor
}

/// Each task is awaited before the next is added.
pub(crate) async fn one_by_one(count: usize) -> Duration {
    let supervisor = SupervisorBuilder::new().spawn();
    let (names, started) = (texts(count), Count::new(count));
    let began = Instant::now();
    for name in &names {
        supervisor.add_task(name, Idle { started: started.clone() }).await.unwrap();
    }
    started.reached().await;
    let taken = began.elapsed();
    supervisor.shutdown().await.unwrap();
    taken
}

pub(crate) async fn at_once(count: usize) -> Duration {
    let names = texts(count);
    let began = Instant::now();
    let supervisor = start(names).await;
    let taken = began.elapsed();
    supervisor.shutdown().await.unwrap();
    taken
}

pub(crate) async fn stop(count: usize) -> Duration {
    let supervisor = start(texts(count)).await;
    let began = Instant::now();
    supervisor.shutdown().await.unwrap();
    began.elapsed()
}

/// Returns the time from asking for a restart until the next run of the task runs.
pub(crate) async fn restart(others: usize) -> Duration {
    let supervisor = start(texts(others)).await;
    let started = Count::new(1);
    supervisor.add_task("one", Idle { started: started.clone() }).await.unwrap();
    started.reached().await;
    let began = Instant::now();
    for _ in 0..RESTARTS {
        started.reset(1);
        supervisor.restart_task("one").await.unwrap();
        started.reached().await;
    }
    let taken = began.elapsed();
    supervisor.shutdown().await.unwrap();
    taken / RESTARTS
}
