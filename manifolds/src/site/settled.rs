//! Waits until a site is as good as it gets.

use std::sync::Arc;

use crankcase_engine::{
    Detail, Engine, EngineInput, Exit, Live, Manifold, Name, Report, WorkerReport, WorkerState,
};
use crankcase_resources::Site;
use tokio::sync::watch;

/// Returns a manifold that waits until every resource of the site is as declared or says why it is
/// not, hands over the agent's report, and then asks the agent to end.
pub fn until_settled(
    site: Name<Arc<Site>>,
    resources: Name<Engine>,
    done: watch::Sender<Option<Report>>,
) -> Manifold {
    let inputs = (site.live().required(), resources, EngineInput);
    Manifold::builder().inputs(inputs).offers::<()>().run_with(
        Arc::new(done),
        |done, (mut site, resources, agent), up| async move {
            let stop = up.ready(());
            tokio::select! {
                biased;
                () = stop.wait() => {}
                report = settled(&mut site, &resources, &agent) => {
                    done.send_replace(Some(report?));
                    agent.asked_by("agent", "everything is settled").kill();
                    stop.wait().await;
                }
            }
            Ok(())
        },
    )
}

async fn settled(
    site: &mut Live<Arc<Site>>,
    resources: &Engine,
    agent: &Engine,
) -> Result<Report, Exit> {
    let mut events = resources.events();
    loop {
        // Followed first, then looked at: what happens after the look is told.
        let report = resources.report().await;
        // The engine is up before the resources are in it.
        let are_there = site.get().is_some_and(|site| are_installed(&site, &report));
        if are_there && report.workers.values().all(has_said_all) {
            return Ok(agent.report().await);
        }
        if events.next().await.is_none() {
            return Err(Exit::missing("the engine of the resources has ended"));
        }
    }
}

fn are_installed(site: &Site, report: &Report) -> bool {
    site.declarations().iter().all(|declared| report.workers.contains_key(&declared.name))
}

/// Whether nothing more is to be expected of a resource for now.
fn has_said_all(worker: &WorkerReport) -> bool {
    match worker.state {
        WorkerState::Starting => worker.degraded.is_some(),
        WorkerState::Running
        | WorkerState::Done
        | WorkerState::Waiting
        | WorkerState::BackingOff
        | WorkerState::Missing
        | WorkerState::Spent
        | WorkerState::Parked => true,
        _ => false,
    }
}

/// Returns whether anything in a report, or in the engines among its workers, is in trouble.
pub fn has_trouble(report: &Report) -> bool {
    report.workers.values().any(|worker| {
        let nested = match &worker.report {
            Some(Detail::Engine(nested)) => has_trouble(nested),
            _ => false,
        };
        nested || !worker.is_well()
    })
}
