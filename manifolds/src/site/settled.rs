//! Waits until a site is as good as it gets.

use std::sync::Arc;

use crankcase_engine::{
    Detail, Engine, EngineInput, Exit, Manifold, Name, Report, WorkerReport, WorkerState,
};
use tokio::sync::watch;

/// Returns a manifold that waits until every resource is as declared or says why it is not, hands
/// over the agent's report, and then asks the agent to end.
pub fn until_settled(resources: Name<Engine>, done: watch::Sender<Option<Report>>) -> Manifold {
    let done = Arc::new(done);
    Manifold::builder().inputs((resources, EngineInput)).offers::<()>().run_with(
        done,
        |done, (resources, agent), up| async move {
            let stop = up.ready(());
            tokio::select! {
                biased;
                () = stop.wait() => {}
                report = settled(&resources, &agent) => {
                    done.send_replace(Some(report?));
                    agent.asked_by("agent", "everything is settled").kill();
                    stop.wait().await;
                }
            }
            Ok(())
        },
    )
}

async fn settled(resources: &Engine, agent: &Engine) -> Result<Report, Exit> {
    let mut events = resources.events();
    loop {
        // Followed first, then looked at: what happens after the look is told.
        let report = resources.report().await;
        if report.workers.values().all(has_said_all) {
            return Ok(agent.report().await);
        }
        if events.next().await.is_none() {
            return Err(Exit::missing("the engine of the resources has ended"));
        }
    }
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
