//! What the schedule promises of a site that is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::{Backoff, EventKind};
use crankcase_resources::dynamic::{Config, Found, Stale, Unit};
use crankcase_resources::front::DependencyState;
use crankcase_resources::run::Schedule;
use crankcase_resources::{Action, BoxError, Context, Event, Observer, Unfinished, Watch};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::site::double::with_kinds;
use crate::site::machine::{Machine, TestResult, quick, within};

mod groups;

type Bus = mpsc::Sender<Result<(), BoxError>>;

/// The watches of resources, by name. A signal requests a look.
#[derive(Debug, Default)]
struct Signals(Mutex<BTreeMap<String, Bus>>);

impl Signals {
    fn watch(&self, context: &Context) -> Watch {
        let (bus, signals) = mpsc::channel(8);
        self.0.lock().insert(context.name().to_owned(), bus);
        Watch::never().signals(signals)
    }

    fn signal(&self, name: &str) -> TestResult {
        let bus = self.0.lock().get(name).cloned().ok_or("nobody watches it")?;
        Ok(bus.try_send(Ok(()))?)
    }
}

/// Returns the finding of a resource that wants one action.
fn wants(action: &str) -> Found {
    Found::Stale(Stale::new(None).differs("it", "wrong", "right").action(Action::new(action)))
}

/// Returns the version in the state of the only dependency.
fn seen(context: &Context) -> u64 {
    match context.dependencies() {
        [used] => match &used.state {
            DependencyState::Known(state) => state["version"].as_u64().unwrap_or_default(),
            _ => 0,
        },
        _ => 0,
    }
}

/// A resource whose first actions fail.
#[derive(Debug, Default)]
struct Failing {
    /// How many actions fail.
    fails: usize,
    /// Whether the last of these is enough all the same.
    is_enough: bool,
    tries: watch::Sender<usize>,
}

#[async_trait]
impl Unit for Failing {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        let needed = self.fails + usize::from(!self.is_enough);
        let is_done = *self.tries.borrow() >= needed;
        Ok(if is_done { Found::Valid(json!({})) } else { wants("try") })
    }

    async fn act(&self, _: &Action, _: &Context) -> Result<(), Unfinished> {
        self.tries.send_modify(|tries| *tries += 1);
        if *self.tries.borrow() > self.fails { Ok(()) } else { Err("no luck".into()) }
    }
}

/// A resource that rings when it is notified.
#[derive(Debug, Default)]
struct Bell(watch::Sender<usize>);

#[async_trait]
impl Unit for Bell {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({})))
    }

    async fn act(&self, _: &Action, _: &Context) -> Result<(), Unfinished> {
        self.0.send_modify(|rings| *rings += 1);
        Ok(())
    }

    fn refresh(&self, _: &[Action], _: &Context) -> Option<Action> {
        Some(Action::new("ring"))
    }
}

/// Keeps this source, and a bell that it notifies. Returns how often each has acted when all is
/// settled.
async fn rung(source: Failing) -> TestResult<(usize, usize)> {
    let bell = Bell::default();
    let (tried, rings) = (source.tries.subscribe(), bell.0.subscribe());
    let source = Arc::new(source);
    let kinds = with_kinds([("source", source), ("bell", Arc::new(bell))]);
    let site = "resources:\n  source: {type: source, notify: [bell]}\n  bell: {type: bell}\n";
    let machine = Machine::with_kinds(site, kinds).await?;
    machine.running("source").await?;
    within(rings.clone().wait_for(|rings| *rings > 0)).await?;

    machine.settled().await?;

    assert!(machine.is_on_record(|loaded| loaded.pending.is_empty())?);
    let (tries, rings) = (*tried.borrow(), *rings.borrow());
    Ok((tries, rings))
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_action_notifies_is_notified_when_its_source_is_as_declared() -> TestResult {
    assert_eq!(rung(Failing { fails: 1, is_enough: true, ..Failing::default() }).await?, (1, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_again_and_again_notifies_once_when_it_has_succeeded() -> TestResult {
    assert_eq!(rung(Failing { fails: 3, is_enough: false, ..Failing::default() }).await?, (4, 1));
    Ok(())
}

/// A resource whose state is a version.
#[derive(Debug, Default)]
struct Versioned {
    version: Mutex<u64>,
    signals: Signals,
}

#[async_trait]
impl Unit for Versioned {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({"version": *self.version.lock()})))
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(self.signals.watch(context))
    }
}

/// A resource whose looks take as long as a test wants. It acts with the version that it was shown.
#[derive(Debug, Default)]
struct Slow {
    looks: watch::Sender<usize>,
    /// How many looks may end.
    may_end: watch::Sender<usize>,
    has_drifted: Mutex<bool>,
    acted: Mutex<Vec<u64>>,
    signals: Signals,
}

#[async_trait]
impl Unit for Slow {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        self.looks.send_modify(|looks| *looks += 1);
        let look = *self.looks.borrow();
        self.may_end.subscribe().wait_for(|may_end| *may_end >= look).await?;
        let is_drifted =
            *self.has_drifted.lock() || self.acted.lock().last() != Some(&seen(context));
        Ok(if is_drifted { wants("follow") } else { Found::Valid(json!({})) })
    }

    async fn act(&self, _: &Action, context: &Context) -> Result<(), Unfinished> {
        *self.has_drifted.lock() = false;
        self.acted.lock().push(seen(context));
        Ok(())
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(self.signals.watch(context))
    }
}

