//! The resource's program that an earlier agent has left running.

use crankcase_workers::{Fate, Survivor};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::text::chain;
use crate::modes::reconcile::reconciler::Reconciler;
use crate::report::account::Outcome;
use crate::report::observer::EventKind;
use crate::schedule::state::State;
use crate::visit::{Step, Visit};

/// Why a program is adopted.
const ADOPTED: &str = "an earlier agent has started it with an equal config";

/// Why a program that was to be adopted has ended.
const ENDED_UNSEEN: &str = "it has ended while no agent ran; how is unknown";

/// Why a program that an earlier agent has left is ended.
const ANOTHER: &str = "an earlier agent has started it with another config";

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    /// Adopts the program that an earlier agent has left running, if it was started with an equal
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

    /// Ends the resource's programs that an earlier agent has left running and that were not
    /// adopted.
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
                    let reason = format!("cannot end what an earlier agent has left: {error}");
                    return Err(Outcome::failed(self.redact(&reason)));
                }
            };
            self.pid = Some(survivor.pid());
            self.tell_end(if fate == Fate::Gone { ENDED_UNSEEN } else { ANOTHER });
            self.pid = running;
        }
    }
}
