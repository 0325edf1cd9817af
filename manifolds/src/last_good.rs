//! The manifold of the worker that finds out whether a manifest is good, and keeps it or goes back from it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Engine, Exit, Graph, Health, Latest, Manifold, Name, Outcome, Stop, WorkerState,
};
use crankcase_manifest::LastGood;
use crankcase_resources::Site;
use crankcase_resources::front::worker_name;
use crankcase_resources::run::Activity;
use tokio::time::{Instant, sleep, sleep_until};

use crate::site::{Failure, SiteTrial, until_at_rest};

/// The wait before a manifest that could not be written is written again.
const RETRY: Duration = Duration::from_secs(60);

/// The wait after a look before a change of a resource has all resources looked at again, while a
/// manifest is to be kept. With 10,000 resources there are 30 changes a second, as each resource is
/// looked at now and then.
const APART: Duration = Duration::from_secs(1);

/// The same wait while no manifest is to be kept. A resource that fails meanwhile is reported at
/// once.
const APART_WHEN_KEPT: Duration = Duration::from_secs(10);

/// The config of the worker that keeps the last good manifest.
#[derive(Debug, Clone)]
pub struct Config {
    /// The store of the last good manifest.
    pub last_good: LastGood,
    /// The trial of each new site, which the keeper of the site was given too.
    pub trial: SiteTrial,
    /// The time after a new manifest is in force in which a failure has the agent go back to the
    /// last good one. None: the agent does not go back, and a manifest is kept as soon as it is
    /// found good.
    pub canary: Option<Duration>,
}

/// Returns a manifold that keeps the manifest of a site as the last good one when every resource is as declared and at
/// rest, and nothing has happened to a program for a second. A resource that is never changed (`noop`) need not be as
/// declared.
///
/// With a canary time it keeps the manifest after that time. It goes back to the last good manifest if a resource fails
/// meanwhile that was as declared before, and that the new manifest, or another one of the trial, declares otherwise.
pub fn manifold(site: Name<Arc<Site>>, resources: Name<Engine>, config: Config) -> Manifold {
    let activity = resources.output::<Activity>();
    let inputs = (site.live().required(), resources, activity);
    Manifold::builder().inputs(inputs).run_with(
        config,
        |config, (sites, resources, activity), up| async move {
            let health = up.context().health();
            let stop = up.ready(());
            let judging = Judging { config, sites, resources, activity, health };
            tokio::select! {
                biased;
                () = stop.wait() => Ok(()),
                outcome = judging.run(&stop) => outcome,
            }
        },
    )
}

struct Judging {
    config: Config,
    sites: Latest<Arc<Site>>,
    resources: Engine,
    activity: Activity,
    health: Health,
}

impl Judging {
    async fn run(mut self, stop: &Stop) -> Outcome {
        let trial = self.config.trial.clone();
        loop {
            tokio::select! {
                biased;
                failure = trial.failure() => self.judge(&failure),
                looked = self.look_and_wait(stop) => looked?,
            }
        }
    }

    /// Goes back to the last good manifest, if the manifest that is on trial has caused the
    /// failure.
    fn judge(&self, failure: &Failure) {
        let Failure { resource, error } = failure;
        let Config { last_good, trial, canary } = &self.config;
        let since = trial.in_force().map(|(_, since)| since.elapsed());
        let is_in_time = canary.is_some_and(|within| since.is_none_or(|since| since <= within));
        if let Some(site) = trial.latest().filter(|_| is_in_time) {
            let why = format!("{resource} was as declared before, and fails with it: {error}");
            last_good.go_back(&site, &why);
        }
        trial.forget(failure);
    }

    /// Looks at the resources once they are at rest, and waits until there is a reason to look again.
    async fn look_and_wait(&mut self, stop: &Stop) -> Result<(), Exit> {
        // The changes are followed before the look, so that none is missed.
        let mut changes = self.config.trial.changes();
        let mut loads = self.config.last_good.loads();
        let next_look = self.look(stop).await?;
        let Config { last_good, trial, canary } = &self.config;
        let is_to_be_kept = trial.latest().is_some_and(|site| last_good.is_to_be_kept(&site));
        let follows = canary.is_some() || is_to_be_kept;
        let apart = if is_to_be_kept { APART } else { APART_WHEN_KEPT };
        let activity = &mut self.activity;
        let active = async move {
            sleep(apart).await;
            activity.changed().await;
        };
        tokio::select! {
            biased;
            _ = changes.changed() => {}
            _ = loads.changed() => {}
            () = active, if follows => {}
            () = sleep_until(next_look.unwrap_or_else(Instant::now)), if next_look.is_some() => {}
        }
        Ok(())
    }

    /// Looks at the resources once they are at rest. Keeps the manifest if it is good and its trial
    /// is over. Returns the time of the next look if nothing happens.
    async fn look(&mut self, stop: &Stop) -> Result<Option<Instant>, Exit> {
        until_at_rest((&self.sites, &mut self.activity), &self.resources, Duration::ZERO).await?;
        let before = self.config.trial.in_force();
        let graph = self.resources.graph().await;
        let after = self.config.trial.in_force();
        let (Some(graph), Some((before, _)), Some((site, since))) = (graph, before, after) else {
            return Ok(None);
        };
        let last_good = &self.config.last_good;
        // What is to be gone back from is on trial until it is gone.
        let is_other = !Arc::ptr_eq(&before, &site) || self.activity.has_changed();
        if is_other || last_good.is_asked() {
            return Ok(None);
        }
        let end = self.config.canary.filter(|_| last_good.is_on_trial(&site)).map(|it| since + it);
        if let Some(end) = end.filter(|end| Instant::now() < *end) {
            return Ok(Some(end));
        }
        self.config.trial.end(&site, well(&graph));
        if !last_good.is_to_be_kept(&site) || !is_good(&site, &graph) {
            return Ok(None);
        }
        let is_kept = self.keep(site, stop).await;
        Ok((!is_kept).then(|| Instant::now() + RETRY))
    }

    /// Keeps the manifest of a site. Returns whether it could be written.
    async fn keep(&self, site: Arc<Site>, stop: &Stop) -> bool {
        let last_good = self.config.last_good.clone();
        let kept = stop.blocking(move || last_good.keep(&site)).await;
        let error = match kept {
            Ok(Ok(())) => {
                tracing::info!("the manifest is kept as the last good one");
                self.health.good();
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(panicked) => panicked.to_string(),
        };
        self.health.degraded(format!("cannot keep the last good manifest: {error}"));
        false
    }
}

/// Returns the workers of the resources that are as declared.
fn well(graph: &Graph) -> HashSet<String> {
    let nodes = graph.nodes.iter();
    let well = nodes.filter(|node| node.state == WorkerState::Running && !node.is_degraded);
    well.map(|node| node.name.clone()).collect()
}

/// Returns whether all resources of a site are as declared, except for those that are never changed.
fn is_good(site: &Site, graph: &Graph) -> bool {
    let running = graph.nodes.iter().filter(|node| node.state == WorkerState::Running);
    let running: HashSet<&str> = running.map(|node| node.name.as_str()).collect();
    let well = well(graph);
    site.declarations().iter().all(|declared| {
        let worker = worker_name(&declared.name);
        well.contains(&worker) || declared.noop && running.contains(worker.as_str())
    })
}