/// A resource that tells which versions it has seen; it is always as declared.
#[derive(Debug, Default)]
struct Witness(watch::Sender<u64>);

#[async_trait]
impl Unit for Witness {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        self.0.send_replace(seen(context));
        Ok(Found::Valid(json!({})))
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_acts_on_a_state_that_was_replaced_during_its_look() -> TestResult {
    let (source, slow) = (Arc::new(Versioned::default()), Arc::new(Slow::default()));
    let witness = Arc::new(Witness::default());
    *source.version.lock() = 1;
    // The first look, and the one after its action.
    slow.may_end.send_replace(2);
    let kinds = with_kinds([
        ("source", Arc::clone(&source) as Arc<dyn Unit>),
        ("slow", Arc::clone(&slow) as Arc<dyn Unit>),
        ("witness", Arc::clone(&witness) as Arc<dyn Unit>),
    ]);
    let site = "resources:\n  source: {type: source}\n  slow: {type: slow, dependencies: [source]}\n  \
                witness: {type: witness, dependencies: [source]}\n";
    let machine = Machine::with_kinds(site, kinds).await?;
    machine.running("slow").await?;
    machine.running("witness").await?;

    *slow.has_drifted.lock() = true;
    slow.signals.signal("slow")?;
    within(slow.looks.subscribe().wait_for(|looks| *looks == 3)).await?;
    *source.version.lock() = 2;
    source.signals.signal("source")?;
    // The new state is there, and the look has begun with the old one.
    within(witness.0.subscribe().wait_for(|version| *version == 2)).await?;
    slow.may_end.send_replace(usize::MAX);
    machine.settled().await?;

    assert_eq!(*slow.acted.lock(), [1, 2]);
    Ok(())
}

/// Whether there is power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Power {
    #[default]
    On,
    Off,
}

/// The source of the power of a lamp. Only a look at it shows that it is off.
#[derive(Debug, Default)]
struct Plant {
    power: watch::Sender<Power>,
    signals: Signals,
}

#[async_trait]
impl Unit for Plant {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(match *self.power.borrow() {
            Power::On => Found::Valid(json!({})),
            Power::Off => wants("switch_on"),
        })
    }

    async fn act(&self, _: &Action, _: &Context) -> Result<(), Unfinished> {
        self.power.send_replace(Power::On);
        Ok(())
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(self.signals.watch(context))
    }
}

/// A resource that cannot be looked at without power.
#[derive(Debug)]
struct Lamp {
    power: watch::Receiver<Power>,
    signals: Signals,
}

