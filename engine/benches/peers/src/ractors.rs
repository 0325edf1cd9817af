//! ractor: actors with names, mailboxes and supervisors.
//!
//! A supervisor is told that one of its actors has failed; what starts it again is the user's own
//! code, here without a delay. Names are those of the whole process. It has no restart by hand, no
//! backoff and no limit of restarts; no inputs and outputs, so no order of starts and stops and no bounces of dependents;
//! no changes as one group; no reports and reasons. It has messages, which the engine has not.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;

use crate::engine::RESTARTS;
use crate::join_map::texts;
use crate::worker::Count;

/// An actor that fails with the first message.
struct Idle;

impl Actor for Idle {
    type Msg = ();
    type State = Count;
    type Arguments = Count;

    async fn pre_start(
        &self,
        _myself: ActorRef<()>,
        started: Count,
    ) -> Result<Count, ActorProcessingErr> {
        Ok(started)
    }

    /// The first thing that runs in the actor's own task.
    async fn post_start(
        &self,
        _myself: ActorRef<()>,
        started: &mut Count,
    ) -> Result<(), ActorProcessingErr> {
        started.add();
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<()>,
        (): (),
        _started: &mut Count,
    ) -> Result<(), ActorProcessingErr> {
        Err("it fails".into())
    }
}

/// Starts an actor that has failed again.
struct Supervisor;

impl Actor for Supervisor {
    type Msg = ();
    type State = Count;
    type Arguments = Count;

    async fn pre_start(
        &self,
        _myself: ActorRef<()>,
        started: Count,
    ) -> Result<Count, ActorProcessingErr> {
        Ok(started)
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        started: &mut Count,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(failed, _error) = event {
            let supervisor = myself.get_cell();
            Actor::spawn_linked(failed.get_name(), Idle, started.clone(), supervisor).await?;
        }
        Ok(())
    }
}

async fn supervisor(started: &Count) -> ActorRef<()> {
    Actor::spawn(None, Supervisor, started.clone()).await.unwrap().0
}

/// Starts actors without waiting for each, and returns their supervisor when all run.
async fn start(names: Vec<String>) -> ActorRef<()> {
    let started = Count::new(names.len());
    let supervisor = supervisor(&started).await;
    for name in names {
        let cell = supervisor.get_cell();
        drop(ractor::ActorRuntime::spawn_linked_instant(Some(name), Idle, started.clone(), cell));
    }
    started.reached().await;
    supervisor
}

async fn end(supervisor: &ActorRef<()>) {
    supervisor.stop_children_and_wait(None, None).await;
    supervisor.stop_and_wait(None, None).await.unwrap();
}

/// Each actor is awaited before the next is spawned.
pub(crate) async fn one_by_one(count: usize) -> Duration {
    let (names, started) = (texts(count), Count::new(count));
    let supervisor = supervisor(&started).await;
    let began = Instant::now();
    for name in names {
        let cell = supervisor.get_cell();
        Actor::spawn_linked(Some(name), Idle, started.clone(), cell).await.unwrap();
    }
    started.reached().await;
    let taken = began.elapsed();
    end(&supervisor).await;
    taken
}

pub(crate) async fn at_once(count: usize) -> Duration {
    let names = texts(count);
    let began = Instant::now();
    let supervisor = start(names).await;
    let taken = began.elapsed();
    end(&supervisor).await;
    taken
}

pub(crate) async fn stop(count: usize) -> Duration {
    let supervisor = start(texts(count)).await;
    let began = Instant::now();
    end(&supervisor).await;
    began.elapsed()
}

/// Returns the time from telling an actor to fail until its successor runs.
pub(crate) async fn restart_failed(others: usize) -> Duration {
    let others = start(texts(others)).await;
    let started = Count::new(1);
    let supervisor = supervisor(&started).await;
    let name = "one".to_owned();
    let cell = supervisor.get_cell();
    Actor::spawn_linked(Some(name.clone()), Idle, started.clone(), cell).await.unwrap();
    started.reached().await;
    let began = Instant::now();
    for _ in 0..RESTARTS {
        started.reset(1);
        ActorRef::<()>::where_is(&name).unwrap().cast(()).unwrap();
        started.reached().await;
    }
    let taken = began.elapsed();
    end(&supervisor).await;
    end(&others).await;
    taken / RESTARTS
}
