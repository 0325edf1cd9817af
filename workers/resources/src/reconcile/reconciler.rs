use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{self, Waker};
use std::time::Duration;

use crankcase_engine::{Exit, Outcome, Stop};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::context::{Notice, Used};
use crate::converge::not_known;
use crate::declaration::{Declaration, DependencyState};
use crate::facilities::{Due, Promise};
use crate::halting::Halting;
use crate::make::{Setting, Unmade, render};
use crate::observer::{Happened, What};
use crate::reconcile::armed::Unarmed;
use crate::reconcile::board::{Blocker, Ended, Told};
use crate::reconcile::cause::{Basis, Cause, by_agent, noted};
use crate::reconcile::held::{Failure, Held, Judgement};
use crate::reconcile::pace::Pace;
use crate::reconcile::said;
use crate::reconcile::seat::Seat;
use crate::reconcile::setbacks::Setbacks;
use crate::reconcile::state::State;
use crate::reconcile::watching::any;
use crate::reconcile::{Links, Reconcile};
use crate::text::chain;

/// What a look costs at least that a watch has caused and that has failed.
const FAILED_LOOK: Duration = Duration::from_millis(100);

/// For how long a resource waits for another one that is at work before it says so.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is said of a resource that is mended again and again.
const FOUGHT_OVER: &str = "something else changes it again and again; it is mended less often";