#[async_trait]
impl Unit for Lamp {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        match *self.power.borrow() {
            Power::On => Ok(Found::Valid(json!({}))),
            Power::Off => Err("it is dark".into()),
        }
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(self.signals.watch(context))
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_repaired_wakes_what_has_failed_at_any_distance() -> TestResult {
    let plant = Arc::new(Plant::default());
    let lamp = Arc::new(Lamp { power: plant.power.subscribe(), signals: Signals::default() });
    let kinds = with_kinds([
        ("plant", Arc::clone(&plant) as Arc<dyn Unit>),
        ("lamp", Arc::clone(&lamp) as Arc<dyn Unit>),
    ]);
    let site = "resources:\n  plant: {type: plant}\n  wire: {type: noop, dependencies: [plant]}\n  \
                lamp: {type: lamp, dependencies: [wire]}\n";
    // No failed resource is tried again before the end.
    let day = Duration::from_secs(24 * 60 * 60);
    let backoff = Backoff::default().initial(day).max(day);
    let machine = Machine::begin(tempfile::tempdir()?, site, (backoff, kinds)).await?;
    machine.running("lamp").await?;
    let mut events = machine.resources().await?.events();

    plant.power.send_replace(Power::Off);
    lamp.signals.signal("lamp")?;
    machine.degraded_by("lamp", "dark").await?;
    plant.signals.signal("plant")?;

    machine.happened(&mut events, "lamp", &EventKind::Health { degraded: None }).await;
    machine.stop().await
}

/// The resources whose actions the observer saw begin.
#[derive(Debug, Default)]
struct Beginnings(Mutex<BTreeSet<String>>);

impl Observer for Beginnings {
    fn begins(&self, event: &Event) {
        self.0.lock().insert(event.resource.clone());
    }
}

/// A resource that a test says how it is.
#[derive(Debug, Default)]
struct Switch {
    is_off: Mutex<bool>,
    looks: watch::Sender<usize>,
    actions: Mutex<usize>,
    reversals: Mutex<usize>,
    /// With it, somebody switches it on and has it visited anew when it is about to ask.
    board: Mutex<Option<Schedule>>,
    signals: Signals,
}

#[async_trait]
impl Unit for Switch {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        self.looks.send_modify(|looks| *looks += 1);
        Ok(if *self.is_off.lock() { wants("switch_on") } else { Found::Valid(json!({})) })
    }

    fn group(&self) -> Option<String> {
        if let Some(board) = &*self.board.lock() {
            *self.is_off.lock() = false;
            board.renew(["switch"], || {});
        }
        None
    }

    async fn reversal(&self, _: &Context) -> Result<Option<Config>, BoxError> {
        *self.reversals.lock() += 1;
        Ok(None)
    }

    async fn act(&self, _: &Action, _: &Context) -> Result<(), Unfinished> {
        *self.actions.lock() += 1;
        Ok(())
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(self.signals.watch(context))
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_may_not_act_after_all_leaves_no_trace() -> TestResult {
    let (switch, beginnings) = (Arc::new(Switch::default()), Arc::new(Beginnings::default()));
    let kinds = with_kinds([("switch", Arc::clone(&switch) as Arc<dyn Unit>)]);
    let site = "resources:\n  switch: {type: switch, meta: {reverse: true}}\n";
    let (setting, observer) = ((quick(), kinds), Arc::clone(&beginnings) as Arc<dyn Observer>);
    let machine = Machine::observed(tempfile::tempdir()?, site, setting, observer).await?;
    machine.running("switch").await?;
    *switch.board.lock() = Some(machine.board().await?);

    *switch.is_off.lock() = true;
    switch.signals.signal("switch")?;
    within(switch.looks.subscribe().wait_for(|looks| *looks == 3)).await?;
    machine.settled().await?;

    assert_eq!(*beginnings.0.lock(), BTreeSet::new());
    assert_eq!((*switch.reversals.lock(), *switch.actions.lock()), (0, 0));
    Ok(())
}

/// A resource whose action is interrupted each time, although nobody stops its worker.
#[derive(Debug)]
struct Interrupted;

#[async_trait]
impl Unit for Interrupted {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(wants("try"))
    }

    async fn act(&self, _: &Action, _: &Context) -> Result<(), Unfinished> {
        Err(Unfinished::Interrupted)
    }
}

/// Counts the actions that are seen to fail again.
#[derive(Debug, Default)]
struct Repeats(watch::Sender<usize>);

impl Observer for Repeats {
    fn failed_again(&self, _: &str) {
        self.0.send_modify(|repeats| *repeats += 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_that_is_interrupted_again_leaves_no_event_open() -> TestResult {
    let repeats = Arc::new(Repeats::default());
    let kinds = with_kinds([("it", Arc::new(Interrupted) as Arc<dyn Unit>)]);
    let (setting, observer) = ((quick(), kinds), Arc::clone(&repeats) as Arc<dyn Observer>);
    let site = "resources:\n  it: {type: it}\n";
    let machine = Machine::observed(tempfile::tempdir()?, site, setting, observer).await?;

    within(repeats.0.subscribe().wait_for(|repeats| *repeats > 0)).await?;
    machine.stop().await
}
