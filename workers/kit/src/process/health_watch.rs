//! The health checks of a running process.
//!
//! They take no task, and a thread only for a look at `/proc`: the worker of the process waits for
//! the next check as it waits for the end of the process, and drops a check that is under way when
//! it ends.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crankcase_engine::Stop;
use tokio::sync::watch;
use tokio::time::sleep;

use super::config::ProcessConfig;
use super::health_check::{HealthCheck, HealthProbe};
use super::identity::Stat;
use super::ledger::Ledger;
use super::probe::Probe;
use super::side_command::{NotDone, SideCommand};
use crate::secrets::Secrets;

/// The checks of one process.
#[derive(Debug)]
pub(super) struct HealthWatch {
    checks: Option<Checks>,
    /// Why the last check has failed or could not be made, if so.
    unhealthy: watch::Sender<Option<String>>,
    are_paused: Arc<AtomicBool>,
    /// The secrets that are hidden in messages: a URL may have one.
    secrets: Secrets,
}

/// A view of the checks of one process, by which others can also pause them.
#[derive(Debug, Clone)]
pub(super) struct HealthView {
    pub(super) unhealthy: watch::Receiver<Option<String>>,
    /// Whether no checks are made.
    pub(super) are_paused: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Checks {
    pid: i32,
    way: Way,
    every: Duration,
    timeout: Duration,
    failures: u32,
}

#[derive(Debug)]
enum Way {
    Probe(Probe),
    Command(Box<SideCommand>),
}

/// The result of a check.
enum Answer {
    Well,
    /// The check has failed, for this reason.
    Ill(String),
    /// The check could not be made, for this reason. That says nothing of the process.
    NotAsked(String),
}

/// The failed checks because of which a process is ended.
#[derive(Debug)]
pub(super) struct Unhealthy {
    /// How many checks in a row have failed.
    pub(super) failures: u32,
    /// Why the last check has failed.
    pub(super) said: String,
}

impl HealthWatch {
    /// Returns the checks of the process with this pid, as its config says, and a view of them.
    pub(super) fn new(
        config: &ProcessConfig,
        pid: i32,
        ledger: Option<&Ledger>,
    ) -> (Self, HealthView) {
        let checks = config.health.as_ref();
        let checks = checks.map(|health| Checks::new(health, (config, pid), ledger));
        let (sender, unhealthy) = watch::channel(None);
        let view = HealthView { unhealthy, are_paused: Arc::default() };
        let (are_paused, secrets) = (Arc::clone(&view.are_paused), config.secrets.clone());
        (Self { checks, unhealthy: sender, are_paused, secrets }, view)
    }

    /// Waits until as many checks in a row have failed as the config says; for ever if it has no
    /// check. A check that cannot be made is reported, and does not count. Cancel safe: a check
    /// that is under way is given up.
    pub(super) async fn unhealthy(&self) -> Unhealthy {
        let Some(checks) = &self.checks else { return pending().await };
        // Nobody sends this stop: a check that is not needed any more is dropped.
        let (_stopper, stop) = Stop::pair();
        let mut failures = 0;
        loop {
            sleep(checks.every).await;
            if self.are_paused() {
                failures = 0;
                self.tell(None);
                continue;
            }
            match checks.ask(&stop).await {
                // The checks were paused meanwhile.
                _ if self.are_paused() => {}
                Answer::Well => {
                    failures = 0;
                    self.tell(None);
                }
                Answer::NotAsked(why) => {
                    let why = self.secrets.redact(&why);
                    self.tell(Some(format!("it cannot be asked: {why}")));
                }
                Answer::Ill(said) => {
                    let said = self.secrets.redact(&said).into_owned();
                    failures += 1;
                    let most = checks.failures;
                    self.tell(Some(format!("{failures} of {most} checks failed: {said}")));
                    if failures >= most {
                        return Unhealthy { failures, said };
                    }
                }
            }
        }
    }

    fn are_paused(&self) -> bool {
        self.are_paused.load(Ordering::Acquire)
    }

    /// Tells the followers of the checks why the last check has not succeeded.
    fn tell(&self, why: Option<String>) {
        self.unhealthy.send_if_modified(|known| {
            let is_other = *known != why;
            *known = why;
            is_other
        });
    }
}

impl Checks {
    fn new(
        health: &HealthCheck,
        (config, pid): (&ProcessConfig, i32),
        ledger: Option<&Ledger>,
    ) -> Self {
        let HealthCheck { probe, every, timeout, failures } = health;
        let way = match probe {
            HealthProbe::Port(address) => Way::Probe(Probe::Port(*address)),
            HealthProbe::Http { address, path } => {
                Way::Probe(Probe::Http { address: *address, path: path.clone() })
            }
            HealthProbe::Command(command) => {
                let command = (&command[..], *timeout);
                Way::Command(Box::new(SideCommand::new(("health", config), command, ledger)))
            }
        };
        Self { pid, way, every: *every, timeout: *timeout, failures: *failures }
    }

    /// Makes one check.
    async fn ask(&self, stop: &Stop) -> Answer {
        if is_suspended(self.pid).await {
            return Answer::Ill("a signal has suspended it".to_owned());
        }
        match &self.way {
            Way::Probe(probe) => match probe.attempt(self.timeout).await {
                Ok(()) => Answer::Well,
                Err(why) => Answer::Ill(why),
            },
            Way::Command(command) => match command.run(stop).await {
                Ok(()) => Answer::Well,
                Err(NotDone::NotMade(why)) => Answer::NotAsked(why),
                Err(NotDone::Failed(why)) => {
                    Answer::Ill(format!("its health command failed: {why}"))
                }
            },
        }
    }
}

/// Returns whether a signal such as SIGSTOP has suspended a process. The kernel accepts connections
/// for such a process, and tells only its parent that it is suspended.
async fn is_suspended(pid: i32) -> bool {
    let looked = tokio::task::spawn_blocking(move || Stat::read(pid)).await;
    matches!(looked, Ok(Ok(Some(stat))) if stat.is_suspended)
}
