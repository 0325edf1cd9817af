use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Exit, Origin, Outcome, Stop};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::apply::halting::Halting;
use crate::converge::not_known;
use crate::declaration::{Declaration, DependencyState, Rendered, States};
use crate::look::{claim, context, render};
use crate::reconcile::held::{Held, Judgement};
use crate::reconcile::notices::{Bell, State, Told};
use crate::reconcile::pace::Pace;
use crate::reconcile::repairs::Repairs;
use crate::reconcile::said;
use crate::reconcile::watching::{Signal, any, renewed};
use crate::reconcile::{Links, Reconcile};

/// What is said of a resource that is mended again and again.
const FOUGHT_OVER: &str = "something else changes it again and again; it is mended less often";

/// The worker of one resource.
pub(super) struct Reconciler<F> {
    name: String,
    setting: Reconcile,
    links: Links,
    stop: Stop,
    halting: Halting,
    bell: Bell,
    random: StdRng,
    /// How many rounds in a row have failed.
    failures: u32,
    repairs: Repairs,
    pace: Pace,
    /// The last states of the dependencies, by alias.
    known: BTreeMap<String, State>,
    /// What the resource was last made as declared by: what differs after that is drift.
    made_by: Option<Basis>,
    held: Option<Held>,
    state: Option<watch::Sender<State>>,
    offer: Option<F>,
}

