//! What the manifold of a site needs, and how it keeps the resources.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Backoff, Name};
use crankcase_resources::run::{FULL_LOOK, QUIET, Reconcile, World};
use crankcase_resources::state::Records;
use crankcase_resources::{Facilities, Kinds, Observer, Site};
use crankcase_workers::Watches;

use super::holds::ResourceHolds;
use super::trial::SiteTrial;

/// What keeping a site needs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The site. A new one takes the place of the old: see [`manifold`](super::manifold).
    pub site: Name<Arc<Site>>,
    /// What tells that files have changed. It may come, go and come again.
    pub watches: Name<Watches>,
    /// The state folder, with the programs that run, which the next agent ends if this one is killed.
    /// It is used by one agent at a time. `None` keeps nothing.
    pub state: Option<PathBuf>,
    /// The records of the resources, from the store of the state folder.
    pub records: Records,
    /// The wait after a failure, of a resource or its worker.
    pub backoff: Backoff,
    /// How often a resource is looked at without a reason. Default [`FULL_LOOK`].
    pub look_every: Duration,
    /// How long a file that a resource reads, such as a template, must have been left alone after a change before it is
    /// read again. Default [`QUIET`], at most 10 s.
    pub quiet: Duration,
    /// Seeds the order of starts and the jitter. Default: it follows from the seed of the engine that
    /// this is installed in, so that many hosts do not come back in step to what they have lost.
    pub seed: Option<u64>,
    /// Who sees what happens to the resources. Default nobody.
    pub observer: Option<Arc<dyn Observer>>,
    /// The facts: resources may read all of them, and write facts of their own. Default none.
    pub world: Option<Arc<dyn World>>,
    /// The trial that is told when a site is in force. Default none.
    pub trial: Option<SiteTrial>,
    /// Whether the machine is only looked at, for a site whose resources are all left alone: the
    /// programs that an earlier agent has left run on, and resources that have left the site are
    /// neither put back nor released. Default false.
    pub looks_only: bool,
    /// The resources that people hold; the control socket has the same value. Default: none is
    /// held.
    pub holds: ResourceHolds,
}

crankcase_engine::setters! {
    Config {
        site: Name<Arc<Site>>,
        watches: Name<Watches>,
        records: Records,
        backoff: Backoff,
        look_every: Duration,
        quiet: Duration,
        looks_only: bool,
        holds: ResourceHolds,
    }
    optional {
        state: PathBuf,
        seed: u64,
        observer: Arc<dyn Observer>,
        world: Arc<dyn World>,
        trial: SiteTrial,
    }
}

// An observer only receives events, and a world changes as a whole or not at all. So neither shows a state that a
// panic has left half done.
impl UnwindSafe for Config {}
impl RefUnwindSafe for Config {}

impl Config {
    /// Returns the defaults with these inputs.
    pub fn new(
        site: Name<Arc<Site>>,
        watches: Name<Watches>,
        state: PathBuf,
        records: Records,
    ) -> Self {
        let (backoff, look_every, quiet) = (Backoff::default(), FULL_LOOK, QUIET);
        Self {
            site,
            watches,
            state: Some(state),
            records,
            backoff,
            look_every,
            quiet,
            seed: None,
            observer: None,
            world: None,
            trial: None,
            looks_only: false,
            holds: ResourceHolds::default(),
        }
    }

    /// Returns how a resource of these kinds is kept.
    pub(super) fn reconcile(&self, kinds: &Kinds, facilities: &Facilities) -> Reconcile {
        let mut reconcile = Reconcile::new(kinds.clone());
        reconcile.backoff = self.backoff.clone();
        reconcile.look_every = self.look_every;
        reconcile.quiet = self.quiet;
        reconcile.facilities = facilities.clone();
        reconcile.seed = self.seed.unwrap_or(reconcile.seed);
        reconcile
    }
}
