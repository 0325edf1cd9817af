//! Pauses of workers, and the record of parks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_engine::Origin;
use crankcase_status::wire::{Act, ControlRequest, Controlled, WorkerChange};
use crankcase_status::{ClientError, ControlConfig, Holder};
use parking_lot::Mutex;

use crate::world::{TestResult, World};

const PATH: &str = "/agent/store";

fn asking(path: &str) -> ControlRequest {
    ControlRequest { path: path.to_owned(), who: "ada".to_owned(), why: "to see".to_owned() }
}

/// Notes what it was asked for.
#[derive(Debug, Default)]
struct Notes(AssertUnwindSafe<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, what: &str, path: &str, by: Option<&Origin>) {
        let why = by.map_or("over", |by| by.why.as_str());
        self.0.lock().push(format!("{what} {path}: {why}"));
    }
}

#[async_trait]
impl Holder for Notes {
    async fn note_park(&self, path: &str, by: Option<&Origin>) -> Result<(), String> {
        self.note("park", path, by);
        Ok(())
    }

    async fn pause(&self, path: &str, by: Option<&Origin>) -> Result<(), String> {
        self.note("pause", path, by);
        Ok(())
    }
}

#[tokio::test]
async fn a_holder_hears_of_parks_and_pauses_of_workers_that_are_there() -> TestResult {
    let notes = Arc::new(Notes::default());
    let holder: Arc<dyn Holder> = Arc::<Notes>::clone(&notes);
    let world = World::start_with(ControlConfig::default().holder(holder)).await?;
    let client = world.client().await?;

    client.park(&asking(PATH)).await?;
    client.unpark(&asking(PATH)).await?;
    let paused = client.pause(&asking(PATH)).await?;
    let resumed = client.resume(&asking(PATH)).await?;
    let unknown = client.pause(&asking("/agent/stor")).await;

    assert_eq!(paused, Controlled::Paused(PATH.to_owned()));
    assert_eq!(resumed, Controlled::Resumed(PATH.to_owned()));
    assert!(matches!(unknown, Err(ClientError::UnknownPath { .. })), "{unknown:?}");
    let told = ["park", "pause"]
        .map(|what| [format!("{what} {PATH}: to see"), format!("{what} {PATH}: over")]);
    assert_eq!(*notes.0.lock(), told.concat());
    world.clean_kill().await
}

#[tokio::test]
async fn a_change_is_done_like_the_method_of_its_name_after_its_effect_was_said() -> TestResult {
    let holder: Arc<dyn Holder> = Arc::new(Notes::default());
    let world = World::start_with(ControlConfig::default().holder(holder)).await?;
    let client = world.client().await?;

    for (change, begin, done) in [
        (WorkerChange::Pause, "stops no worker: it runs on", Controlled::Paused(PATH.to_owned())),
        (WorkerChange::Resume, "stops no worker: it goes on", Controlled::Resumed(PATH.to_owned())),
        (WorkerChange::Act(Act::Park), "bounces no other", Controlled::Parked(PATH.to_owned())),
    ] {
        let effect = client.effect(change, PATH, 3, str::to_owned).await?;
        let changed = client.change(change, &asking(PATH)).await?;

        assert!(effect.starts_with(begin), "{effect}");
        assert_eq!(changed, done);
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_park_that_is_refused_is_not_kept() -> TestResult {
    let notes = Arc::new(Notes::default());
    let holder: Arc<dyn Holder> = Arc::<Notes>::clone(&notes);
    let world = World::start_with(ControlConfig::default().holder(holder)).await?;

    let refused = world.client().await?.park(&asking("/agent/stor")).await;

    assert!(matches!(refused, Err(ClientError::UnknownPath { .. })), "{refused:?}");
    assert_eq!(notes.0.lock().last().map(String::as_str), Some("park /agent/stor: over"));
    world.clean_kill().await
}

#[tokio::test]
async fn without_a_holder_no_worker_is_paused() -> TestResult {
    let world = World::start().await?;

    let refused = world.client().await?.pause(&asking(PATH)).await;

    let refused = refused.err().ok_or("it was paused")?.to_string();
    assert!(refused.contains("this agent pauses no worker"), "{refused}");
    world.clean_kill().await
}
