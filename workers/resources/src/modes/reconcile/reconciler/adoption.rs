//! The resource's program that an earlier worker has left running: one of an earlier agent, or of the
//! site before.

use crankcase_workers::{Fate, Survivor};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::text::chain;
use crate::modes::reconcile::reconciler::Reconciler;
use crate::report::account::Outcome;
use crate::report::observer::EventKind;
use crate::schedule::cause::by_agent;
use crate::schedule::state::State;
use crate::visit::{Step, Visit};

/// Why a program is adopted.
const ADOPTED: &str = "it was started with an equal config";

/// Why a program that was to be adopted has ended.
const ENDED_UNSEEN: &str = "it has ended while nobody looked after it; how is unknown";

/// Why a program that was left is ended.
const ANOTHER: &str = "it was started with another config";

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    /// Adopts the program that was left running, if it was started with an equal
    /// config. Nobody is asked for that: nothing is started.
    pub(super) async fn adopt(&mut self, visit: &mut Visit) -> Result<(), Outcome> {
        let facilities = &self.setting.facilities;
        let survivors = facilities.survivors();
        let Some(held) = &mut self.held else { return Ok(()) };
        if held.running.program.is_some() || !survivors.has(&self.name) {
            return Ok(());
        }
        let Some(config) = held.program_config(&self.name, facilities) else { return Ok(()) };
        let is_equal = |survivor: &Survivor| {
            config.survives && survivor.name() == self.name && survivor.digest() == config.digest
        };
        let Some(survivor) = survivors.take(is_equal) else { return Ok(()) };
        let began = Instant::now();
        let adopted = held.adopt(&self.stop, (config, facilities), &survivor).await;
        match adopted {
            Ok(Some(running)) => {
                let config = held.opened.config_and_hidden();
                self.links.program.begin(running, config);
                self.tell_start(EventKind::Adopted, ADOPTED, &[], began.elapsed());
                // These are programs that could not be ended before the next one was started.
                self.end_survivors(visit).await
            }
            Ok(None) => {
                self.pid = Some(survivor.pid());
                self.tell_end(ENDED_UNSEEN);
                Ok(())
            }
            Err(error) => {
                survivors.add([survivor]);
                visit.step = Step::Supervise;
                Err(Outcome::failed(self.redact(&chain(&error))))
            }
        }
    }

    /// Hands the program to the worker that is to keep the resource from now on.
    pub(super) async fn hand_over(&mut self, survivor: Survivor) {
        self.links.journal.note("left its program running", by_agent("another worker keeps it"));
        self.pid = None;
        self.setting.facilities.survivors().add([survivor]);
        // The site may have changed once more meanwhile: nobody would adopt it.
        if !self.setting.facilities.leaves_programs() && !self.has_successor() {
            let why = self.handle.why_stopped(&self.name);
            self.setting.facilities.end_survivors_of(&self.name, why).await;
        }
    }

    /// Returns whether another worker is to keep the resource from now on.
    pub(super) fn has_successor(&self) -> bool {
        let kind = self.visited_by.as_ref().map(|declaration| declaration.kind.as_str());
        kind.is_some_and(|kind| self.handle.has_successor(&self.name, kind))
    }

    /// Ends the resource's programs that were left running and not adopted.
    pub(super) async fn end_survivors(&mut self, visit: &mut Visit) -> Result<(), Outcome> {
        let running = self.pid;
        loop {
            let survivors = self.setting.facilities.survivors();
            let Some(survivor) = survivors.take(|survivor| survivor.name() == self.name) else {
                return Ok(());
            };
            let fate = match survivor.clone().end_or_clear().await {
                Ok(fate) => fate,
                Err(error) => {
                    survivors.add([survivor]);
                    visit.step = Step::Supervise;
                    let reason = format!("cannot end what was left running: {error}");
                    return Err(Outcome::failed(self.redact(&reason)));
                }
            };
            self.pid = Some(survivor.pid());
            self.tell_end(if fate == Fate::Gone { ENDED_UNSEEN } else { ANOTHER });
            self.pid = running;
        }
    }
}
