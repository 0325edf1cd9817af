//! The permission to change resources, and their actions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_engine::Stop;
use serde_json::Value;

use crate::base::deadline::too_late;
use crate::base::text::{chain, cut_after};
use crate::declare::action::Unfinished;
use crate::report::account::{Done, Halt, Outcome};
use crate::report::planned::Change;
use crate::report::seal::Basis;
use crate::schedule::Answer;
use crate::visit::Visit;
use crate::visit::announcement::Announcement;
use crate::visit::approval::{Approval, Proposal};
use crate::visit::opened::{Acted, NotBegun, Opened};

/// How many characters of an action's last line an error shows.
const LAST_LINE: usize = 200;

/// Whether actions may still start.
#[derive(Debug)]
pub(crate) struct Gatekeeper {
    stop: Stop,
    fail_fast: bool,
    has_failed: AtomicBool,
    approval: Vec<Arc<dyn Approval>>,
}

impl Gatekeeper {
    pub(crate) fn new(stop: Stop) -> Self {
        let has_failed = AtomicBool::new(false);
        Self { stop, fail_fast: false, has_failed, approval: Vec::new() }
    }

    /// Says whether the first failure keeps every other action from starting; off by default.
    pub(crate) fn fail_fast(self, fail_fast: bool) -> Self {
        Self { fail_fast, ..self }
    }

    /// Has each change approved before it is made.
    pub(crate) fn approved(self, approval: Vec<Arc<dyn Approval>>) -> Self {
        Self { approval, ..self }
    }

    /// Returns the digests of the programs of a resource, by which its change is approved; null if
    /// no approval is needed.
    pub(crate) async fn programs(&self, opened: &Opened) -> Value {
        match self.approval.is_empty() {
            true => Value::Null,
            false => opened.programs().await,
        }
    }

    /// Refuses a change that is not approved. `after` is the state after the change, as far as it
    /// is known.
    pub(crate) async fn approve_change(
        &self,
        opened: &Opened,
        change: &Change,
        after: Option<&Value>,
    ) -> Result<(), Outcome> {
        let programs = self.programs(opened).await;
        let config = opened.config();
        let basis = Basis { config: &config, after, programs: &programs };
        self.approve(opened.name(), Proposal::Change(change, basis)).await
    }

    /// Refuses what is not approved.
    pub(crate) async fn approve(
        &self,
        resource: &str,
        proposal: Proposal<'_>,
    ) -> Result<(), Outcome> {
        if let Some(outcome) = self.refuse().filter(|_| !self.approval.is_empty()) {
            return Err(outcome);
        }
        for approval in &self.approval {
            if let Some(because) = approval.refuses(resource, proposal).await {
                return Err(Outcome::Refused { because });
            }
        }
        Ok(())
    }

    /// Returns why no action may start, if none may.
    pub(crate) fn halt(&self) -> Option<Halt> {
        if self.stop.is_stopped() {
            return Some(Halt::Stop);
        }
        (self.fail_fast && self.has_failed.load(Ordering::Acquire)).then_some(Halt::FailFast)
    }

    /// Returns the outcome of a resource whose next action may not start, if it may not.
    fn refuse(&self) -> Option<Outcome> {
        self.halt().map(|by| Outcome::Halted { at: None, by })
    }

    /// Returns the same; the schedule may refuse it too.
    async fn refuse_by(&self, opened: &Opened) -> Option<Outcome> {
        match self.refuse() {
            Some(outcome) => Some(outcome),
            None => opened.refusal().await.map(|answer| self.not_allowed(answer)),
        }
    }

    /// Returns the outcome of a resource that the schedule does not allow to act.
    fn not_allowed(&self, answer: Answer) -> Outcome {
        match answer {
            Answer::Halted => Outcome::Halted { at: None, by: self.halt().unwrap_or(Halt::Stop) },
            // Only run has such answers, and asks the schedule for the reason.
            Answer::Act | Answer::Again | Answer::HeldBack => Outcome::NotAllowed,
        }
    }

    /// Returns the stop of the run.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Notes how a visit has ended: a failure may keep others from acting.
    pub(crate) fn note_end(&self, end: &Outcome) {
        if matches!(end, Outcome::Failed { .. }) {
            self.has_failed.store(true, Ordering::Release);
        }
    }

    /// Does the wanted actions of a visit, one after another, until one does not finish. The announcement
    /// is made before the first, as soon as it may begin.
    pub(crate) async fn run(
        &self,
        opened: &Opened,
        visit: &mut Visit,
        announcement: &Announcement,
    ) -> Result<(), Outcome> {
        while let Some(action) = visit.change.actions.first() {
            if let Some(outcome) = self.refuse_by(opened).await {
                return Err(outcome);
            }
            self.approve(opened.name(), Proposal::Act(action)).await?;
            self.act(opened, visit, announcement).await?;
        }
        Ok(())
    }

    /// Does the next action of a visit.
    async fn act(
        &self,
        opened: &Opened,
        visit: &mut Visit,
        announcement: &Announcement,
    ) -> Result<(), Outcome> {
        let wanted = &mut visit.change.actions;
        let acted = opened.act(&wanted[0], announcement, &|| self.refuse().is_none()).await;
        if acted.is_err() && visit.done.is_empty() {
            opened.note_not_begun(announcement).await;
        }
        let Acted { ended, is_late, log } = acted.map_err(|not_begun| match not_begun {
            NotBegun::NotAllowed(answer) => self.not_allowed(answer),
            NotBegun::NotOnRecord(error) => Outcome::failed(error),
        })?;
        let done = Done { action: wanted.remove(0), log };
        let error = match ended {
            Ok(Ok(())) => {
                visit.done.push(done);
                return Ok(());
            }
            Ok(Err(Unfinished::Interrupted)) if is_late => {
                too_late(opened.timeout(), &format!("interrupted{}", last_line(&done.log)))
            }
            Ok(Err(Unfinished::Interrupted)) => {
                let by = self.halt().unwrap_or(Halt::Stop);
                return Err(Outcome::Halted { at: Some(done), by });
            }
            Ok(Err(Unfinished::Failed(err))) if is_late => {
                too_late(opened.timeout(), &chain(&*err))
            }
            Ok(Err(Unfinished::Failed(err))) => chain(&*err),
            Err(panicked) => chain(&panicked),
        };
        Err(Outcome::Failed { at: Some(done), error: opened.redact(&error) })
    }
}

/// Says what an action wrote last, for the end of an error.
fn last_line(log: &[String]) -> String {
    let last = log.iter().map(|line| line.trim()).rfind(|line| !line.is_empty());
    last.map_or_else(String::new, |line| format!("; it said last: {}", cut_after(line, LAST_LINE)))
}
