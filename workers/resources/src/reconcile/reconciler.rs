use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{self, Waker};
use std::time::Duration;

use crankcase_engine::{Backoff, Exit, Outcome, Stop};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::account::Done;
use crate::found::Difference;
use crate::halting::Halting;
use crate::naming::worker_name;
use crate::observer::{Happened, What};
use crate::reconcile::armed::Unarmed;
use crate::reconcile::board::{Blocker, Ended};
use crate::reconcile::cause::{Basis, Cause};
use crate::reconcile::held::{Failure, Held, Judgement};
use crate::reconcile::pace::Pace;
use crate::reconcile::seat::Seat;
use crate::reconcile::setbacks::Setbacks;
use crate::reconcile::state::State;
use crate::reconcile::watching::any;
use crate::reconcile::{Links, Reconcile};
use crate::text::cut_after;

mod round;

/// The length of the longest error in an event, in characters.
const LONGEST_ERROR: usize = 4_000;

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
    /// What differed in the last round, and the action that has failed.
    last_failed: (Vec<Difference>, Option<Done>),
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
            last_failed: (Vec::new(), None),
            setbacks: Setbacks::new(setting.seed ^ seed_of(&name)),
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
            self.last_failed = (Vec::new(), None);
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

    fn tell_error(&self, error: &str) {
        let kind = self.links.declaration.borrow().kind.clone();
        let event = Happened::new(What::Failed, (&self.name, &kind), (self.why, self.took));
        let (differences, failed) = &self.last_failed;
        let error = Some(cut_after(error, LONGEST_ERROR));
        self.tell(Happened { error, ..event.with(differences, &[], failed.as_ref()) });
    }

    /// Keeps an event as the resource's last one, and tells it to the observer.
    fn tell(&self, happened: Happened) {
        if let Some(observer) = self.setting.facilities.observer() {
            observer.happened(&happened);
        }
        self.seat.note_event(happened.excerpt());
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
        let is_failed = round.is_err();
        let trouble = match round {
            Ok(Judgement { remark, is_changed, holds, .. }) => {
                self.setbacks.end_failures();
                self.last_failure = None;
                self.has_asked = false;
                self.seat.end(Ended::Well { is_changed, is_holding: holds.is_some() });
                remark.or(holds).or_else(|| self.setbacks.are_any().then(|| FOUGHT_OVER.to_owned()))
            }
            Err(Failure::HeldBack) => return Ok(self.hold_back()),
            Err(Failure::Look(_) | Failure::KeptAsBefore { .. }) if self.may_pass() => {
                return Ok(self.hold_back());
            }
            Err(Failure::Watch(Unarmed { reason, failures })) => {
                self.setbacks.fail(failures);
                Some(self.fail(&reason))
            }
            Err(Failure::Look(reason) | Failure::Again(reason)) => {
                self.setbacks.fail(1);
                Some(self.fail(&reason))
            }
            Err(Failure::KeptAsBefore { wrong, is_changed, is_holding }) => {
                self.setbacks.fail(1);
                let wrong = self.note_failure(&wrong);
                // It holds up no other resource: it is as it was declared before.
                self.seat.end(Ended::Well { is_changed, is_holding });
                Some(wrong)
            }
            Err(Failure::Ended(exit)) => return Err(exit),
        };
        let delay = self.delay();
        let next_try = Instant::now().checked_add(delay).filter(|_| self.setbacks.are_any());
        match (trouble, next_try) {
            (None, _) => self.links.health.good(),
            (Some(trouble), None) => self.links.health.degraded(trouble),
            (Some(trouble), Some(at)) if is_failed => self.links.health.attempt_failed(at, trouble),
            (Some(trouble), Some(at)) => self.links.health.degraded_until(at, trouble),
        }
        Ok(delay)
    }

    fn fail(&mut self, reason: &str) -> String {
        let reason = self.note_failure(reason);
        self.seat.end(Ended::Failed);
        reason
    }

    fn note_failure(&mut self, reason: &str) -> String {
        let reason = self.redact(reason);
        // Those who watch are told once of what is the same at each try.
        if self.last_failure.as_ref() != Some(&reason) {
            self.tell_error(&reason);
            self.last_failure = Some(reason.clone());
        } else if self.last_failed.1.is_some() {
            self.setting.facilities.observer().iter().for_each(|it| it.failed_again(&self.name));
        }
        self.has_asked = false;
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
                self.links.health.held_back(&worker_name(failed), reason);
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
        let delay = self.setbacks.delay(&self.backoff());
        delay.unwrap_or_else(|| self.full_look())
    }

    /// Returns how long to wait for a look without a reason.
    fn full_look(&mut self) -> Duration {
        let poll = self.held.as_ref().and_then(|held| held.armed.every);
        let declared = self.links.declaration.borrow().poll.unwrap_or(self.setting.look_every);
        let every = poll.unwrap_or(Duration::MAX).min(declared);
        let backoff = self.backoff();
        self.setbacks.spread(every, &backoff)
    }

    /// Returns the wait after a failure: that of the resource itself, or of all.
    pub(super) fn backoff(&self) -> Backoff {
        let own = self.links.declaration.borrow().backoff.clone();
        own.map_or_else(|| self.setting.backoff.clone(), |own| (*own).clone())
    }
}

/// Spreads the looks of resources that begin together.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()))
}
