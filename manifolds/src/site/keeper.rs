//! The worker that runs the engine of a site's resources, and swaps one site for the next.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use crankcase_engine::owner::NestedEngine;
use crankcase_engine::{ChangeError, Engine, EngineGone, Exit, Latest, Outcome, Stop, Worker};
use crankcase_resources::run::{Activity, Leaving, Schedule, Tallies};
use crankcase_resources::state::{Key, Record};
use crankcase_resources::{Facilities, Site};

use super::wiring::Wiring;
use crate::site_origin::ORIGIN;

/// Runs the engine of a site's resources, and swaps one site for the next.
///
/// It stands among the manifolds because what it does is to install manifolds.
#[derive(Debug)]
pub(super) struct Keeper {
    nested: NestedEngine,
    site: Latest<Arc<Site>>,
    wiring: Wiring,
}

impl Keeper {
    pub(super) fn new(nested: NestedEngine, site: Latest<Arc<Site>>, wiring: Wiring) -> Self {
        Self { nested, site, wiring }
    }

    /// Returns the engine in which each resource is a worker.
    pub(super) fn engine(&self) -> Engine {
        Engine::clone(&self.nested)
    }

    /// Returns whether the resources are at rest.
    pub(super) fn activity(&self) -> Activity {
        self.wiring.activity()
    }

    /// Returns the schedule that the resources share.
    pub(super) fn schedule(&self) -> Schedule {
        self.wiring.schedule()
    }

    /// Returns what tells how the resources have fared.
    pub(super) fn tallies(&self) -> Tallies {
        self.wiring.tallies()
    }
}

impl Worker for Keeper {
    async fn run(self, stop: Stop) -> Outcome {
        let (engine, summaries) = (self.engine(), self.wiring.summarize());
        let records = self.wiring.facilities().records().clone();
        let leaving = leave_programs(stop.clone(), self.wiring.facilities().clone());
        let outcome = tokio::select! {
            biased;
            // This branch is first, so that the resources know that the agent ends before they are
            // told to stop.
            never = leaving => match never {},
            outcome = self.nested.run(stop) => outcome,
            refused = follow(engine, self.site, self.wiring) => Err(refused),
            () = summaries => Ok(()),
        };
        // Nobody has waited for some records. They are written before the process ends. If that
        // fails, the next agent knows fewer of the configs that were good last.
        drop(records.flush(records.push([])).await);
        outcome
    }
}

/// Once the keeper is told to stop, lets those programs run on that may outlive the agent.
async fn leave_programs(stop: Stop, facilities: Facilities) -> Infallible {
    stop.wait().await;
    facilities.leave_programs();
    pending().await
}

/// Applies each site that comes; returns why one was refused, which a loaded site never is.
async fn follow(engine: Engine, mut site: Latest<Arc<Site>>, mut wiring: Wiring) -> Exit {
    let mut next = site.get();
    let mut why = "the site is there";
    loop {
        let whole = match wiring.looks_only() {
            true => None,
            false => next.with_departed(wiring.facilities()).await,
        };
        let whole = whole.as_ref().unwrap_or(&next);
        whole.end_stray_programs(wiring.facilities()).await;
        let leaving = (!wiring.looks_only()).then(|| whole.leaving(wiring.facilities()));
        wiring.trial().iter().for_each(|trial| trial.begin(&next));
        wiring.take_over_pauses().await;
        let (change, moved) = match wiring.change(whole) {
            Ok(change) => change,
            Err(error) => return Exit::failed(error),
        };
        let mut lost = Vec::new();
        match engine.asked_by(ORIGIN, why).apply(change).await {
            // The change stands. What is stuck is named in the report, and holds up no other.
            Ok(()) | Err(ChangeError::Stuck { .. }) => {
                let released = leaving.as_ref().map_or(&[][..], Leaving::released);
                moved.log(released, why);
                wiring.park(&engine, moved).await;
                wiring.hand_over();
                wiring.trial().iter().for_each(|trial| trial.put_in_force(&next));
                if let Some(leaving) = leaving {
                    lost = wiring.release(leaving).await;
                }
                // A worker that has left with the change may have left a program after the look
                // above, such as one that it could not adopt.
                whole.end_stray_programs(wiring.facilities()).await;
            }
            // The engine's own end says how that went.
            Err(ChangeError::Stopped) => return pending().await,
            Err(error) => return Exit::failed(error),
        }
        why = "the site has changed";
        let mut last = next;
        loop {
            next = match next_site(&mut site, &wiring, &mut lost).await {
                Ok(next) => next,
                Err(EngineGone) => return pending().await,
            };
            let Some(renewed) = next.renewed_since(&last) else { break };
            wiring.renew(renewed).log(&[], "facts have changed");
            wiring.hand_over();
            wiring.trial().iter().for_each(|trial| trial.put_in_force(&next));
            last = Arc::clone(&next);
        }
    }
}

/// Waits for the next site. Forgets what was `lost` with this one as soon as its trial is over.
async fn next_site(
    sites: &mut Latest<Arc<Site>>,
    wiring: &Wiring,
    lost: &mut Vec<Key>,
) -> Result<Arc<Site>, EngineGone> {
    if let Some(trial) = wiring.trial().filter(|_| !lost.is_empty()) {
        tokio::select! {
            biased;
            next = sites.changed() => return next,
            () = trial.over() => {
                let forgotten = lost.drain(..).map(|key| Record::Removed { key });
                wiring.facilities().records().push(forgotten);
            }
        }
    }
    sites.changed().await
}
