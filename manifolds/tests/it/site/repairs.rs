//! Resources that are mended again and again.

use std::fs;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::Backoff;
use crankcase_manifest::{SeenFacts, SiteFacts, SiteFiles};
use crankcase_resources::dynamic::{Found, Stale, Unit};
use crankcase_resources::{Action, BoxError, Context, Unfinished, Watch};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult};

/// A resource that something else changes as soon as it is mended.
#[derive(Debug, Default)]
struct Fought {
    repairs: watch::Sender<Vec<Instant>>,
    is_mended: Mutex<bool>,
}

#[async_trait]
impl Unit for Fought {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        // It is as declared only when it is looked at for the first time after a repair.
        if std::mem::take(&mut *self.is_mended.lock()) {
            return Ok(Found::Valid(json!({})));
        }
        *self.is_mended.lock() = true;
        let amiss = Stale::new(None).differs("it", "wrong", "right");
        Ok(Found::Stale(amiss.action(Action::new("mend"))))
    }

    async fn act(&self, _: &Action, _: &Context) -> Result<(), Unfinished> {
        self.repairs.send_modify(|repairs| repairs.push(Instant::now()));
        Ok(())
    }

    async fn watch(&self, _: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().every(Duration::from_millis(200)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_fought_over_is_mended_less_and_less_often() -> TestResult {
    let fought = Fought::default();
    let mut repairs = fought.repairs.subscribe();
    let folder = tempfile::tempdir()?;
    let backoff = Backoff::default().jitter(0.0);
    let setting = (backoff, with_double(fought));
    let machine = Machine::begin(folder, "resources: {it: {type: double}}", setting).await?;

    let repairs = repairs.wait_for(|repairs| repairs.len() == 30).await?.clone();

    let waits: Vec<_> = repairs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
    assert!(waits[28] >= Duration::from_secs(120), "{waits:?}");
    machine.stop().await
}

/// Facts that never change.
#[derive(Debug)]
struct Said(Value);

#[async_trait]
impl SiteFacts for Said {
    fn current(&self) -> SeenFacts {
        SeenFacts { revision: 1, value: Arc::new(self.0.clone()), ..SeenFacts::default() }
    }

    async fn changed(&self, _: u64) {
        pending::<()>().await;
    }
}

/// Returns the waits between 8 repairs of a resource that is kept as facts say.
async fn waits(tuning: Value) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let fought = Fought::default();
    let mut repairs = fought.repairs.subscribe();
    let folder = tempfile::tempdir()?;
    let kinds = with_double(fought);
    let path = folder.path().join("tuned.yaml");
    fs::write(&path, "resources: {it: {type: double}}\n")?;
    let mut files = SiteFiles::new(vec![path], kinds.clone());
    files.facts = Arc::new(Said(json!({"agent": {"resources": {"by_name": {"it": tuning}}}})));
    let machine = Machine::begin(folder, "resources: {}", (Backoff::default(), kinds)).await?;
    machine.provide(Arc::new(files.load()?)).await?;

    let repairs = repairs.wait_for(|repairs| repairs.len() == 8).await?.clone();

    machine.stop().await?;
    Ok(repairs.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

#[tokio::test(start_paused = true)]
async fn facts_say_how_many_repairs_in_a_row_are_made_at_once() -> TestResult {
    let backoff = json!({"initial": "10s", "factor": 1, "jitter": 0});

    let few = waits(json!({"repairs": 2, "backoff": backoff})).await?;

    let is_held_back = |wait: &Duration| *wait >= Duration::from_secs(10);
    // The first change is no repair: two repairs are made at once, and the next one waits.
    assert_eq!(few.iter().position(is_held_back), Some(3), "{few:?}");
    assert!(few[3..].iter().all(is_held_back), "{few:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn facts_say_how_soon_a_repair_is_in_a_row() -> TestResult {
    let backoff = json!({"initial": "10s", "factor": 1, "jitter": 0, "reset_after": "100ms"});

    let alone = waits(json!({"repairs": 1, "backoff": backoff})).await?;

    assert!(alone.iter().all(|wait| *wait < Duration::from_secs(1)), "{alone:?}");
    Ok(())
}
