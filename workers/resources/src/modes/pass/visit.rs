//! The visit of one resource in a pass of plan or apply.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::declare::declaration::{Declaration, DependencyState};
use crate::kind::foresight::Foresight;
use crate::report::account::Outcome;
use crate::report::seal::{Basis, Seal};
use crate::schedule::asking::Turn;
use crate::state::reversal::Reversal;
use crate::visit::announcement::{Announcement, acknowledge};
use crate::visit::converge::Convergence;
use crate::visit::gatekeeper::Gatekeeper;
use crate::visit::inputs::Inputs;
use crate::visit::last_good;
use crate::visit::opened::Opened;
use crate::visit::prepared::{NotPrepared, Prepared, Setting};
use crate::visit::{Changes, Step, Visit};

/// The resources that stay open after a plan, because they are to be shut down first.
pub(crate) type LeftOpen = Mutex<BTreeMap<usize, Opened>>;

/// A visit of a pass that is to begin.
#[derive(Debug)]
pub(crate) struct PassVisit {
    pub(crate) node: usize,
    pub(crate) declaration: Declaration,
    pub(crate) setting: Setting,
    pub(crate) inputs: Inputs,
    /// The resources that this one notifies.
    pub(crate) targets: Vec<Arc<str>>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    /// What was done to the resource before all others, if something was.
    pub(crate) prior: Option<Visit>,
    /// Asks the schedule before each action. None in a plan, and if the resource is skipped.
    pub(crate) turn: Option<Turn>,
    pub(crate) left_open: Option<Arc<LeftOpen>>,
}

impl PassVisit {
    /// Makes the resource as declared, or in a plan says how it would be.
    pub(crate) async fn run(mut self) -> Visit {
        let began = Instant::now();
        let prior = self.prior.take();
        let mut visit = prior.unwrap_or_else(|| Visit::new(&self.declaration, Vec::new()));
        visit.notices.clone_from(&self.inputs.notices);
        if self.inputs.foresight.is_some() {
            visit.state = Some(DependencyState::Unknown);
        }
        let opened = match visit.end.is_good() {
            true => self.open(&mut visit).await,
            false => Err(visit.end.clone()),
        };
        match opened {
            Ok(opened) => self.advance(opened, &mut visit).await,
            Err(end) => visit.close(Err(end)),
        }
        if let Some(foresight) = &self.inputs.foresight {
            foresight.end(visit.changes != Changes::No, self.declaration.makes_unnamed);
        } else {
            self.conclude(&visit, began.elapsed()).await;
        }
        visit
    }

    /// Prepares the resource by its declaration, and opens it.
    async fn open(&mut self, visit: &mut Visit) -> Result<Opened, Outcome> {
        if let Some(by) = self.gatekeeper.halt() {
            return Err(Outcome::NotAttempted { by });
        }
        if let Some(because) = self.inputs.blocked_by.take() {
            return Err(Outcome::Skipped { because });
        }
        if let Some(because) = self.inputs.needs_run.take() {
            return Err(Outcome::NeedsRun { because });
        }
        let prepared = Prepared::of(&self.declaration, &self.setting, &self.inputs, None);
        let prepared = prepared.map_err(|error| match error {
            NotPrepared::Unknown(aliases) => {
                if let Some(foresight) = &self.inputs.foresight {
                    foresight.note_unsure(&self.declaration.claims);
                }
                self.inputs.unknown(&aliases)
            }
            NotPrepared::Wrong(error) => Outcome::failed(error),
        })?;
        visit.step = Step::Open;
        let opened = prepared.open().await;
        let opened = opened.map_err(|err| self.inputs.cannot_look(self.gatekeeper.stop(), err))?;
        opened.join(self.turn.take());
        Ok(opened)
    }

    /// Goes on to the end, or to what stops it, and closes the resource.
    async fn advance(&mut self, opened: Opened, visit: &mut Visit) {
        let announcement = Announcement::new(std::mem::take(&mut self.targets), None);
        let convergence = Convergence {
            opened: &opened,
            declaration: &self.declaration,
            inputs: &self.inputs,
            gatekeeper: &self.gatekeeper,
            announcement: &announcement,
        };
        let ended = convergence.run(visit).await;
        visit.close(ended);
        if let Some(foresight) = &self.inputs.foresight {
            visit.seal = self.seal(&opened, foresight, visit).await;
            let is_sure = visit.end == Outcome::Changed;
            match (visit.changes, is_sure) {
                (Changes::No, _) => {}
                (_, true) => foresight.note(&opened.claims(&self.declaration)),
                (_, false) => foresight.note_unsure(&opened.claims(&self.declaration)),
            }
            self.declaration.makes_unnamed = opened.makes_unnamed(&self.declaration);
            if let Some(left_open) = &self.left_open
                && is_sure
                && visit.change.shutdown.is_some()
            {
                left_open.lock().insert(self.node, opened);
                return;
            }
        } else if matches!(visit.end, Outcome::Changed | Outcome::Unchanged) && !visit.is_put_back {
            last_good::note(&opened);
        }
        if let Err(error) = opened.close().await
            && visit.end.is_good()
        {
            visit.close(Err(Outcome::failed(error)));
        }
    }

    /// Returns what the resource is bound to, if the plan is sealed.
    async fn seal(&self, opened: &Opened, foresight: &Foresight, visit: &Visit) -> Option<Seal> {
        let salt = self.setting.salt.as_ref()?;
        let programs = opened.programs().await;
        let after = visit.after.as_deref();
        let config = opened.config();
        let basis = Basis { config: &config, after, programs: &programs };
        Some(Seal { follows_changes: foresight.changing().is_some(), ..basis.seal(salt) })
    }

    /// Notes what was answered and put back, and tells the observer how the visit has ended.
    async fn conclude(&self, visit: &Visit, took: Duration) {
        let facilities = &self.setting.facilities;
        let is_good = visit.end.is_good();
        // The notifications of what is left alone are not answered.
        if is_good && !visit.is_left_alone {
            acknowledge(facilities.records(), &visit.name, &self.inputs.due).await;
        }
        if let Some(thing) = self.declaration.record.as_ref().filter(|_| is_good) {
            Reversal::forget(facilities.records(), from_ref(thing)).await;
        }
        self.gatekeeper.note_end(&visit.end);
        if let Some(observer) = facilities.observer() {
            if let Some(event) = visit.applied(took) {
                observer.happened(&event);
            }
            observer.accounted(&visit.clone().accounted());
        }
    }
}
