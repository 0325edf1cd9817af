//! One round: a look at the resource, and what it takes to make it as declared.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::declare::declaration::{Declaration, DependencyState, REPAIRS};
use crate::declare::earlier_config::EarlierConfig;
use crate::kind::context::{Notice, Used};
use crate::modes::reconcile::open_resource::{OpenResource, Running, Unopened};
use crate::modes::reconcile::reconciler::Reconciler;
use crate::report::account::Outcome;
use crate::report::found::listed;
use crate::report::observer::{Event, EventKind};
use crate::report::said;
use crate::schedule::Ticket;
use crate::schedule::cause::{VisitBasis, Why, Whys, noted, others};
use crate::schedule::state::State;
use crate::state::reversal::Reversal;
use crate::visit::active_watches::ActiveWatches;
use crate::visit::announcement::Announcement;
use crate::visit::inputs::{Inputs, not_known};
use crate::visit::last_good;
use crate::visit::prepared::{NotPrepared, Prepared, Setting};
use crate::visit::{Step, Visit};

/// How a resource is held after it was prepared.
struct Holding {
    /// Whether it is another one than before.
    is_new: bool,
    /// The attributes of its config that are others than before.
    changed: Vec<String>,
    /// What is wrong with its config, if it stays what it was because of that.
    wrong: Option<String>,
}

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    /// Looks at the resource, and makes it as declared. Fills in the visit, and returns how it has
    /// ended if something has stopped it.
    pub(super) async fn round(
        &mut self,
        (declaration, is_redeclared): (&Declaration, bool),
        ticket: Ticket,
        visit: &mut Visit,
        whys: &mut Whys,
    ) -> Result<(), Outcome> {
        let began = Instant::now();
        let setting = Arc::clone(&self.setting);
        let facilities = &setting.facilities;
        // Its record is gone as soon as it is back, also if its worker is another one by then.
        if let Some(thing) = &declaration.record
            && !Reversal::is_on_record(facilities.records(), thing)
        {
            self.is_back = true;
            return Ok(());
        }
        whys.extend(self.learn(declaration));
        let was_held = self.held.is_some();
        let holding = self.hold(declaration, visit).await;
        if is_redeclared {
            let changed = holding.as_ref().map(|holding| holding.changed.clone());
            let changed = was_held.then(|| changed.unwrap_or_default());
            whys.extend(redeclared(changed, &declaration.changed_facts));
        }
        self.why = whys.to_string();
        let Holding { is_new, wrong, .. } = holding?;
        let Some(held) = &mut self.held else { return Ok(()) };
        held.opened.join(Some(self.handle.turn(ticket)));
        let lasting = setting.backoff_of(declaration).reset_after;
        visit.step = Step::Watch;
        let watches = held.watches.arm(&held.opened, (lasting, setting.quiet), &self.stop).await;
        watches.map_err(Outcome::failed)?;
        self.rest(whys).await;
        let Some(held) = &mut self.held else { return Ok(()) };
        let sources = held.sources().await;
        let (states, declared) = (self.known.clone(), declaration.clone());
        let basis = VisitBasis { declaration: declared, states, sources };
        let made_by = self.made_by.as_ref();
        let mut is_drift = !is_new && (wrong.is_some() || made_by == Some(&basis));
        let what = if is_drift { EventKind::Repaired } else { EventKind::Changed };
        let who = (&*self.name, &*declaration.kind);
        let event = Event::new(what, who, (&self.why, Duration::ZERO));
        let announcement = Announcement::new(self.handle.notified(), Some(event));
        if wrong.is_some() {
            // A resource that is wrong answers no notification.
            visit.notices.clear();
        }
        let unseen = held.converge(&self.gatekeeper, declaration, &announcement, visit).await;
        if is_drift && !visit.done.is_empty() && wrong.is_none() {
            // What a person edits during the look is no drift either.
            is_drift = held.sources().await == basis.sources;
        }
        let wrong = wrong.or(unseen);
        said::log(&self.name, &visit.output());
        if !visit.done.is_empty() {
            self.note_change(visit, is_drift, began.elapsed().saturating_sub(self.rested));
        }
        if !visit.end.is_good() {
            return Err(visit.end.clone());
        }
        if wrong.is_none() {
            self.made_by = Some(basis);
        }
        self.settle(declaration, wrong.as_deref(), visit).await?;
        let Some(wrong) = wrong else { return Ok(()) };
        visit.is_kept_as_before = true;
        Err(Outcome::failed(wrong))
    }

    /// Waits while somebody edits a file that the resource reads.
    async fn rest(&mut self, whys: &mut Whys) {
        let Some(held) = &mut self.held else { return };
        let began = Instant::now();
        if let Some(why) = held.watches.rest(&self.stop).await {
            whys.extend([why]);
            self.why = whys.to_string();
        }
        self.rested = began.elapsed();
    }

    /// Does what is left to do for a resource that is as declared, or left alone, or as it was
    /// before its config became wrong.
    async fn settle(
        &mut self,
        declaration: &Declaration,
        wrong: Option<&str>,
        visit: &mut Visit,
    ) -> Result<(), Outcome> {
        if declaration.readonly && visit.state.is_none() {
            visit.remark = Some("it is only read, and does not exist".to_owned());
        }
        if declaration.noop {
            // An adoption starts nothing.
            self.adopt(visit).await?;
            self.until_ready(visit).await?;
            let Some(held) = &self.held else { return Ok(()) };
            let facilities = &self.setting.facilities;
            let program = held.program_config(&self.name, facilities);
            let digest = program.map(|program| program.digest).unwrap_or_default();
            let left = facilities.survivors();
            let amiss = match visit.end {
                Outcome::Noop => Some(listed(&visit.change.differences)),
                _ if left.has_equal(&self.name, &digest) => None,
                _ if left.has(&self.name) => Some("it runs with the config before".to_owned()),
                _ => held.amiss().filter(|_| !declaration.readonly).map(str::to_owned),
            };
            let left_alone = amiss.map(|amiss| format!("it is left alone (noop): {amiss}"));
            visit.remark = visit.remark.take().or(left_alone);
            return Ok(());
        }
        self.supervise(declaration, visit).await?;
        if let Some(thing) = declaration.record.as_ref().filter(|_| wrong.is_none()) {
            Reversal::forget(self.setting.facilities.records(), from_ref(thing)).await;
            self.is_back = true;
        } else if let Some(held) = &self.held {
            visit.holds = held.opened.holds().map_err(Outcome::failed)?;
            if wrong.is_none() {
                last_good::note(&held.opened);
            }
        }
        Ok(())
    }

    /// Takes over the limits of repairs, and the states of the dependencies. A dependency without a
    /// state keeps its last one. Returns which states are others than before.
    fn learn(&mut self, declaration: &Declaration) -> Vec<Why> {
        let soon = self.setting.backoff_of(declaration).reset_after;
        self.retry_state.limit_repairs(soon, declaration.repairs.unwrap_or(REPAIRS));
        let mut whys = Vec::new();
        for used in &declaration.dependencies {
            let Some(state) = self.links.schedule.last_state(&used.resource) else { continue };
            let before = self.known.insert(used.alias.clone(), state.clone());
            if before.is_some_and(|before| before != state) {
                whys.push(Why::NewState(used.resource.as_str().into()));
            }
        }
        whys
    }

    /// Returns the setting with which the resource is prepared.
    pub(super) fn preparing(&self) -> Setting {
        Setting {
            salt: None,
            kinds: self.setting.kinds.clone(),
            stop: self.stop.clone(),
            claims: self.links.claims.clone(),
            facilities: self.setting.facilities.clone(),
        }
    }

    /// Prepares the resource, and opens it if it is another one than before.
    async fn hold(
        &mut self,
        declaration: &Declaration,
        visit: &mut Visit,
    ) -> Result<Holding, Outcome> {
        let setting = self.preparing();
        let (used, notices) = (self.used(declaration, &visit.notices), visit.notices.clone());
        let inputs = Inputs { used, notices, ..Inputs::default() };
        let may_stay = self.made_by.as_ref().is_some_and(|made| {
            !made.declaration.is_clone_of(declaration) || made.states != self.known
        });
        let open = self.held.as_ref().map(|held| held.opened.prepared());
        let prepared = match Prepared::of(declaration, &setting, &inputs, open) {
            Ok(prepared) => prepared,
            Err(NotPrepared::Unknown(aliases)) => {
                return Err(Outcome::failed(not_known(&aliases)));
            }
            Err(NotPrepared::Wrong(wrong)) => {
                return self.keep_as_before(declaration, &setting, wrong).await;
            }
        };
        let changed = match open {
            Some(open) if !prepared.is_open => others(&open.config(), &prepared.config()),
            _ => Vec::new(),
        };
        if prepared.is_open
            && let Some(held) = &mut self.held
        {
            held.see(prepared.context, may_stay);
            return Ok(Holding { is_new: false, changed, wrong: None });
        }
        visit.step = Step::Open;
        match OpenResource::open(self.held.take(), prepared, &self.links.watches).await {
            Ok(held) => {
                self.held = Some(held);
                Ok(Holding { is_new: true, changed, wrong: None })
            }
            Err(Unopened { reason, running }) => {
                let mut before = self.links.program.ran_with();
                if before.is_none() && setting.facilities.survivors().has(&self.name) {
                    // It was left running, and somebody has to look after it.
                    before = last_good::read(setting.facilities.records(), declaration).await;
                }
                let declared = (declaration, &*reason);
                match self.hold_as_before(declared, &setting, running, before).await {
                    true => Ok(Holding { is_new: true, changed, wrong: Some(reason) }),
                    false => Err(Outcome::failed(reason)),
                }
            }
        }
    }

    /// Keeps a resource as it was before its config became wrong: as it is held, as its program ran
    /// last, or as it was good last in the life of an earlier worker or agent. One that is to be put
    /// back is not kept, and neither is one that keeps what another resource keeps by now.
    async fn keep_as_before(
        &mut self,
        declaration: &Declaration,
        setting: &Setting,
        wrong: String,
    ) -> Result<Holding, Outcome> {
        if declaration.is_put_back() {
            return Err(Outcome::failed(wrong));
        }
        let is_new = self.held.is_none();
        if let Some(held) = &mut self.held {
            held.step_back();
            let prepared = held.opened.prepared();
            if prepared.claim_as_before(declaration, &setting.claims).is_err() {
                self.let_go().await;
                return Err(Outcome::failed(wrong));
            }
        } else {
            let before = match self.links.program.ran_with() {
                Some(before) => Some(before),
                None => last_good::read(setting.facilities.records(), declaration).await,
            };
            let (declared, running) = ((declaration, &*wrong), Running::default());
            if !self.hold_as_before(declared, setting, running, before).await {
                return Err(Outcome::failed(wrong));
            }
        }
        Ok(Holding { is_new, changed: Vec::new(), wrong: Some(wrong) })
    }

    /// Holds the resource with a config that it had before, so that its program runs on, or is
    /// started again. If that cannot be done, ends the program. Returns whether the resource is
    /// held.
    pub(super) async fn hold_as_before(
        &mut self,
        (declaration, wrong): (&Declaration, &str),
        setting: &Setting,
        running: Running,
        before: Option<EarlierConfig>,
    ) -> bool {
        let before = before.filter(|_| !declaration.is_put_back());
        let prepared = before.and_then(|before| {
            let used = self.used(declaration, &[]);
            Prepared::as_before((before, used), (declaration, wrong), setting).ok()
        });
        let watches = ActiveWatches::new(self.links.watches.clone());
        let mut left = match prepared {
            Some(prepared) => match OpenResource::open_with(running, prepared, watches).await {
                Ok(held) => {
                    self.held = Some(held);
                    return true;
                }
                Err(Unopened { running, .. }) => {
                    setting.claims.release(&self.name);
                    running
                }
            },
            None => running,
        };
        left.end().await;
        self.tell_end("it cannot be opened");
        false
    }

    /// Ends what is held, because another resource keeps the same.
    async fn let_go(&mut self) {
        let Some(held) = self.held.take() else { return };
        held.close().await;
        self.tell_end("another resource keeps what it keeps");
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

    /// Reports a change, and counts it.
    fn note_change(&mut self, visit: &Visit, is_drift: bool, took: Duration) {
        let (what, origin) = noted(&visit.differing(), is_drift, &visit.notices);
        let notified_by = visit.notified_by();
        let happened = Event { notified_by, ..visit.event(what, &self.why, took) };
        said::log_change(self.links.schedule.flood(), &happened, took);
        // A change that has failed half-way is no repair yet.
        self.handle.note_change(what == EventKind::Repaired && visit.end.is_good());
        self.tell(happened);
        let actions = visit.actions.iter().map(ToString::to_string).collect::<Vec<_>>();
        self.links.journal.note(format!("{}: {}", what.word(), actions.join("; ")), origin);
        if is_drift && visit.notices.is_empty() {
            self.retry_state.note_repair();
        }
    }
}

/// Returns what is new in a declaration: the attributes that are others, and the facts that have
/// changed. If the resource was not held before, there are no attributes to compare with.
fn redeclared(attributes: Option<Vec<String>>, facts: &[String]) -> Vec<Why> {
    let known = attributes.filter(|names| !names.is_empty() || facts.is_empty());
    let declared = known.map(Why::Declared);
    declared.into_iter().chain(facts.iter().cloned().map(Why::UsedFact)).collect()
}
