//! One round: a look at the resource, and what it takes to make it as declared.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Exit;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::context::{Notice, Used};
use crate::converge::not_known;
use crate::declaration::{Declaration, DependencyState, REPAIRS};
use crate::facilities::{Due, Facilities, Promise};
use crate::make::{Setting, Unmade, render};
use crate::observer::{Happened, What};
use crate::reconcile::board::Told;
use crate::reconcile::cause::{Basis, by_agent, noted};
use crate::reconcile::held::{Failure, Held, Judgement};
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::said;
use crate::reconcile::seat::Seat;
use crate::reconcile::state::State;
use crate::text::chain;

/// What a resource is held as.
struct Holding {
    /// Whether it is another one than before.
    is_new: bool,
    /// What is wrong with its config, if it stays what it was because of that.
    wrong: Option<String>,
}

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    /// Looks at the resource, and makes it as declared.
    pub(super) async fn round(&mut self) -> Result<Judgement, Failure> {
        let began = Instant::now();
        // First of all: what comes from here on is news.
        let told = self.seat.look();
        let facilities = self.setting.facilities.clone();
        let due = facilities.notices().due(&self.name);
        let declaration = Arc::clone(&self.links.declaration.borrow_and_update());
        let lasting = self.backoff().reset_after;
        // Its record is gone as soon as it is back, also if its worker is another one by then.
        if let Some(thing) = &declaration.record
            && !facilities.has_reversal(thing).await
        {
            self.is_back = true;
            return Ok(Judgement::default());
        }
        self.learn(&declaration);
        let was_held = self.held.is_some();
        let basis = Basis { declaration: Arc::clone(&declaration), states: self.known.clone() };
        let Holding { is_new, wrong } = self.hold(&basis, told.as_ref()).await?;
        let is_drift = !is_new && (wrong.is_some() || self.made_by.as_ref() == Some(&basis));
        let Some(held) = &mut self.held else { return Ok(Judgement::default()) };
        let armed = held.armed.arm(&held.opened, lasting, &self.stop).await;
        armed.map_err(Failure::Watch)?;
        let name = self.name.clone();
        let promise = promise(&facilities, &self.seat, (&name, &declaration, self.why), is_drift);
        let asked = (&*declaration, told.is_some() && wrong.is_none());
        let (mut judgement, unseen) = held.converge(&self.halting, asked, &promise).await;
        let wrong = wrong.or(unseen);
        // A resource that is wrong answers no notification.
        let told = told.filter(|_| wrong.is_none());
        said::log(&self.name, &judgement.output);
        let state = judgement.state.take().map(State::new);
        if judgement.is_changed {
            let differing = judgement.differing();
            let (what, origin) = noted(&differing, is_drift, told.as_ref());
            self.tell_change(&declaration.kind, (what, &judgement, told.as_ref()), began.elapsed());
            // A dependent that is notified sees the new state with the notification.
            state.iter().for_each(|state| self.seat.publish(state.clone()));
            promise.keep();
            self.seat.tell(&differing, &judgement.actions);
            let text = format!("{}: {}", what.word(), judgement.actions_in_words());
            self.links.journal.note(text, origin);
            if is_drift && told.is_none() {
                self.setbacks.note_repair();
            }
        } else {
            promise.keep();
        }
        self.last_failed = (judgement.differences.clone(), judgement.failed.take());
        if let Some(failure) = judgement.failure.take() {
            return Err(failure);
        }
        if wrong.is_none() {
            self.made_by = Some(basis);
        }
        let is_other = is_new && was_held;
        self.settle(&declaration, (told.as_ref(), due), is_other, &mut judgement).await?;
        if let Some(state) = state {
            self.publish(state);
        }
        let Some(wrong) = wrong else { return Ok(judgement) };
        let (is_changed, is_holding) = (judgement.is_changed, judgement.holds.is_some());
        Err(Failure::KeptAsBefore { wrong, is_changed, is_holding })
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

    /// Takes over the limits of repairs, and the states of the dependencies; one that is away keeps its last.
    fn learn(&mut self, declaration: &Declaration) {
        let soon = self.backoff().reset_after;
        self.setbacks.limit_repairs(soon, declaration.repairs.unwrap_or(REPAIRS));
        for used in &declaration.dependencies {
            if let Some(state) = self.links.board.last_state(&used.resource) {
                self.known.insert(used.alias.clone(), state);
            }
        }
    }

    /// Makes the resource, and opens it if it is another one than before.
    async fn hold(&mut self, basis: &Basis, told: Option<&Told>) -> Result<Holding, Failure> {
        let declaration = &*basis.declaration;
        let setting = Setting {
            foresight: None,
            salt: None,
            kinds: self.setting.kinds.clone(),
            stop: self.stop.clone(),
            claims: self.links.claims.clone(),
            facilities: self.setting.facilities.clone(),
        };
        let notices = told.map_or_else(Vec::new, |told| told.notices.clone());
        let known = (self.used(declaration, &notices), notices);
        let may_stay = self.made_by.as_ref().is_some_and(|made| made != basis);
        let made =
            render(declaration, &setting, known).and_then(|rendering| match &mut self.held {
                Some(held) if held.opened.is_same(&rendering) => {
                    held.see(rendering.context, may_stay);
                    Ok(None)
                }
                _ => rendering.make(declaration, &setting).map(Some),
            });
        let made = match made {
            Ok(Some(made)) => made,
            Ok(None) => return Ok(Holding { is_new: false, wrong: None }),
            Err(unmade) => return self.keep_as_before(unmade),
        };
        if self.held.is_some() && self.seat.blocker().is_some() {
            return Err(Failure::HeldBack);
        }
        let opening = Held::open(self.held.take(), made, declaration.noop, &self.links.watches);
        self.held = Some(opening.await.map_err(Failure::Again)?);
        Ok(Holding { is_new: true, wrong: None })
    }

    /// Keeps a resource as it was before its config became wrong.
    fn keep_as_before(&mut self, unmade: Unmade) -> Result<Holding, Failure> {
        let wrong = match unmade {
            Unmade::Unknown(aliases) => return Err(Failure::Look(not_known(&aliases))),
            Unmade::Wrong(wrong) => wrong,
        };
        let Some(held) = &mut self.held else { return Err(Failure::Look(wrong)) };
        held.step_back();
        Ok(Holding { is_new: false, wrong: Some(wrong) })
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

    fn tell_change(
        &self,
        kind: &str,
        (what, judgement, told): (What, &Judgement, Option<&Told>),
        took: Duration,
    ) {
        let Judgement { differences, done, failed, failure, .. } = judgement;
        let happened = Happened::new(what, (&self.name, kind), (self.why, took));
        let mut happened = happened.with(differences, done, failed.as_ref());
        let notices = told.map_or(&[][..], |told| &told.notices);
        happened.notified_by = notices.iter().map(|notice| notice.by.clone()).collect();
        said::log_change(self.links.board.flood(), &happened, took);
        // What was begun and has failed is no repair yet.
        self.seat.note_change(what == What::Repaired && failure.is_none());
        self.tell(happened);
    }
}

/// Returns what the resource promises before it acts, with the event that its observer sees then.
fn promise<'a>(
    facilities: &'a Facilities,
    seat: &Seat,
    (name, declaration, why): (&'a str, &Declaration, &str),
    is_drift: bool,
) -> Promise<'a> {
    let what = if is_drift { What::Repaired } else { What::Changed };
    let event = Happened::new(what, (name, &declaration.kind), (why, Duration::ZERO));
    let promise = Promise::new(facilities.notices(), name, seat.notified());
    promise.seen_by(facilities.observer(), event)
}
