//! The manifold that keeps a machine as its site declares.
//!
//! Each resource is a manifold in one nested engine. Its dependencies are live inputs under the
//! names of the resources, its state is a changing output. So a dependent waits for the first state
//! of what it uses, and is never bounced by it.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Context, Engine, Exit, Latest, Live, Manifold, Name};
use crankcase_resources::run::Tallies;
use crankcase_resources::{Facilities, Site, blocking};
use crankcase_workers::{Leftovers, Watches, find_survivors, sort_leftovers};
use serde_json::json;

use self::keeper::Keeper;

pub use self::config::Config;
pub use self::holds::ResourceHolds;
pub use self::rules::{RulesConfig, rules};
#[cfg(feature = "manifest")]
pub(crate) use self::settled::settled as until_at_rest;
pub use self::settled::{until_settled, until_settled_for, when_settled};
pub use self::trial::{Failure, SiteTrial};

mod config;
mod holds;
mod keeper;
mod resource;
mod rules;
mod settled;
mod trial;
mod wiring;

/// How long the nested engine may take to stop: longer than a chain of resources that each use
/// their whole grace.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// Returns a manifold that keeps the machine as the site declares, and offers the [`Engine`] in
/// which each resource is a worker, the [`Activity`](crankcase_resources::run::Activity) of the
/// resources, and their [`Tallies`], which [`tally`] reports.
///
/// It first ends the processes that a killed agent has left behind. A program that may outlive its
/// agent is adopted if its resource declares it as it was, and ended otherwise.
///
/// When another site comes, the resources change as one group: what is gone is released, what is
/// new or has another type or other dependencies is installed, and the others are handed their new
/// declaration and make of it what has changed. One whose config is equal once it is rendered is
/// checked and no more, and one whose declaration and variables are equal does not notice.
pub fn manifold(config: Config) -> Manifold {
    Manifold::builder()
        .inputs((config.site.live().required(), config.watches.live()))
        .start_with(config, start)
        .output(Keeper::engine)
        .output(Keeper::activity)
        .output(Keeper::tallies)
        .output(Keeper::schedule)
        .report(|keeper| keeper.engine().reporter())
        .build()
        .grace(GRACE)
}

/// Returns a manifold whose report is the [`Tally`](crankcase_resources::Tally) of the resources that a
/// site's manifold keeps.
pub fn tally(resources: Name<Engine>) -> Manifold {
    Manifold::builder().inputs(resources.output::<Tallies>()).run(|tallies, up| async move {
        let up = up.report(move || ready(json!(tallies.tally())));
        up.ready(()).wait().await;
        Ok(())
    })
}

async fn start(
    config: Config,
    (site, watches): (Latest<Arc<Site>>, Live<Watches>),
    ctx: Context,
) -> Result<Keeper, Exit> {
    let mut facilities = Facilities::default();
    if let Some(state) = config.state.clone() {
        let processes = Facilities::processes(&state);
        let (ended, survivors) = match config.looks_only {
            true => (Vec::new(), find_survivors(&processes).await?),
            false => {
                let Leftovers { ended, survivors, .. } = sort_leftovers(&processes).await?;
                (ended, survivors)
            }
        };
        for leftover in ended {
            let (process, fate) = (&leftover.name, leftover.fate);
            tracing::warn!(process, %fate, "process was left behind");
            if let Some(observer) = &config.observer
                && let Some(ended) = site.get().left_behind(&leftover, &config.records)
            {
                observer.happened(&ended);
            }
        }
        let records = config.records.clone();
        let open = move || Ok::<_, Infallible>(Facilities::open(&state, records));
        facilities = blocking(open).await.map_err(Exit::failed)?;
        match config.looks_only {
            true => facilities.show_survivors(survivors),
            false => facilities.hand_over_survivors(survivors),
        }
    }
    if let Some(observer) = config.observer.clone() {
        facilities = facilities.observed_by(observer);
    }
    if let Some(world) = config.world.clone() {
        facilities = facilities.in_world(world);
    }
    let seed = config.seed.unwrap_or_else(|| ctx.seed());
    let config = Config { seed: Some(seed), ..config };
    let policy = resource::policy(config.backoff.clone());
    let nested = Engine::builder().policy(policy).seed(seed).build_nested(&ctx)?;
    let (holds, shared) = (config.holds.clone(), facilities.clone());
    let keeper = Keeper::new(nested, site, wiring::Wiring::new(config, facilities, watches));
    holds.connect(keeper.engine(), keeper.schedule(), shared);
    Ok(keeper)
}
