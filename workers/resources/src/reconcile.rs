//! One resource under `run`: it is kept as declared until its worker is told to stop.
//!
//! Invariants:
//! 1. Whatever wakes the worker only says "look again"; each round works from all that is known
//!    then.
//! 2. A path is watched before the resource is checked, so no later change of it is missed.
//! 3. After a failure the next look waits for the backoff, or for news from other resources; the
//!    resource's own watches do not shorten it, for a failing action may set them off itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Backoff, Exit, Health, Live, Outcome, Stop};
use crankcase_workers::{Ledger, Watches};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;

use crate::apply::halting::Halting;
use crate::converge::not_known;
use crate::declaration::{Declaration, DependencyState, Rendered, States};
use crate::kinds::Kinds;
use crate::look::{folder, render};
use crate::resource::CheckContext;

use self::held::{Held, Judgement};
use self::notices::{Bell, Told};
use self::watching::{Signal, any, changed};

pub use self::notices::{Notices, State};

mod held;
mod notices;
mod supervised;
mod watching;

/// How often a resource is looked at when nothing says that it may have changed: every 5 minutes,
/// give or take 20 %.
pub const FULL_LOOK: Duration = Duration::from_secs(5 * 60);

/// How resources are kept.
#[derive(Debug, Clone)]
pub struct Reconcile {
    /// The kinds that resources may have.
    pub kinds: Kinds,
    /// The wait after a check or an action that failed.
    pub backoff: Backoff,
    /// How often a resource is looked at without a reason; default [`FULL_LOOK`]. It is spread by
    /// the backoff's jitter.
    pub look_every: Duration,
    /// Where supervised programs are on record; none by default.
    pub ledger: Option<Ledger>,
    /// Seeds the jitter; 0 by default.
    pub seed: u64,
}

impl Reconcile {
    /// Returns the defaults with these kinds.
    pub fn new(kinds: Kinds) -> Self {
        let backoff = Backoff::default();
        Self { kinds, backoff, look_every: FULL_LOOK, ledger: None, seed: 0 }
    }
}

/// What one resource is connected to.
#[derive(Debug)]
pub struct Links {
    /// What is declared of it. A new declaration has the same name, kind and dependencies.
    pub declaration: watch::Receiver<Arc<Declaration>>,
    /// The states of its dependencies, by alias.
    pub states: BTreeMap<String, Live<State>>,
    /// What tells that files have changed.
    pub watches: Live<Watches>,
    /// What carries notifications.
    pub notices: Notices,
    /// What is told how well the resource is.
    pub health: Health,
}

/// Keeps a resource as declared until `stop` is told.
///
/// It is checked, changed if need be, and checked again; then it waits until a watched path, the
/// state of a dependency, its declaration or a notification says that it may be otherwise, and at
/// the latest for the next full look. A check or an action that fails makes it degraded, with the
/// reason, and is tried again after a backoff. The state that it had stays on offer.
///
/// `offer` is called with a watch of the state when the resource is as declared for the first time.
///
/// A new state of a dependency renders the config again. With an equal config the resource is
/// checked, and no more; with another one it is made anew, and a program of it is started anew. A
/// program is also started anew by a notification.
///
/// # Errors
///
/// When a supervised program cannot be started or has ended by itself: the engine starts the worker
/// again after its backoff.
///
/// # Cancel safety
///
/// Not cancel safe: tell `stop` instead. A program that runs is killed when it is dropped.
pub async fn reconcile<F>(setting: Reconcile, links: Links, offer: F, stop: Stop) -> Outcome
where
    F: FnOnce(watch::Receiver<State>) + Send,
{
    let name = links.declaration.borrow().name.clone();
    let mut reconciler = Reconciler {
        bell: links.notices.bell(&name),
        random: StdRng::seed_from_u64(setting.seed ^ seed_of(&name)),
        halting: Halting::new(stop.clone(), false),
        failures: 0,
        known: BTreeMap::new(),
        held: None,
        state: None,
        offer: Some(offer),
        name,
        setting,
        links,
        stop,
    };
    let outcome = reconciler.run().await;
    if let Some(held) = reconciler.held.take() {
        held.close().await;
    }
    outcome
}

/// Spreads the looks of resources that begin together.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()))
}

struct Reconciler<F> {
    name: String,
    setting: Reconcile,
    links: Links,
    stop: Stop,
    halting: Halting,
    bell: Bell,
    random: StdRng,
    /// How many rounds in a row have failed.
    failures: u32,
    /// The last states of the dependencies, by alias.
    known: BTreeMap<String, State>,
    held: Option<Held>,
    state: Option<watch::Sender<State>>,
    offer: Option<F>,
}

