//! Waits until a site is as good as it gets.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Detail, Engine, EngineInput, Exit, Live, Manifold, Name, Report, WorkerReport, WorkerState,
};
use crankcase_resources::Site;
use tokio::sync::watch;
use tokio::time::sleep;

/// The kind of resources whose programs are kept running.
const PROCESS: &str = "process";
/// How long a program must have run: one that ends at once is not as declared.
const STAYS_UP: Duration = Duration::from_secs(1);

/// Returns a manifold that waits until every resource is as declared (a program has run for a second
/// then) or says why it is not, hands over the agent's report of that moment, and then asks the agent
/// to end.
pub fn until_settled(
    site: Name<Arc<Site>>,
    resources: Name<Engine>,
    done: watch::Sender<Option<Report>>,
) -> Manifold {
    let inputs = (site.live().required(), resources, EngineInput);
    let done = Arc::new(done);
    Manifold::builder().inputs(inputs).offers::<()>().run_with(
        done,
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
        let report = agent.report().await;
        let mut again = None;
        if let (Some(site), Some(nested)) = (site.get(), nested(&report, resources.path()))
            && is_settled(&site, nested)
        {
            again = up_for(&site, nested).map(|up| STAYS_UP.saturating_sub(up));
            if again.is_none_or(|left| left.is_zero()) {
                return Ok(report);
            }
        }
        tokio::select! {
            biased;
            notice = events.next() => if notice.is_none() {
                return Err(Exit::missing("the engine of the resources has ended"));
            },
            () = sleep(again.unwrap_or(Duration::MAX)), if again.is_some() => {}
        }
        // One look is for all that has happened by then.
        while events.try_next().is_some() {}
    }
}

/// Returns the report of an engine among the workers of another.
fn nested<'a>(report: &'a Report, path: &str) -> Option<&'a Report> {
    report.workers.values().find_map(|worker| match &worker.report {
        Some(Detail::Engine(nested)) if nested.path == path => Some(&**nested),
        _ => None,
    })
}

/// Whether every resource of the site is there, and has nothing more to say until something changes.
fn is_settled(site: &Site, report: &Report) -> bool {
    let names = site.declarations().iter().map(|declaration| &declaration.name);
    let mut workers = names.map(|name| report.workers.get(name));
    workers.all(|worker| worker.is_some_and(has_said_all))
}

/// Returns for how long the program that was started last is up; none if no program is.
fn up_for(site: &Site, report: &Report) -> Option<Duration> {
    let programs = site.declarations().iter().filter(|declared| declared.kind == PROCESS);
    let workers = programs.filter_map(|declared| report.workers.get(&declared.name));
    let running = workers.filter(|worker| worker.state == WorkerState::Running);
    let since = running.filter_map(|worker| worker.started).max()?;
    Some(report.at.0.duration_since(since.0).unwrap_or_default())
}

fn has_said_all(worker: &WorkerReport) -> bool {
    match worker.state {
        WorkerState::Starting => worker.degraded.is_some(),
        // Waits for one that is not up; whether that one has said all is asked of it.
        WorkerState::Waiting => {
            worker.inputs.iter().any(|input| input.state != WorkerState::Running)
        }
        WorkerState::Running
        | WorkerState::Done
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
