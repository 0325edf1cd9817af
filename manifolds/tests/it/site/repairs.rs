//! Resources that are mended again and again.

use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::Backoff;
use crankcase_resources::{Action, Amiss, BoxError, Context, Found, Unfinished, Unit, Watch};
use parking_lot::Mutex;
use serde_json::json;
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
        let amiss = Amiss::new(None).differs("it", "wrong", "right");
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
