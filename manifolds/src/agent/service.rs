//! What the service manager is told of an agent.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, EngineState, Event, EventKind, Events, Graph, Notice, WorkerState};
use crankcase_workers::{ServiceManager, ServiceState};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};

use super::LAST_GRACE;

/// How long after a change the status is told: changes come in bursts.
const QUIET: Duration = Duration::from_millis(200);

/// How many workers that do not run the status names.
const MOST_NAMED: usize = 3;

/// Tells the manager of this service, if there is one, how the engine does, until its end.
///
/// `begun` is notified when the manifolds of the agent stand in the engine: it is ready when it has
/// settled after that.
pub(super) fn keep(runtime: &Handle, engine: &Engine, begun: &Arc<Notify>) -> Told {
    let manager = match ServiceManager::from_env() {
        Ok(Some(manager)) => manager,
        Ok(None) => return Told { task: None },
        Err(err) => {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(error, "cannot tell the service manager anything");
            return Told { task: None };
        }
    };
    let watchdog = manager.watchdog().map(|within| within / 2);
    let telling =
        Telling { manager, engine: engine.clone(), watchdog, said: None, is_stopping: false };
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
    manager: ServiceManager,
    engine: Engine,
    /// How often the manager is told that the engine is alive.
    watchdog: Option<Duration>,
    /// The status that was told last.
    said: Option<String>,
    is_stopping: bool,
}

impl Telling {
    async fn run(mut self, mut events: Events, begun: Arc<Notify>) {
        let mut beats = self.watchdog.map(beats);
        let engine = self.engine.clone();
        let mut settled = Box::pin(async move {
            begun.notified().await;
            engine.settled().await
        });
        let (mut is_waiting, mut status_due) = (true, None);
        loop {
            // The watchdog is first: it must be told however much happens.
            tokio::select! {
                biased;
                () = beat(beats.as_mut()) => self.tell_alive().await,
                settled = &mut settled, if is_waiting => {
                    is_waiting = false;
                    if settled.is_ok() && !self.is_stopping {
                        self.tell(&[ServiceState::Ready]);
                        tracing::info!("ready");
                    }
                }
                () = until(status_due) => {
                    status_due = None;
                    self.tell_status().await;
                }
                notice = events.next() => {
                    let Some(notice) = notice else { return };
                    self.take(&notice).await;
                    status_due.get_or_insert_with(|| Instant::now() + QUIET);
                }
            }
        }
    }

    async fn take(&mut self, notice: &Notice) {
        let is_stopping = match notice {
            Notice::Event(event) => self.is_killed(event),
            // It may have been among those that were missed.
            Notice::Missed(_) => self.engine.report().await.state != EngineState::Running,
        };
        if is_stopping && !self.is_stopping {
            self.is_stopping = true;
            self.tell(&[ServiceState::Stopping]);
        }
    }

    fn is_killed(&self, event: &Event) -> bool {
        event.kind == EventKind::Killed && event.path() == self.engine.path()
    }

    async fn tell_status(&mut self) {
        let Some(graph) = self.engine.graph().await else { return };
        let status = status_of(&graph);
        if self.said.as_ref() != Some(&status) {
            self.tell(&[ServiceState::Status(status.clone())]);
            self.said = Some(status);
        }
    }

    /// Says that the engine is alive, if its own task gets a turn.
    async fn tell_alive(&self) {
        let within = self.watchdog.unwrap_or_default();
        // That it has ended is an answer too.
        match timeout(within, self.engine.ping()).await {
            Ok(_) => self.tell(&[ServiceState::Watchdog]),
            Err(_) => tracing::error!(?within, "the engine does not answer: no watchdog beat"),
        }
    }

    fn tell(&self, states: &[ServiceState]) {
        if let Err(err) = self.manager.tell(states) {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(error, ?states, "cannot tell the service manager");
        }
    }
}

fn beats(every: Duration) -> Interval {
    let mut beats = interval(every.max(Duration::from_millis(1)));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beats
}

async fn beat(beats: Option<&mut Interval>) {
    match beats {
        Some(beats) => drop(beats.tick().await),
        None => pending().await,
    }
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
