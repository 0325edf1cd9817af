//! A resource that a person has paused: it is left alone, and its program runs on.
//!
//! It counts as good, so its dependents go on with its last state. Its notifications wait until it
//! is resumed.

use std::future::pending;
use std::sync::Arc;

use crankcase_workers::Secrets;
use serde_json::Value;
use tokio::sync::watch;

use crate::declare::declaration::{Declaration, DependencyState};
use crate::declare::params::Table;
use crate::kind::secrets::redact_value;
use crate::modes::reconcile::open_resource::Running;
use crate::modes::reconcile::reconciler::{Next, Reconciler};
use crate::report::account::Outcome;
use crate::schedule::Ticket;
use crate::schedule::state::State;
use crate::state::Hold;
use crate::visit::supervised::News;
use crate::visit::{Visit, last_good};

/// Said of a paused resource whose last config is not known.
const NOT_RUNNING: &str = "; its program does not run, as its last config is not known";

/// Said of such a resource if an earlier agent or worker has left its program running.
const LEFT: &str = "; its program runs on and is not adopted, as its config is not known";

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    /// Leaves the resource as it is, and says who has paused it. Its program is adopted, or started
    /// if no worker was there to keep it running, with the config with which it ran last.
    pub(super) async fn leave_alone(
        &mut self,
        declaration: &Declaration,
        ticket: Ticket,
        hold: Hold,
        visit: &mut Visit,
    ) -> Result<(), Outcome> {
        visit.is_left_alone = true;
        visit.notices.clear();
        self.offer_last_state(declaration, &hold, visit);
        let mut remark = hold.to_string();
        let kind = self.setting.kinds.get(&declaration.kind);
        let is_program = kind.is_ok_and(|kind| kind.is_supervised()) && !declaration.noop;
        if is_program && self.held.is_none() {
            match self.keep_running(declaration, ticket, visit).await {
                Ok(said) => remark += said,
                Err(end) => {
                    // The next visit tries again. What the agent's own end leaves running is left
                    // then, and a program that is not ready when it is resumed runs on.
                    if !self.stop.is_stopped()
                        && let Some(held) = self.held.take_if(|held| held.running.program.is_none())
                    {
                        held.close().await;
                    }
                    return Err(end);
                }
            }
        }
        self.follow_health(declaration);
        visit.remark = Some(remark);
        Ok(())
    }

    /// Adopts the program, or starts it. Returns the words to report if neither can be done.
    async fn keep_running(
        &mut self,
        declaration: &Declaration,
        ticket: Ticket,
        visit: &mut Visit,
    ) -> Result<&'static str, Outcome> {
        let is_held = self.hold_as_last(declaration, ticket).await;
        if is_held {
            self.adopt(visit).await?;
        }
        if self.setting.facilities.survivors().has(&self.name) {
            // This program would have to end before a program with the last config is started.
            if let Some(held) = self.held.take() {
                held.close().await;
            }
            return Ok(LEFT);
        }
        if !is_held {
            return Ok(NOT_RUNNING);
        }
        self.supervise(declaration, visit).await.map(|()| "")
    }

    /// Holds the resource with the config with which its program ran last. Returns whether that is
    /// known.
    async fn hold_as_last(&mut self, declaration: &Declaration, ticket: Ticket) -> bool {
        let setting = self.preparing();
        let before = match self.links.program.ran_with() {
            Some(before) => Some(before),
            None => last_good::read(setting.facilities.records(), declaration).await,
        };
        let declared = (declaration, "it is paused");
        let is_held = self.hold_as_before(declared, &setting, Running::default(), before).await;
        if let Some(held) = &self.held {
            held.opened.join(Some(self.handle.turn(ticket)));
        }
        is_held
    }

    /// Offers the last state of the resource to its dependents. The state is on record with the
    /// pause, unless it has secrets.
    fn offer_last_state(&self, declaration: &Declaration, hold: &Hold, visit: &mut Visit) {
        let last = self.links.schedule.last_state(&self.name);
        if let Some(state) = &last
            && hold.state.is_none()
            && let Ok(kind) = self.setting.kinds.get(&declaration.kind)
        {
            let facilities = &self.setting.facilities;
            let known = (kind.states(), facilities.secrets());
            if declaration.hidden.is_empty() && !has_secrets(state.value(), known) {
                let records = facilities.records();
                self.links.schedule.note_paused_state(&self.name, state, records);
            }
        }
        let last = last.map(|state| state.share()).or_else(|| hold.state.clone().map(Arc::new));
        visit.state = last.map(DependencyState::Known);
    }

    /// Waits until the resource is to be visited again, or its program has ended. Neither its
    /// watches nor the time of the next full look cause a visit.
    pub(super) async fn wait_paused(&mut self) -> Next {
        let mut program = self.held.as_mut().and_then(|held| held.running.program.as_mut());
        let ended = async {
            loop {
                match &mut program {
                    Some(program) => {
                        if let News::Ended(exit) = program.news().await {
                            return exit;
                        }
                    }
                    None => pending::<()>().await,
                }
            }
        };
        let exit = tokio::select! {
            biased;
            () = self.stop.wait() => return Next::Stop,
            exit = ended => exit,
            visit = self.handle.visit() => return Next::Visit(visit),
        };
        self.note_own_end(&exit);
        Next::Ended(exit)
    }
}

/// Returns whether a state has secrets: attributes that are sensitive, or values that are hidden.
fn has_secrets(state: &Value, (table, secrets): (&Table, &Secrets)) -> bool {
    let mut sensitive = table.parameters.iter().filter(|parameter| parameter.is_sensitive);
    let mut shown = state.clone();
    redact_value(&mut shown, secrets);
    shown != *state || sensitive.any(|parameter| state.get(&parameter.name).is_some())
}
