//! Waits until a site is as good as it gets.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Engine, EngineInput, Events, Exit, Graph, GraphNode, Latest, Manifold, Name, Notice, Report,
    WorkerState,
};
use crankcase_resources::Site;
use crankcase_resources::front::worker_name;
use crankcase_resources::run::{Activity, Rest};
use crankcase_workers::name_first;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// For how long nothing must have happened to a program: one that ends at once is not as declared.
const STAYS_UP: Duration = Duration::from_secs(1);

/// The longest time for which a site may have to be settled.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How many of the resources that are not as declared are named.
const NAMED: usize = 5;

/// The result for a settled site: nothing happens there without a further cause.
pub(crate) struct Settled {
    /// How many resources it has.
    total: usize,
    /// The names of the resources that are not as declared.
    others: Vec<String>,
}

/// Returns a manifold that waits until every resource is as declared (none is at work then, and
/// nothing has happened to a program for a second) or says why it is not, hands over the agent's
/// report of that moment, and then asks the agent to end.
pub fn until_settled(
    site: Name<Arc<Site>>,
    resources: Name<Engine>,
    done: watch::Sender<Option<Report>>,
) -> Manifold {
    until_settled_for(site, resources, Duration::ZERO, done)
}

/// Returns the same as [`until_settled`], but waits until that was so for this long (at most a day), and nothing has
/// happened to any resource meanwhile.
pub fn until_settled_for(
    site: Name<Arc<Site>>,
    resources: Name<Engine>,
    lasting: Duration,
    done: watch::Sender<Option<Report>>,
) -> Manifold {
    let activity = resources.output::<Activity>();
    let inputs = (site.live().required(), resources, activity, EngineInput);
    let (done, lasting) = (Arc::new(done), lasting.min(LONGEST));
    Manifold::builder().inputs(inputs).run_with(
        (done, lasting),
        |(done, lasting), (site, resources, mut activity, agent), up| async move {
            let stop = up.ready(());
            tokio::select! {
                biased;
                () = stop.wait() => {}
                report = report((&site, &mut activity), &resources, lasting, &agent) => {
                    done.send_replace(Some(report?));
                    agent.asked_by("agent", "the site is settled").kill();
                    stop.wait().await;
                }
            }
            Ok(())
        },
    )
}

/// Returns a manifold that writes one line to the log when every resource is as declared, or says why it is not: how
/// many are as declared, and which are not. The agent goes on.
pub fn when_settled(site: Name<Arc<Site>>, resources: Name<Engine>) -> Manifold {
    let activity = resources.output::<Activity>();
    let inputs = (site.live().required(), resources, activity);
    Manifold::builder().inputs(inputs).run(|(site, resources, mut activity), up| async move {
        let stop = up.ready(());
        tokio::select! {
            biased;
            () = stop.wait() => {}
            settled = settled((&site, &mut activity), &resources, Duration::ZERO) => {
                let Settled { total, others } = settled?;
                let as_declared = total - others.len();
                let what = format!("{as_declared} of {total} as declared");
                let others = (!others.is_empty()).then(|| name_first(NAMED, others.iter()));
                tracing::info!(what, others, "the site is settled");
            }
        }
        // The line is logged only once.
        Ok(())
    })
}

/// Waits until a site was settled for this long, and returns the report of that moment.
async fn report(
    (sites, activity): (&Latest<Arc<Site>>, &mut Activity),
    resources: &Engine,
    lasting: Duration,
    agent: &Engine,
) -> Result<Report, Exit> {
    loop {
        settled((sites, &mut *activity), resources, lasting).await?;
        let report = agent.report().await;
        // One that was at work meanwhile may be otherwise than in the report.
        if !activity.has_changed() {
            return Ok(report);
        }
    }
}

