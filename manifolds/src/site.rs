//! The manifold that keeps a machine as its site declares.
//!
//! Each resource is a manifold in one nested engine. Its dependencies are live inputs under the
//! names of the resources, its state is a changing output. So a dependent waits for the first state
//! of what it uses, and is never bounced by it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Backoff, Context, Engine, Exit, Latest, Live, Manifold, Name, Policy};
use crankcase_resources::{FULL_LOOK, Kinds, Reconcile, Site};
use crankcase_workers::{Ledger, Watches, end_leftovers};

use self::keeper::Keeper;

pub use self::settled::until_settled;

mod keeper;
mod resource;
mod settled;
mod wiring;

/// How long the nested engine may take to stop: longer than a chain of resources that each use
/// their whole grace.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// What keeping a site needs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The site. A new one takes the place of the old: see [`manifold`].
    pub site: Name<Arc<Site>>,
    /// What tells that files have changed. It may come, go and come again.
    pub watches: Name<Watches>,
    /// The folder in which programs that run are on record, to be found if the agent is killed. It
    /// is used by one agent at a time. `None` puts nothing on record.
    pub ledger: Option<PathBuf>,
    /// The wait after a failure, of a resource or its worker.
    pub backoff: Backoff,
    /// How often a resource is looked at without a reason. Default [`FULL_LOOK`].
    pub look_every: Duration,
    /// Seeds the order of starts and the jitter. Default: it follows from the seed of the engine that
    /// this is installed in, so that many hosts do not come back in step to what they have lost.
    pub seed: Option<u64>,
}

crankcase_engine::setters! {
    Config {
        site: Name<Arc<Site>>,
        watches: Name<Watches>,
        backoff: Backoff,
        look_every: Duration,
    }
    optional {
        ledger: PathBuf,
        seed: u64,
    }
}

impl Config {
    /// Returns the defaults with these inputs.
    pub fn new(site: Name<Arc<Site>>, watches: Name<Watches>, ledger: PathBuf) -> Self {
        let backoff = Backoff::default();
        Self { site, watches, ledger: Some(ledger), backoff, look_every: FULL_LOOK, seed: None }
    }

    /// Returns how a resource of these kinds is kept.
    fn reconcile(&self, kinds: &Kinds) -> Reconcile {
        let mut reconcile = Reconcile::new(kinds.clone());
        reconcile.backoff = self.backoff.clone();
        reconcile.look_every = self.look_every;
        reconcile.ledger = self.ledger.as_deref().map(Ledger::new);
        reconcile.seed = self.seed.unwrap_or(reconcile.seed);
        reconcile
    }
}

/// Returns a manifold that keeps the machine as the site declares, and offers the [`Engine`] in
/// which each resource is a worker, and the [`Activity`](crankcase_resources::Activity) of the
/// resources.
///
/// It first ends the programs that an agent has left behind that was killed.
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
        .report(|keeper| keeper.engine().reporter())
        .build()
        .grace(GRACE)
}

async fn start(
    config: Config,
    (site, watches): (Latest<Arc<Site>>, Live<Watches>),
    ctx: Context,
) -> Result<Keeper, Exit> {
    if let Some(ledger) = &config.ledger {
        for leftover in end_leftovers(ledger).await? {
            let (process, fate) = (leftover.name, leftover.fate);
            tracing::warn!(process, ?fate, "process was left behind");
        }
    }
    let seed = config.seed.unwrap_or_else(|| ctx.seed());
    let config = Config { seed: Some(seed), ..config };
    let builder =
        Engine::builder().policy(Policy::default().backoff(config.backoff.clone())).seed(seed);
    let nested = builder.build_nested(&ctx)?;
    Ok(Keeper::new(nested, site, wiring::Wiring::new(config, watches)))
}
