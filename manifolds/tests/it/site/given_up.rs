//! Visits that end early because their workers have to stop.

use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Found, Stale, Unit};
use crankcase_resources::report::EventKind;
use crankcase_resources::run::RuleEvents;
use crankcase_resources::{Action, BoxError, Context, Unfinished, Watch};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::site::double::with_kinds;
use crate::site::machine::{Machine, TestResult, quick, within};
use crate::site::seen::Seen;

/// A valve that is to be open. An action to open it ends when a test says so.
#[derive(Debug, Default)]
struct Valve {
    is_shut: Mutex<bool>,
    /// How many actions have begun.
    begun: watch::Sender<usize>,
    may_end: watch::Sender<bool>,
    signals: Mutex<Option<mpsc::Sender<Result<(), BoxError>>>>,
}

impl Valve {
    /// Shuts it, as somebody else would.
    fn shut(&self) -> TestResult {
        *self.is_shut.lock() = true;
        let signals = self.signals.lock().clone().ok_or("nobody watches it")?;
        Ok(signals.try_send(Ok(()))?)
    }
}

#[async_trait]
impl Unit for Valve {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        if *self.is_shut.lock() {
            let amiss = Stale::new(None).differs("open", false, true);
            return Ok(Found::Stale(amiss.action(Action::new("open"))));
        }
        Ok(Found::Valid(json!({})))
    }

    async fn act(&self, _: &Action, context: &Context) -> Result<(), Unfinished> {
        self.begun.send_modify(|begun| *begun += 1);
        let mut may_end = self.may_end.subscribe();
        let ended = async { may_end.wait_for(|may_end| *may_end).await.is_ok() };
        tokio::select! {
            biased;
            () = context.stop().wait() => return Err(Unfinished::Interrupted),
            is_open = ended => *self.is_shut.lock() = !is_open,
        }
        Ok(())
    }

    async fn watch(&self, _: &Context) -> Result<Watch, BoxError> {
        let (sender, signals) = mpsc::channel(8);
        *self.signals.lock() = Some(sender);
        Ok(Watch::never().signals(signals))
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_held_back_by_a_resource_that_is_bounced_during_its_action() -> TestResult {
    let [main, tap] = [(); 2].map(|()| Arc::new(Valve::default()));
    tap.may_end.send_replace(true);
    let kinds = with_kinds([
        ("main", Arc::clone(&main) as Arc<dyn Unit>),
        ("tap", Arc::clone(&tap) as Arc<dyn Unit>),
    ]);
    let site = "resources:\n  main: {type: main}\n  tap: {type: tap, dependencies: [main]}\n";
    let ((seen, observer), folder) = (Seen::pair(), tempfile::tempdir()?);
    let machine = Machine::observed(folder, site, (quick(), kinds), observer).await?;
    machine.running("tap").await?;
    let mut events = machine.resources().await?.events();

    main.shut()?;
    within(main.begun.subscribe().wait_for(|begun| *begun == 1)).await?;
    tap.shut()?;
    let waits = machine.degraded_by("tap", "waits for").await?;
    machine.bounce("main").await?;
    within(main.begun.subscribe().wait_for(|begun| *begun == 2)).await?;
    let early = *tap.begun.borrow();
    main.may_end.send_replace(true);
    within(tap.begun.subscribe().wait_for(|begun| *begun == 1)).await?;
    machine.stop().await?;

    assert_eq!((&*waits, early), ("waits for \"main\", which has something to do", 0));
    while let Some(notice) = events.try_next() {
        let text = format!("{notice:?}");
        assert!(!text.contains("held back"), "{text}");
    }
    let failed = seen.events().into_iter().find(|event| event.event == EventKind::Failed);
    assert_eq!(failed, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_action_that_a_bounce_interrupts_leaves_no_event_to_the_next_agent() -> TestResult {
    let valve = Arc::new(Valve::default());
    let kinds = with_kinds([("valve", Arc::clone(&valve) as Arc<dyn Unit>)]);
    let folder = tempfile::tempdir()?;
    let (observer, _events) = RuleEvents::new(None, folder.path().join("rules"));
    let (site, observer) = ("resources: {valve: {type: valve}}\n", Arc::new(observer));
    let machine = Machine::observed(folder, site, (quick(), kinds), observer).await?;
    machine.running("valve").await?;

    valve.shut()?;
    within(valve.begun.subscribe().wait_for(|begun| *begun == 1)).await?;
    let during = machine.read("rules/events.jsonl").unwrap_or_default();
    // Somebody else opens it, so the next worker has nothing to do.
    *valve.is_shut.lock() = false;
    machine.bounce("valve").await?;

    assert!(during.contains("\"begun\""), "{during}");
    assert_eq!(machine.read("rules/events.jsonl").as_deref(), Some(""));
    machine.stop().await
}