/// Why a worker goes on.
enum Cause {
    Stop,
    /// What it is made of or asked for may have changed.
    News,
    /// The resource itself may have changed, as its watches say.
    Seen,
    /// It has waited for long enough.
    Time,
    Ended(Exit),
}

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    pub(super) fn new(setting: Reconcile, links: Links, offer: F, stop: Stop) -> Self {
        let name = links.declaration.borrow().name.clone();
        Self {
            bell: links.notices.bell(&name),
            random: StdRng::seed_from_u64(setting.seed ^ seed_of(&name)),
            halting: Halting::new(stop.clone(), false),
            failures: 0,
            repairs: Repairs::new(setting.backoff.reset_after),
            pace: Pace::default(),
            known: BTreeMap::new(),
            made_by: None,
            held: None,
            state: None,
            offer: Some(offer),
            name,
            setting,
            links,
            stop,
        }
    }

    /// Keeps the resource until the worker is told to stop, or the engine is to decide.
    pub(super) async fn run(&mut self) -> Outcome {
        let mut is_seen = false;
        self.bell.begin();
        loop {
            let began = Instant::now();
            let round = self.round().await;
            if self.stop.is_stopped() {
                return Ok(());
            }
            if is_seen && round.as_ref().is_ok_and(|judgement| !judgement.is_changed) {
                self.pace.spend(began.elapsed());
            }
            let delay = self.judge(round)?;
            self.bell.rest();
            let cause = self.wait(delay).await;
            is_seen = matches!(cause, Cause::Seen);
            match cause {
                Cause::Stop => return Ok(()),
                Cause::News | Cause::Seen => self.bell.begin(),
                Cause::Time => {}
                Cause::Ended(exit) => return Err(exit),
            }
        }
    }

    /// Ends what is held.
    pub(super) async fn close(self) {
        if let Some(held) = self.held {
            held.close().await;
        }
    }

    /// Looks at the resource, and makes it as declared.
    async fn round(&mut self) -> Result<Judgement, Failure> {
        let declaration = Arc::clone(&self.links.declaration.borrow_and_update());
        let told = self.bell.pending();
        self.learn(&declaration, told.as_ref());
        let was_held = self.held.is_some();
        let is_new = self.hold(&declaration).await?;
        let basis = Basis { declaration: Arc::clone(&declaration), states: self.known.clone() };
        let is_drift = !is_new && self.made_by.as_ref() == Some(&basis);
        let Some(held) = &mut self.held else { return Ok(Judgement::default()) };
        held.watching.renew(&self.stop).await;
        let mut judgement =
            Judgement::converge(&held.opened, &self.halting, declaration.noop, told.is_some())
                .await;
        said::log(&self.name, &judgement.output);
        let state = judgement.state.take().map(|value| self.links.notices.state(value));
        if judgement.is_changed {
            tracing::info!(resource = self.name, actions = ?judgement.actions, "resource changed");
            self.links.notices.tell(&self.name, state.as_ref());
            let (text, origin) = noted(&judgement, is_drift, told.as_ref());
            self.links.journal.note(text, origin);
            if is_drift && told.is_none() {
                self.repairs.note();
            }
        }
        if let Some(failure) = judgement.failure.take() {
            return Err(Failure::Again(failure));
        }
        self.made_by = Some(basis);
        if declaration.noop {
            let amiss = held.amiss().map(|amiss| format!("it is left alone (noop): {amiss}"));
            judgement.remark = judgement.remark.or(amiss);
        } else {
            let keeper = (&self.stop, self.setting.ledger.as_ref());
            let is_other = is_new && was_held || held.program.is_some();
            let started = held.supervise(&self.name, keeper, told.is_some()).await;
            let started = started.map_err(|err| Failure::Ended(Exit::failed(err)))?;
            if let Some(running) = started {
                let why = match self.links.program.begin(running) {
                    Some(end) => end,
                    None if is_other => "its config has changed".to_owned(),
                    None => "it did not run".to_owned(),
                };
                let origin = told.as_ref().map_or_else(|| by_agent(&why), Told::origin);
                self.links.journal.note("started its program", origin);
            }
            if let Some(told) = &told {
                self.bell.heed(told);
            }
        }
        if let Some(state) = state {
            self.publish(state);
        }
        Ok(judgement)
    }

    /// Takes over the states of the dependencies; one that is away keeps its last.
    fn learn(&mut self, declaration: &Declaration, told: Option<&Told>) {
        for (alias, latest) in &self.links.states {
            let uses = declaration.dependencies.iter();
            let source = uses.filter(|used| used.alias == *alias).map(|used| &used.resource).next();
            let told = told.zip(source).and_then(|(told, source)| told.states.get(source));
            for state in [&latest.get()].into_iter().chain(told) {
                if self.known.get(alias).is_none_or(|known| state.is_newer(known)) {
                    self.known.insert(alias.clone(), state.clone());
                }
            }
        }
    }

    /// Returns how often in a row it went wrong, as the backoff counts.
    fn setbacks(&self) -> u32 {
        self.failures.max(self.repairs.excess())
    }

    /// Renders the config, and makes the resource anew if it is another one. Returns whether it is.
    async fn hold(&mut self, declaration: &Declaration) -> Result<bool, Failure> {
        let states: States = self
            .known
            .iter()
            .map(|(alias, state)| (alias.clone(), DependencyState::Known(state.value().clone())))
            .collect();
        let (config, scope) = match render(declaration, &states).map_err(Failure::Again)? {
            Rendered::Known { config, scope } => (config, scope),
            Rendered::Unknown { because } => {
                return Err(Failure::Again(not_known(&because)));
            }
        };
        let kind = self.setting.kinds.get(&declaration.kind);
        let kind = kind.map_err(|err| Failure::Again(err.to_string()))?;
        claim(declaration, kind, &config, &self.links.claims).map_err(Failure::Again)?;
        let context = context(declaration, scope, self.stop.clone());
        if let Some(held) = &mut self.held
            && held.is_same(kind, &config)
        {
            held.opened.see(context);
            // Relative paths are others in another folder.
            held.watching.exchange(held.opened.watch().map_err(Failure::Again)?);
            return Ok(false);
        }
        let old = self.held.take();
        let made = Held::make(old, declaration, kind, (config, context), &self.links.watches).await;
        let failure;
        (self.held, failure) = made;
        failure.map_or(Ok(true), |failure| Err(Failure::Again(failure)))
    }

    fn publish(&mut self, state: State) {
        if let Some(sender) = &self.state {
            sender.send_if_modified(|old| {
                let is_other = *old != state;
                *old = state;
                is_other
            });
        } else if let Some(offer) = self.offer.take() {
            let (sender, receiver) = watch::channel(state);
            self.state = Some(sender);
            offer(receiver);
        }
    }

    /// Reports how the round went, and returns how long to wait at most for the next. What the engine
    /// is to decide on ends the worker.
    fn judge(&mut self, round: Result<Judgement, Failure>) -> Result<Duration, Exit> {
        let trouble = match round {
            Ok(Judgement { remark, .. }) => {
                self.failures = 0;
                remark.or_else(|| (self.setbacks() > 0).then(|| FOUGHT_OVER.to_owned()))
            }
            Err(Failure::Again(reason)) => {
                self.failures = self.failures.saturating_add(1);
                // Whoever follows the health logs it when it changes.
                tracing::debug!(resource = self.name, reason, "resource is not as declared");
                Some(reason)
            }
            Err(Failure::Ended(exit)) => return Err(exit),
        };
        let delay = self.delay();
        let next_try = Instant::now().checked_add(delay).filter(|_| self.setbacks() > 0);
        match (trouble, next_try) {
            (None, _) => self.links.health.good(),
            (Some(trouble), None) => self.links.health.degraded(trouble),
            (Some(trouble), Some(at)) => self.links.health.degraded_until(at, trouble),
        }
        Ok(delay)
    }

    /// Waits until there is a reason to look again.
    async fn wait(&mut self, delay: Duration) -> Cause {
        let is_held_back = self.setbacks() > 0;
        let (mut watching, mut program) = match &mut self.held {
            Some(held) => (Some(&mut held.watching), held.program.as_mut()),
            None => (None, None),
        };
        let states = self.links.states.values_mut();
        let states = states.map(|live| -> Signal<'_> { Box::pin(renewed(live)) }).collect();
        let watched = watching.as_mut().filter(|_| !is_held_back);
        let watched = watched.map(|watching| watching.signals()).unwrap_or_default();
        let pace = &self.pace;
        let seen = async {
            pace.rest().await;
            any(watched).await;
        };
        let ended = async {
            match &mut program {
                Some(program) => program.ended().await,
                None => std::future::pending().await,
            }
        };
        let exit = tokio::select! {
            biased;
            () = self.stop.wait() => return Cause::Stop,
            exit = ended => exit,
            () = any(states) => return Cause::News,
            () = self.bell.told() => return Cause::News,
            Ok(()) = self.links.declaration.changed() => return Cause::News,
            () = seen => return Cause::Seen,
            () = tokio::time::sleep(delay) => return Cause::Time,
        };
        if let Some(held) = &mut self.held {
            held.program = None;
        }
        self.links.program.end(&exit);
        Cause::Ended(exit)
    }

    /// Returns how long to wait at most.
    fn delay(&mut self) -> Duration {
        let setbacks = self.setbacks();
        if setbacks > 0 {
            let delay =
                self.setting.backoff.delay(setbacks, || self.random.random_range(-1.0..=1.0));
            self.repairs.hold_back(delay);
            return delay;
        }
        let poll = self.held.as_ref().and_then(|held| held.watching.poll);
        let every = poll.unwrap_or(Duration::MAX).min(self.setting.look_every);
        let spread = self.setting.backoff.clone().initial(every).max(every);
        spread.delay(1, || self.random.random_range(-1.0..=1.0))
    }
}

/// Why a round did not come to its end.
enum Failure {
    /// It is tried again.
    Again(String),
    /// The engine decides.
    Ended(Exit),
}

/// What a resource is declared by.
struct Basis {
    declaration: Arc<Declaration>,
    states: BTreeMap<String, State>,
}

impl PartialEq for Basis {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.declaration, &other.declaration) && self.states == other.states
    }
}

/// Says what was changed, and at whose wish.
fn noted(judgement: &Judgement, is_drift: bool, told: Option<&Told>) -> (String, Origin) {
    let actions = judgement.actions.join("; ");
    let differing = judgement.differing.join(", ");
    let (what, origin) = match told {
        Some(told) if differing.is_empty() => ("refreshed", told.origin()),
        _ if is_drift => ("repaired", by_agent(&format!("not as declared any more: {differing}"))),
        _ => ("changed", by_agent(&format!("not as declared: {differing}"))),
    };
    (format!("{what}: {actions}"), origin)
}

/// What the agent does of its own.
fn by_agent(why: &str) -> Origin {
    Origin::new("agent", why)
}

/// Spreads the looks of resources that begin together.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()))
}
