//! What the service manager is told of an agent.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, Events, Graph, WorkerState};
use crankcase_workers::{ServiceManager, ServiceState};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};

use super::runtimes::LAST_GRACE;

/// How long after a change the status is told: changes come in bursts.
const QUIET: Duration = Duration::from_millis(200);

/// How long after a manager has not read what it was told before it is told again.
const RETRY: Duration = Duration::from_millis(100);

/// How many workers that do not run the status names.
const MOST_NAMED: usize = 3;

/// Tells the manager of this service, if there is one, how the engine does, until its end.
///
/// `begun` is notified when the manifolds of the agent stand in the engine: it is ready when it has
/// settled after that.
pub(super) fn keep(runtime: &Handle, engine: &Engine, begun: &Arc<Notify>) -> Told {
    let manager = match ServiceManager::from_env() {
        Ok(Some(manager)) => Arc::new(manager),
        Ok(None) => return Told { task: None },
        Err(err) => {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(error, "cannot tell the service manager anything");
            return Told { task: None };
        }
    };
    let telling =
        Telling { manager, engine: engine.clone(), owed: Vec::new(), status: None, retry: None };
    // Followed from now on: nothing has happened yet.
    let (events, begun) = (engine.events(), Arc::clone(begun));
    Told { task: Some(runtime.spawn(telling.run(events, begun))) }
}

/// Whether the service manager has been told all.
pub(super) struct Told {
    task: Option<JoinHandle<()>>,
}

impl Told {
    /// Waits until all is told of an engine that has ended.
    pub(super) async fn all(self) {
        if let Some(task) = self.task {
            // It ends with the events; a thread that is taken is not waited for.
            let _late = timeout(LAST_GRACE, task).await;
        }
    }
}

struct Telling {
    manager: Arc<ServiceManager>,
    engine: Engine,
    /// What the manager is still to be told, the oldest first.
    owed: Vec<ServiceState>,
    /// The status that was told last.
    status: Option<String>,
    /// When that is tried again, if the manager has not read what it was told before.
    retry: Option<Instant>,
}

impl Telling {
    async fn run(self, events: Events, begun: Arc<Notify>) {
        let beating = beat(Arc::clone(&self.manager), self.engine.clone());
        // Beside each other: the watchdog must be told however long anything else takes.
        tokio::select! {
            biased;
            () = beating => {}
            () = self.follow(events, begun) => {}
        }
    }

    /// Tells what the engine does, until its end.
    async fn follow(mut self, mut events: Events, begun: Arc<Notify>) {
        let engine = self.engine.clone();
        let mut settled = Box::pin(async {
            begun.notified().await;
            engine.settled().await
        });
        let mut stopping = Box::pin(engine.stopping());
        let (mut is_settling, mut is_stopping) = (true, false);
        let mut status_due = None;
        loop {
            tokio::select! {
                biased;
                () = &mut stopping, if !is_stopping => {
                    is_stopping = true;
                    self.tell(ServiceState::Stopping);
                }
                settled = &mut settled, if is_settling => {
                    is_settling = false;
                    if settled.is_ok() && !is_stopping {
                        self.tell(ServiceState::Ready);
                        tracing::info!("ready");
                    }
                }
                () = until(self.retry) => self.tell_owed(),
                () = until(status_due) => {
                    status_due = None;
                    self.tell_status().await;
                }
                notice = events.next() => {
                    if notice.is_none() {
                        break;
                    }
                    status_due.get_or_insert_with(|| Instant::now() + QUIET);
                }
            }
        }
        // Whoever waits for this task does not wait for ever.
        while let Some(retry) = self.retry {
            sleep_until(retry).await;
            self.tell_owed();
        }
    }

    async fn tell_status(&mut self) {
        let Some(graph) = self.engine.graph().await else { return };
        let status = status_of(&graph);
        if self.status.as_ref() != Some(&status) {
            self.status = Some(status.clone());
            self.tell(ServiceState::Status(status));
        }
    }

    /// Tells a state, after what is owed. Of statuses only the last counts.
    fn tell(&mut self, state: ServiceState) {
        if matches!(state, ServiceState::Status(_)) {
            self.owed.retain(|owed| !matches!(owed, ServiceState::Status(_)));
        }
        self.owed.push(state);
        self.tell_owed();
    }

    /// Tells all that is owed, as far as the manager reads.
    fn tell_owed(&mut self) {
        while let Some(state) = self.owed.first() {
            let told = self.manager.tell(std::slice::from_ref(state));
            let was_late = self.retry.take().is_some();
            match told {
                Ok(()) => {}
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    if !was_late {
                        tracing::warn!(?state, "the service manager does not read: told later");
                    }
                    self.retry = Some(Instant::now() + RETRY);
                    return;
                }
                Err(err) => {
                    let error: &dyn std::error::Error = &err;
                    tracing::warn!(error, ?state, "cannot tell the service manager");
                }
            }
            self.owed.remove(0);
        }
    }
}

/// Says that the engine is alive, as often as the manager wants, while its own task gets a turn.
async fn beat(manager: Arc<ServiceManager>, engine: Engine) {
    let Some(within) = manager.watchdog().map(|within| within / 2) else { return pending().await };
    let mut beats = beats(within);
    loop {
        beats.tick().await;
        // That it has ended is an answer too.
        match timeout(within, engine.ping()).await {
            Ok(_) => {
                if let Err(err) = manager.tell(&[ServiceState::Watchdog]) {
                    let error: &dyn std::error::Error = &err;
                    tracing::warn!(error, "cannot tell the service manager of the watchdog");
                }
            }
            Err(_) => tracing::error!(?within, "the engine does not answer: no watchdog beat"),
        }
    }
}

fn beats(every: Duration) -> Interval {
    let mut beats = interval(every.max(Duration::from_millis(1)));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beats
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

/// Returns how many workers run, and some of those that do not.
fn status_of(graph: &Graph) -> String {
    let is_well = |state| matches!(state, WorkerState::Running | WorkerState::Done);
    let installed = graph.nodes.iter().filter(|node| node.state != WorkerState::Absent);
    let (well, others): (Vec<_>, Vec<_>) = installed.partition(|node| is_well(node.state));
    let mut text = format!("{} of {} workers run", well.len(), well.len() + others.len());
    for (index, node) in others.iter().take(MOST_NAMED).enumerate() {
        let separator = if index == 0 { ';' } else { ',' };
        text += &format!("{separator} {} is {}", node.name, node.state);
    }
    if others.len() > MOST_NAMED {
        text += ", ...";
    }
    text
}