/// Waits until a site is settled, and nothing has happened to it for this long.
///
/// It looks at the graph of the resources: a report would ask each of them, and take 20 MB for
/// 10,000.
pub(crate) async fn settled(
    (sites, activity): (&Latest<Arc<Site>>, &mut Activity),
    resources: &Engine,
    lasting: Duration,
) -> Result<Settled, Exit> {
    let mut events = resources.events();
    let mut last = LastEvents { any: Instant::now(), of_program: Instant::now() };
    let mut programs = Programs::of(sites.get());
    loop {
        // Followed first, then looked at: what happens after the look is told.
        let (rest, site) = (activity.rest(), sites.get());
        if !Arc::ptr_eq(&programs.site, &site) {
            programs = Programs::of(Arc::clone(&site));
        }
        let is_quiet = match rest {
            Rest::AtRest => true,
            // The engine may not start them at all: they may be parked.
            Rest::Starting => last.any.elapsed() >= STAYS_UP,
            Rest::AtWork => false,
        };
        // When to look again although nothing happens.
        let mut next_look = (rest == Rest::Starting).then(|| Instant::now() + STAYS_UP);
        if is_quiet {
            let graph = resources.graph().await;
            // Without an engine there is no graph, and the events end.
            let settled = graph.and_then(|graph| Settled::of(&site, &graph));
            // A visit is over before the engine tells of it, and the engine has told before it answers.
            let notice = events.try_next();
            let has_happened = notice.is_some();
            last.note(notice, &mut events, &programs);
            // One that was at work meanwhile may be otherwise than in the graph.
            if has_happened || activity.has_changed() {
                last.any = Instant::now();
                continue;
            }
            let has_programs = !programs.workers.is_empty();
            let stays_up = if has_programs { last.of_program + STAYS_UP } else { last.any };
            let settled_at = stays_up.max(last.any + lasting);
            match settled {
                Some(settled) if Instant::now() >= settled_at => return Ok(settled),
                Some(_) => next_look = Some(settled_at),
                None => {}
            }
        }
        let gone = || Exit::missing("the engine of the resources has ended");
        let notice = tokio::select! {
            biased;
            notice = events.next() => Some(notice.ok_or_else(gone)?),
            () = activity.changed() => None,
            () = sleep_until(next_look.unwrap_or(last.any)), if next_look.is_some() => continue,
        };
        last.any = Instant::now();
        last.note(notice, &mut events, &programs);
    }
}

/// When something has happened last, and when to a program.
struct LastEvents {
    any: Instant,
    of_program: Instant,
}

impl LastEvents {
    /// Notes an event, and all later ones that have come by now.
    fn note(&mut self, mut notice: Option<Notice>, events: &mut Events, programs: &Programs) {
        while let Some(happened) = notice {
            self.any = Instant::now();
            if programs.are_concerned(&happened) {
                self.of_program = self.any;
            }
            notice = events.try_next();
        }
    }
}

/// The programs of a site that are kept running. They are found once: a site of many resources has
/// many events.
struct Programs {
    site: Arc<Site>,
    /// The names of the workers of their resources.
    workers: HashSet<String>,
}

impl Programs {
    fn of(site: Arc<Site>) -> Self {
        let is_program = |kind: &str| site.kinds().get(kind).is_ok_and(|kind| kind.is_supervised());
        let declared = site.declarations().iter();
        let programs = declared.filter(|declared| !declared.noop && is_program(&declared.kind));
        let workers = programs.map(|declared| worker_name(&declared.name)).collect();
        Self { site, workers }
    }

    /// Whether something has happened to one of them, or may have.
    fn are_concerned(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Event(event) => event.worker().is_some_and(|name| self.workers.contains(name)),
            Notice::Missed(_) => true,
        }
    }
}

impl Settled {
    /// Returns the result for a site, if every resource of it is there and has nothing more to
    /// report until something changes.
    fn of(site: &Site, graph: &Graph) -> Option<Self> {
        let mut others = Vec::new();
        for declaration in site.declarations() {
            let worker = node(graph, &worker_name(&declaration.name))?;
            if !has_said_all(worker, graph) {
                return None;
            }
            let is_up = matches!(worker.state, WorkerState::Running | WorkerState::Done);
            if !is_up || worker.is_degraded {
                others.push(declaration.name.clone());
            }
        }
        Some(Self { total: site.declarations().len(), others })
    }
}

/// Returns the node of a name; they are sorted.
fn node<'a>(graph: &'a Graph, name: &str) -> Option<&'a GraphNode> {
    let place = graph.nodes.binary_search_by(|node| node.name.as_str().cmp(name));
    place.ok().map(|place| &graph.nodes[place])
}

/// Whether a worker has nothing more to say while the resources are at rest.
fn has_said_all(worker: &GraphNode, graph: &Graph) -> bool {
    match worker.state {
        WorkerState::Starting => worker.is_degraded,
        // Waits for one that is not up; whether that one has said all is asked of it.
        WorkerState::Waiting => {
            let first = graph.edges.partition_point(|edge| edge.user < worker.name);
            let mut inputs = graph.edges[first..].iter().take_while(|it| it.user == worker.name);
            let is_down = |node: &GraphNode| node.state != WorkerState::Running;
            inputs.any(|input| node(graph, &input.input).is_none_or(is_down))
        }
        WorkerState::Running
        | WorkerState::HeldBack
        | WorkerState::Paused
        | WorkerState::Done
        | WorkerState::BackingOff
        | WorkerState::Missing
        | WorkerState::Spent
        | WorkerState::Parked => true,
        _ => false,
    }
}