/// Why a worker goes on.
enum Cause {
    Stop,
    Look,
    Ended(Exit),
}

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    async fn run(&mut self) -> Outcome {
        loop {
            let round = self.round().await;
            if self.stop.is_stopped() {
                return Ok(());
            }
            self.judge(round)?;
            match self.wait().await {
                Cause::Stop => return Ok(()),
                Cause::Look => {}
                Cause::Ended(exit) => return Err(exit),
            }
        }
    }

    /// Looks at the resource, and makes it as declared.
    async fn round(&mut self) -> Result<Judgement, Failure> {
        let declaration = Arc::clone(&self.links.declaration.borrow_and_update());
        let told = self.bell.pending();
        self.learn(&declaration, told.as_ref());
        self.hold(&declaration).await?;
        let Some(held) = &mut self.held else { return Ok(Judgement::default()) };
        held.watching.renew(&self.stop).await;
        let mut judgement =
            Judgement::converge(&held.opened, &self.halting, declaration.noop, told.is_some())
                .await;
        let state = judgement.state.take().map(|value| self.links.notices.state(value));
        if judgement.is_changed {
            tracing::info!(resource = self.name, actions = ?judgement.actions, "resource changed");
            self.links.notices.tell(&self.name, state.as_ref());
        }
        if let Some(failure) = judgement.failure.take() {
            return Err(Failure::Again(failure));
        }
        if !declaration.noop {
            let ledger = self.setting.ledger.as_ref();
            let started = held.supervise(&self.name, ledger, told.is_some()).await;
            started.map_err(|err| Failure::Ended(Exit::failed(err)))?;
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
        for (alias, live) in &mut self.links.states {
            let uses = declaration.dependencies.iter();
            let source = uses.filter(|used| used.alias == *alias).map(|used| &used.resource).next();
            let told = told.zip(source).and_then(|(told, source)| told.states.get(source));
            for state in live.get().iter().chain(told) {
                if self.known.get(alias).is_none_or(|known| state.is_newer(known)) {
                    self.known.insert(alias.clone(), state.clone());
                }
            }
        }
    }

    /// Renders the config, and makes the resource anew if it is another one.
    async fn hold(&mut self, declaration: &Declaration) -> Result<(), Failure> {
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
        if let Some(held) = &mut self.held
            && held.is_same(kind, &config)
        {
            held.opened.see(folder(declaration), scope);
            return Ok(());
        }
        let context = CheckContext::new(folder(declaration), scope, self.stop.clone());
        let old = self.held.take();
        let made = Held::make(old, declaration, kind, (config, context), &self.links.watches).await;
        let failure;
        (self.held, failure) = made;
        failure.map_or(Ok(()), |failure| Err(Failure::Again(failure)))
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

    /// Reports how the round went. What the engine is to decide on ends the worker.
    fn judge(&mut self, round: Result<Judgement, Failure>) -> Outcome {
        match round {
            Ok(Judgement { remark: None, .. }) => {
                self.failures = 0;
                self.links.health.good();
            }
            Ok(Judgement { remark: Some(remark), .. }) => {
                self.failures = 0;
                self.links.health.degraded(remark);
            }
            Err(Failure::Again(reason)) => {
                self.failures = self.failures.saturating_add(1);
                tracing::warn!(resource = self.name, reason, "resource is not as declared");
                self.links.health.degraded(reason);
            }
            Err(Failure::Ended(exit)) => return Err(exit),
        }
        Ok(())
    }

    /// Waits until there is a reason to look again.
    async fn wait(&mut self) -> Cause {
        let is_failing = self.failures > 0;
        let delay = self.delay();
        let (mut watching, mut program) = match &mut self.held {
            Some(held) => (Some(&mut held.watching), held.program.as_mut()),
            None => (None, None),
        };
        let states = self.links.states.values_mut();
        let mut signals: Vec<Signal<'_>> =
            states.map(|live| -> Signal<'_> { Box::pin(changed(live)) }).collect();
        if let Some(watching) = watching.as_mut().filter(|_| !is_failing) {
            signals.extend(watching.signals());
        }
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
            () = any(signals) => return Cause::Look,
            () = self.bell.told() => return Cause::Look,
            Ok(()) = self.links.declaration.changed() => return Cause::Look,
            () = tokio::time::sleep(delay) => return Cause::Look,
        };
        if let Some(held) = &mut self.held {
            held.program = None;
        }
        Cause::Ended(exit)
    }

    /// Returns how long to wait at most.
    fn delay(&mut self) -> Duration {
        if self.failures > 0 {
            return self.setting.backoff.delay(self.failures, &mut self.random);
        }
        let poll = self.held.as_ref().and_then(|held| held.watching.poll);
        let every = poll.unwrap_or(Duration::MAX).min(self.setting.look_every);
        let spread = Backoff { initial: every, max: every, ..self.setting.backoff.clone() };
        spread.delay(1, &mut self.random)
    }
}

/// Why a round did not come to its end.
enum Failure {
    /// It is tried again.
    Again(String),
    /// The engine decides.
    Ended(Exit),
}
