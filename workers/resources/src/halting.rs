use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::Ledger;

use crate::account::{Done, Halt, Outcome};
use crate::action::{Action, ActionContext, Description, Unfinished};
use crate::caught::caught_async;
use crate::deadline::{Deadline, too_late};
use crate::text::chain;

/// Whether actions may still start.
#[derive(Debug)]
pub(crate) struct Halting {
    stop: Stop,
    fail_fast: bool,
    ledger: Option<Ledger>,
    has_failed: AtomicBool,
    gate: Option<Gate>,
}

/// Returns the name of the resource because of which no action may start, if none may.
struct Gate(Box<dyn Fn() -> Option<String> + Send + Sync>);

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Halting {
    pub(crate) fn new(stop: Stop, fail_fast: bool, ledger: Option<Ledger>) -> Self {
        Self { stop, fail_fast, ledger, has_failed: AtomicBool::new(false), gate: None }
    }

    /// Lets an action start only if `gate` returns no resource because of which it may not.
    pub(crate) fn gated(self, gate: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self { gate: Some(Gate(Box::new(gate))), ..self }
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
        if let Some(by) = self.halt() {
            return Some(Outcome::Halted { at: None, by });
        }
        let because = self.gate.as_ref().and_then(|gate| gate.0())?;
        Some(Outcome::Skipped { because })
    }

    /// Returns whether apply was told to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Notes a failure.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    /// Runs actions one after another until one does not finish.
    ///
    /// Each may take `timeout`.
    pub(crate) async fn run(
        &self,
        actions: Vec<Action>,
        timeout: Option<Duration>,
        steps: &mut Steps,
    ) -> Result<(), Outcome> {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            let ran = match self.refuse() {
                Some(outcome) => {
                    steps.remaining.push(action.description().clone());
                    Err(outcome)
                }
                None => self.run_one(action, timeout, &mut steps.done).await,
            };
            if let Err(outcome) = ran {
                steps.remaining.extend(actions.map(|action| action.description().clone()));
                return Err(outcome);
            }
        }
        Ok(())
    }

    async fn run_one(
        &self,
        action: Action,
        timeout: Option<Duration>,
        all: &mut Vec<Done>,
    ) -> Result<(), Outcome> {
        let description = action.description().clone();
        let deadline = Deadline::new(timeout, &self.stop);
        let context = ActionContext::new(deadline.stop().clone()).with_ledger(self.ledger.clone());
        let (ran, is_late) = deadline.tell(caught_async(action.run(context.clone()))).await;
        let done = Done { action: description, log: context.lines() };
        let error = match ran {
            Ok(Ok(())) => {
                all.push(done);
                return Ok(());
            }
            Ok(Err(Unfinished::Interrupted)) if is_late => too_late(timeout, "interrupted"),
            Ok(Err(Unfinished::Interrupted)) => {
                return Err(Outcome::Halted { at: Some(done), by: Halt::Stop });
            }
            Ok(Err(Unfinished::Failed(err))) if is_late => too_late(timeout, &chain(&*err)),
            Ok(Err(Unfinished::Failed(err))) => chain(&*err),
            Err(panicked) => chain(&panicked),
        };
        Err(Outcome::Failed { at: Some(done), error })
    }
}

/// What was done to a resource so far, and what was wanted and not begun.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    pub(crate) done: Vec<Done>,
    pub(crate) remaining: Vec<Description>,
}
