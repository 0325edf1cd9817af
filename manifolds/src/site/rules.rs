//! The manifold that runs the rules of a site.

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;

use crankcase_engine::{Engine, Manifold, Name, Outcome, Stop, Worker};
use crankcase_resources::run::{Happenings, RuleTally, Rules, Schedule, World};
use crankcase_resources::state::Records;
use crankcase_resources::{Facilities, Site};
use crankcase_workers::Ledger;
use serde_json::json;
use tokio::sync::watch;

/// What the manifold of a site's [`rules`] needs.
#[derive(Clone)]
pub struct RulesConfig {
    /// The site. A new site replaces the old one.
    pub site: Name<Arc<Site>>,
    /// The engine of its resources.
    pub resources: Name<Engine>,
    /// The facts that the rules read and write.
    pub world: Arc<dyn World>,
    /// The events of the resources.
    pub events: Happenings,
    /// The state folder.
    pub state: PathBuf,
    /// The records of the state folder.
    pub records: Records,
}

impl fmt::Debug for RulesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesConfig").field("site", &self.site).finish_non_exhaustive()
    }
}

/// Returns a manifold that runs the rules of a site, and reports a [`RuleTally`] for each.
pub fn rules(config: RulesConfig) -> Manifold {
    let inputs = (config.site.live().required(), config.resources.output::<Schedule>());
    Manifold::builder()
        .inputs(inputs)
        .start_with(config, |config, (site, schedule), ctx| async move {
            let RulesConfig { world, events, state, records, .. } = config;
            let tally = watch::Sender::new(BTreeMap::new());
            let current = tally.subscribe();
            let ledger = Some(Ledger::new(&Facilities::processes(&state)));
            let health = ctx.health();
            let rules = Rules { site, world, schedule, events, records, ledger, health, tally };
            Ok(Following { rules, current })
        })
        .report(|following| {
            let current = following.current.clone();
            move || ready(json!(*current.borrow()))
        })
        .build()
}

struct Following {
    rules: Rules,
    current: watch::Receiver<BTreeMap<String, RuleTally>>,
}

impl Worker for Following {
    async fn run(self, stop: Stop) -> Outcome {
        self.rules.run(stop).await
    }
}