/// The worker of one resource.
pub(super) struct Reconciler<F> {
    name: String,
    setting: Reconcile,
    links: Links,
    stop: Stop,
    halting: Halting,
    seat: Arc<Seat>,
    /// Whether it waits for a resource before it that is at work, and says nothing of that yet.
    is_waiting: bool,
    /// Whether it has waited so for long enough.
    is_late: bool,
    /// Whether what it depends on was asked to look again, because a look has failed.
    has_asked: bool,
    /// Why it is looked at.
    why: &'static str,
    /// How long the last round took.
    took: Duration,
    /// How it has failed, if it has.
    last_failure: Option<String>,
    /// Whether it has left its site and was put back as it was.
    is_back: bool,
    setbacks: Setbacks,
    pace: Pace,
    /// The last states of the dependencies, by alias.
    known: BTreeMap<String, State>,
    /// What the resource was last made as declared by: what differs after that is drift.
    made_by: Option<Basis>,
    held: Option<Held>,
    state: Option<watch::Sender<State>>,
    offer: Option<F>,
}

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    pub(super) fn new(setting: Reconcile, links: Links, offer: F, stop: Stop) -> Self {
        let name = links.declaration.borrow().name.clone();
        let seat = Arc::new(Seat::new(links.board.clone(), name.clone()));
        let gate = Arc::clone(&seat);
        let gate = move || gate.blocker().map(|blocker| blocker.name.to_string());
        Self {
            seat,
            halting: Halting::new(stop.clone(), false).gated(gate),
            is_waiting: false,
            is_late: false,
            has_asked: false,
            is_back: false,
            why: "its worker has started",
            took: Duration::ZERO,
            last_failure: None,
            setbacks: Setbacks::new(setting.backoff.reset_after, setting.seed ^ seed_of(&name)),
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
        loop {
            let began = Instant::now();
            // Boxed, so that a resource at rest does not hold the memory of a look.
            let round = Box::pin(self.round()).await;
            if self.stop.is_stopped() {
                return Ok(());
            }
            let (took, failures) = (began.elapsed(), self.setbacks.failures());
            let is_changed = round.as_ref().is_ok_and(|judgement| judgement.is_changed);
            self.took = took;
            let delay = match self.judge(round) {
                Ok(delay) => delay,
                Err(exit) => return self.end(exit),
            };
            if is_seen && !is_changed {
                let has_failed = self.setbacks.failures() > failures;
                self.pace.spend(if has_failed { took.max(FAILED_LOOK) } else { took });
            }
            let cause = self.wait(delay).await;
            // What it depends on may be faster to tell of the same change.
            let has_seen =
                matches!(cause, Cause::News) && !self.setbacks.is_fought_over() && self.has_seen();
            is_seen = has_seen || matches!(cause, Cause::Seen);
            self.is_late = self.is_waiting && matches!(cause, Cause::Time);
            self.why = if has_seen { Cause::Seen.why() } else { cause.why() };
            match cause {
                Cause::Stop => return Ok(()),
                Cause::Declared | Cause::News | Cause::Seen => self.seat.begin(),
                Cause::Time => {}
                Cause::Ended(exit) => return self.end(exit),
            }
        }
    }

    fn tell_change(&self, kind: &str, change: (What, &Judgement), took: Duration) {
        let tellers = (&self.setting.facilities, self.links.board.flood());
        said::tell_change(tellers, (&self.name, kind), change, (self.why, took));
    }

    fn tell_error(&self, error: &str) {
        if let Some(observer) = self.setting.facilities.observer() {
            let kind = self.links.declaration.borrow().kind.clone();
            let event = Happened::new(What::Failed, (&self.name, &kind), (self.why, self.took));
            observer.happened(&Happened { error: Some(error.to_owned()), ..event });
        }
    }

    /// Says that the resource is not as declared until another worker has kept it.
    fn end(&self, exit: Exit) -> Outcome {
        self.tell_error(&self.redact(&exit.to_string()));
        self.seat.end(Ended::Failed);
        Err(exit)
    }

    /// Ends what is held.
    pub(super) async fn close(self) {
        if let Some(held) = self.held {
            held.close().await;
        }
    }

    /// Looks at the resource, and makes it as declared.
    async fn round(&mut self) -> Result<Judgement, Failure> {
        let began = Instant::now();
        // First of all: what comes from here on is news.
        let told = self.seat.look();
        let facilities = self.setting.facilities.clone();
        let due = facilities.notices().due(&self.name);
        let declaration = Arc::clone(&self.links.declaration.borrow_and_update());
        // Its record is gone as soon as it is back, also if its worker is another one by then.
        if let Some(thing) = &declaration.record
            && !facilities.has_reversal(thing).await
        {
            self.is_back = true;
            return Ok(Judgement::default());
        }
        self.learn(&declaration);
        let was_held = self.held.is_some();
        let is_new = self.hold(&declaration, told.as_ref()).await?;
        let basis = Basis { declaration: Arc::clone(&declaration), states: self.known.clone() };
        let is_drift = !is_new && self.made_by.as_ref() == Some(&basis);
        let Some(held) = &mut self.held else { return Ok(Judgement::default()) };
        let lasting = self.setting.backoff.reset_after;
        let armed = held.armed.arm(&held.opened, lasting, &self.stop).await;
        armed.map_err(Failure::Watch)?;
        let name = self.name.clone();
        let promise = Promise::new(facilities.notices(), &name, self.seat.notified());
        let converging = Judgement::converge(
            &held.opened,
            &self.halting,
            (&declaration, told.is_some()),
            &promise,
        );
        let mut judgement = converging.await;
        said::log(&self.name, &judgement.output);
        let state = judgement.state.take().map(State::new);
        if judgement.is_changed {
            let actions: Vec<_> = judgement.actions.iter().map(ToString::to_string).collect();
            let (what, origin) = noted(&judgement.differing, is_drift, told.as_ref());
            self.tell_change(&declaration.kind, (what, &judgement), began.elapsed());
            // A dependent that is notified sees the new state with the notification.
            if let Some(state) = &state {
                self.seat.publish(state.clone());
            }
            promise.keep();
            self.seat.tell(&judgement.differing, &judgement.actions);
            let text = format!("{}: {}", what.word(), actions.join("; "));
            self.links.journal.note(text, origin);
            if is_drift && told.is_none() {
                self.setbacks.note_repair();
            }
        } else {
            promise.keep();
        }
        if let Some(failure) = judgement.failure.take() {
            return Err(failure);
        }
        self.made_by = Some(basis);
        let is_other = is_new && was_held;
        self.settle(&declaration, (told.as_ref(), due), is_other, &mut judgement).await?;
        if let Some(state) = state {
            self.publish(state);
        }
        Ok(judgement)
    }

    /// Does what is left to do for a resource that is as declared, or left alone.
    async fn settle(
        &mut self,
        declaration: &Declaration,
        (told, due): (Option<&Told>, Due),
        is_other: bool,
        judgement: &mut Judgement,
    ) -> Result<(), Failure> {
        let Some(held) = &self.held else { return Ok(()) };
        if declaration.noop {
            let amiss = held.amiss().filter(|_| !declaration.readonly);
            judgement.remark = judgement.remark.take().or(amiss.map(said::left_alone));
            return Ok(());
        }
        self.supervise(is_other, told).await?;
        let facilities = self.setting.facilities.clone();
        if let Some(told) = told {
            self.seat.answer(told);
            facilities.notices().settle(&self.name, due).await;
        }
        if let Some(thing) = &declaration.record {
            facilities.forget_reversal(thing).await;
            self.is_back = true;
        } else if let Some(held) = &self.held {
            judgement.holds = held.opened.holds().map_err(Failure::Again)?;
        }
        Ok(())
    }

    /// Starts the resource's program, if it is one and is not running as declared.
    async fn supervise(&mut self, is_other: bool, told: Option<&Told>) -> Result<(), Failure> {
        let Some(held) = &mut self.held else { return Ok(()) };
        if held.is_to_start(told.is_some()) && self.seat.blocker().is_some() {
            return Err(Failure::HeldBack);
        }
        let keeper = (&self.stop, self.setting.facilities.ledger());
        let is_other = is_other || held.program.is_some();
        let started = held.supervise(&self.name, keeper, told.is_some()).await;
        let started = started.map_err(|err| {
            let error = self.setting.facilities.secrets().redact(&chain(&err)).into_owned();
            Failure::Ended(Exit::failed(error))
        })?;
        if let Some(running) = started {
            let why = match self.links.program.begin(running) {
                Some(end) => end,
                None if is_other => "its config has changed".to_owned(),
                None => "it did not run".to_owned(),
            };
            let origin = told.map_or_else(|| by_agent(&why), Told::origin);
            self.links.journal.note("started its program", origin);
        }
        Ok(())
    }

    /// Takes over the states of the dependencies; one that is away keeps its last.
    fn learn(&mut self, declaration: &Declaration) {
        for used in &declaration.dependencies {
            if let Some(state) = self.links.board.last_state(&used.resource) {
                self.known.insert(used.alias.clone(), state);
            }
        }
    }

    /// Makes the resource, and opens it if it is another one than before. Returns whether it is.
    async fn hold(
        &mut self,
        declaration: &Declaration,
        told: Option<&Told>,
    ) -> Result<bool, Failure> {
        let setting = Setting {
            foresight: None,
            salt: None,
            kinds: self.setting.kinds.clone(),
            stop: self.stop.clone(),
            claims: self.links.claims.clone(),
            facilities: self.setting.facilities.clone(),
        };
        let notices = told.map_or_else(Vec::new, |told| told.notices.clone());
        let wrong = |unmade| match unmade {
            Unmade::Unknown(aliases) => Failure::Look(not_known(&aliases)),
            Unmade::Wrong(error) => Failure::Look(error),
        };
        let known = (self.used(declaration, &notices), notices);
        let rendering = render(declaration, &setting, known).map_err(wrong)?;
        if let Some(held) = &mut self.held
            && held.opened.is_same(&rendering)
        {
            held.opened.see(rendering.context);
            return Ok(false);
        }
        let made = rendering.make(declaration, &setting).map_err(wrong)?;
        if self.held.is_some() && self.seat.blocker().is_some() {
            return Err(Failure::HeldBack);
        }
        let opening = Held::open(self.held.take(), made, declaration.noop, &self.links.watches);
        self.held = Some(opening.await.map_err(Failure::Again)?);
        Ok(true)
    }

    /// Returns what is known of the dependencies, for the kind.
    fn used(&self, declaration: &Declaration, notices: &[Notice]) -> Vec<Used> {
        let used = declaration.dependencies.iter().filter_map(|used| {
            let state = DependencyState::Known(self.known.get(&used.alias)?.share());
            let (alias, resource) = (used.alias.clone(), used.resource.clone());
            let notice = notices.iter().find(|notice| notice.by == resource);
            let actions = notice.map(|notice| Arc::clone(&notice.actions)).unwrap_or_default();
            Some(Used { alias, resource, state, actions })
        });
        used.collect()
    }

    fn publish(&mut self, state: State) {
        self.seat.publish(state.clone());
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
        self.is_waiting = false;
        let trouble = match round {
            Ok(Judgement { remark, is_changed, holds, .. }) => {
                self.setbacks.end_failures();
                self.last_failure = None;
                self.has_asked = false;
                self.seat.end(Ended::Well { is_changed, is_holding: holds.is_some() });
                remark.or(holds).or_else(|| self.setbacks.are_any().then(|| FOUGHT_OVER.to_owned()))
            }
            Err(Failure::HeldBack) => return Ok(self.hold_back()),
            Err(Failure::Look(_)) if self.may_pass() => return Ok(self.hold_back()),
            Err(Failure::Watch(Unarmed { reason, failures })) => {
                self.setbacks.fail(failures);
                Some(self.fail(&reason))
            }
            Err(Failure::Look(reason) | Failure::Again(reason)) => {
                self.setbacks.fail(1);
                Some(self.fail(&reason))
            }
            Err(Failure::Ended(exit)) => return Err(exit),
        };
        let delay = self.delay();
        let next_try = Instant::now().checked_add(delay).filter(|_| self.setbacks.are_any());
        match (trouble, next_try) {
            (None, _) => self.links.health.good(),
            (Some(trouble), None) => self.links.health.degraded(trouble),
            (Some(trouble), Some(at)) => self.links.health.degraded_until(at, trouble),
        }
        Ok(delay)
    }

    fn fail(&mut self, reason: &str) -> String {
        let reason = self.redact(reason);
        // Those who watch are told once of what is the same at each try.
        if self.last_failure.as_ref() != Some(&reason) {
            self.tell_error(&reason);
            self.last_failure = Some(reason.clone());
        }
        self.has_asked = false;
        self.seat.end(Ended::Failed);
        // Whoever follows the health logs it when it changes.
        tracing::debug!(resource = self.name, reason, "resource is not as declared");
        reason
    }

    fn redact(&self, text: &str) -> String {
        self.setting.facilities.secrets().redact(text).into_owned()
    }

    /// Returns whether a look that failed may be no failure of the resource: one before it is not as
    /// declared, or was asked to look again just now.
    fn may_pass(&mut self) -> bool {
        if self.seat.blocker().is_some() {
            self.has_asked = false;
            return true;
        }
        !std::mem::replace(&mut self.has_asked, true) && self.seat.ask()
    }

    /// Waits for a resource before this one. While that one is at work, it is said only after a while.
    fn hold_back(&mut self) -> Duration {
        let blocker = self.seat.hold();
        match &blocker {
            Some(Blocker { failed: Some(failed), .. }) => {
                let reason = format!("held back by \"{failed}\", which is not as declared");
                self.links.health.degraded(reason);
            }
            Some(Blocker { name, .. }) if self.is_late => {
                let reason = format!("waits for \"{name}\", which has something to do");
                self.links.health.degraded(reason);
            }
            _ => {
                self.is_waiting = true;
                return PATIENCE;
            }
        }
        self.full_look()
    }

    /// Waits until there is a reason to look again. What was put back is nobody's concern any more: its
    /// watches and the time are no reasons.
    async fn wait(&mut self, delay: Duration) -> Cause {
        if std::mem::take(&mut self.is_back) {
            return tokio::select! {
                biased;
                () = self.stop.wait() => Cause::Stop,
                () = self.seat.news() => Cause::News,
                Ok(()) = self.links.declaration.changed() => Cause::Declared,
            };
        }
        let is_fought_over = self.setbacks.is_fought_over();
        let (mut armed, mut program) = match &mut self.held {
            Some(held) => (Some(&mut held.armed), held.program.as_mut()),
            None => (None, None),
        };
        let watched = armed.as_mut().filter(|_| !is_fought_over);
        let watched = watched.map(|armed| armed.signals()).unwrap_or_default();
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
            () = self.seat.news() => return Cause::News,
            Ok(()) = self.links.declaration.changed() => return Cause::Declared,
            () = seen => return Cause::Seen,
            () = tokio::time::sleep(delay) => return Cause::Time,
        };
        if let Some(held) = &mut self.held {
            held.program = None;
        }
        self.links.program.end(&exit);
        Cause::Ended(exit)
    }

    /// Returns whether its watches have told of a change, and takes that as known.
    fn has_seen(&mut self) -> bool {
        let Some(held) = &mut self.held else { return false };
        let seen = pin!(any(held.armed.signals()));
        seen.poll(&mut task::Context::from_waker(Waker::noop())).is_ready()
    }

    /// Returns how long to wait at most.
    fn delay(&mut self) -> Duration {
        let delay = self.setbacks.delay(&self.setting.backoff);
        delay.unwrap_or_else(|| self.full_look())
    }

    /// Returns how long to wait for a look without a reason.
    fn full_look(&mut self) -> Duration {
        let poll = self.held.as_ref().and_then(|held| held.armed.every);
        let declared = self.links.declaration.borrow().poll.unwrap_or(self.setting.look_every);
        let every = poll.unwrap_or(Duration::MAX).min(declared);
        self.setbacks.spread(every, &self.setting.backoff)
    }
}

/// Spreads the looks of resources that begin together.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()))
}
