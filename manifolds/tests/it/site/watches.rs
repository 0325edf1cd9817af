//! Resources that are watched by signals of their kind, and at instants.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use crankcase_engine::Backoff;
use crankcase_resources::dynamic::{Found, Unit};
use crankcase_resources::{BoxError, Context, Watch};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult, within};

const SITE: &str = "resources: {it: {type: double}}";

type Signals = mpsc::Receiver<Result<(), BoxError>>;
type Bus = mpsc::Sender<Result<(), BoxError>>;

/// Returns a channel that holds as many signals as a test sends.
fn bus() -> (Bus, Signals) {
    mpsc::channel(8)
}

/// A resource that listens to channels, one after the other; it is always as declared.
#[derive(Debug, Default)]
struct Listening {
    channels: Mutex<Vec<Signals>>,
    /// When it was asked how it is watched.
    asked: watch::Sender<Vec<Instant>>,
    looks: watch::Sender<usize>,
    /// Told of the first look while it is under way.
    first: Mutex<Option<Bus>>,
}

#[async_trait]
impl Unit for Listening {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        if let Some(bus) = self.first.lock().take() {
            bus.try_send(Ok(()))?;
        }
        self.looks.send_modify(|looks| *looks += 1);
        Ok(Found::Valid(json!({})))
    }

    async fn watch(&self, _: &Context) -> Result<Watch, BoxError> {
        self.asked.send_modify(|asked| asked.push(Instant::now()));
        let signals = self.channels.lock().pop().ok_or("there is no bus")?;
        Ok(Watch::never().signals(signals))
    }
}

#[tokio::test]
async fn a_signal_of_the_kind_has_the_resource_looked_at() -> TestResult {
    let (bus, signals) = bus();
    let listening = Listening { channels: Mutex::new(vec![signals]), ..Listening::default() };
    let mut looks = listening.looks.subscribe();
    let machine = Machine::with_kinds(SITE, with_double(listening)).await?;
    within(looks.wait_for(|looks| *looks == 1)).await?;

    bus.try_send(Ok(()))?;
    bus.try_send(Ok(()))?;

    within(looks.wait_for(|looks| *looks > 1)).await?;
    machine.stop().await
}

#[tokio::test]
async fn a_signal_during_the_first_look_is_not_lost() -> TestResult {
    let (bus, signals) = bus();
    let listening = Listening {
        channels: Mutex::new(vec![signals]),
        first: Mutex::new(Some(bus.clone())),
        ..Listening::default()
    };
    let mut looks = listening.looks.subscribe();

    let machine = Machine::with_kinds(SITE, with_double(listening)).await?;

    within(looks.wait_for(|looks| *looks == 2)).await?;
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_said_and_asked_for_anew() -> TestResult {
    let ((bus, signals), (other, later)) = (bus(), bus());
    let channels = Mutex::new(vec![later, signals]);
    let listening = Listening { channels, ..Listening::default() };
    let (mut asked, mut looks) = (listening.asked.subscribe(), listening.looks.subscribe());
    let backoff = Backoff::default().initial(Duration::from_secs(10)).jitter(0.0);
    let setting = (backoff, with_double(listening));
    let machine = Machine::begin(tempfile::tempdir()?, SITE, setting).await?;
    within(looks.wait_for(|looks| *looks == 1)).await?;

    bus.try_send(Err("the bus is full of smoke".into()))?;
    machine.degraded_by("it", "its watch has failed: the bus is full of smoke").await?;
    within(asked.wait_for(|asked| asked.len() == 2)).await?;
    machine.running("it").await?;
    let before = *looks.borrow_and_update();
    other.try_send(Ok(()))?;

    within(looks.wait_for(|looks| *looks > before)).await?;
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_be_had_is_asked_for_less_and_less_often() -> TestResult {
    let listening = Listening::default();
    let (mut asked, looks) = (listening.asked.subscribe(), listening.looks.subscribe());
    let setting = (Backoff::default().jitter(0.0), with_double(listening));
    let machine = Machine::begin(tempfile::tempdir()?, SITE, setting).await?;

    let asked = asked.wait_for(|asked| asked.len() == 12).await?.clone();

    let waits: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
    assert!(waits[10] > waits[0] * 8, "{waits:?}");
    assert_eq!(*looks.borrow(), 0, "it was looked at though nothing watches it");
    machine.degraded_by("it", "cannot watch it: there is no bus").await?;
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_again_and_again_is_asked_for_less_and_less_often() -> TestResult {
    let channels = (0..12).map(|_| bus().1).collect();
    let listening = Listening { channels: Mutex::new(channels), ..Listening::default() };
    let mut asked = listening.asked.subscribe();
    let setting = (Backoff::default().jitter(0.0), with_double(listening));
    let machine = Machine::begin(tempfile::tempdir()?, SITE, setting).await?;

    let asked = asked.wait_for(|asked| asked.len() == 12).await?.clone();

    let waits: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted() && waits[10] > waits[0] * 8, "{waits:?}");
    machine.stop().await
}

/// A resource that is to be looked at soon after each look, and not for a day otherwise.
#[derive(Debug, Default)]
struct Timed {
    looks: watch::Sender<usize>,
}

#[async_trait]
impl Unit for Timed {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        self.looks.send_modify(|looks| *looks += 1);
        Ok(Found::Valid(json!({})))
    }

    async fn watch(&self, _: &Context) -> Result<Watch, BoxError> {
        let soon = |now: SystemTime| now.checked_add(Duration::from_millis(20));
        Ok(Watch::never().instants(|_| None).instants(soon))
    }
}

#[tokio::test]
async fn a_resource_is_looked_at_at_its_instants() -> TestResult {
    let timed = Timed::default();
    let mut looks = timed.looks.subscribe();
    let machine = Machine::with_kinds(SITE, with_double(timed)).await?;

    within(looks.wait_for(|looks| *looks == 4)).await?;

    machine.stop().await
}
