//! Asks a process again and again whether it is well.
//!
//! It takes no task, and a thread only for a look at `/proc`: the worker of the process waits for
//! the next check as it waits for the end of the process, and drops a check that is under way when
//! it ends.

use std::future::pending;
use std::time::Duration;

use crankcase_engine::Stop;
use tokio::sync::watch;
use tokio::time::sleep;

use super::config::ProcessConfig;
use super::health_check::{HealthCheck, HealthProbe};
use super::identity::Stat;
use super::ledger::Ledger;
use super::probe::Probe;
use super::side_command::SideCommand;

/// The checks of one process.
#[derive(Debug)]
pub(super) struct HealthWatch {
    checks: Option<Checks>,
    /// Why the last check has failed, if it has.
    unhealthy: watch::Sender<Option<String>>,
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

/// What a process is ended for.
#[derive(Debug)]
pub(super) struct Unhealthy {
    /// How many checks in a row have failed.
    pub(super) failures: u32,
    /// Why the last one has.
    pub(super) said: String,
}

impl HealthWatch {
    /// Returns the checks of the process with this pid, as its config says, and a view of why the
    /// last has failed.
    pub(super) fn new(
        config: &ProcessConfig,
        pid: i32,
        ledger: Option<&Ledger>,
    ) -> (Self, watch::Receiver<Option<String>>) {
        let checks = config.health.as_ref();
        let checks = checks.map(|health| Checks::new(health, (config, pid), ledger));
        let (unhealthy, view) = watch::channel(None);
        (Self { checks, unhealthy }, view)
    }

    /// Waits until so many checks in a row have failed; for ever if there are none. Cancel safe: a
    /// check that is under way is given up.
    pub(super) async fn unhealthy(&self) -> Unhealthy {
        let Some(checks) = &self.checks else { return pending().await };
        // Nobody tells this one: a check that is not needed any more is dropped.
        let (_stopper, stop) = Stop::pair();
        let mut failures = 0;
        loop {
            sleep(checks.every).await;
            let asked = checks.ask(&stop).await;
            failures = if asked.is_ok() { 0 } else { failures + 1 };
            let most = checks.failures;
            let text = asked
                .as_ref()
                .err()
                .map(|why| format!("{failures} of {most} checks failed: {why}"));
            self.unhealthy.send_if_modified(|known| {
                let is_other = *known != text;
                *known = text;
                is_other
            });
            if let Err(said) = asked
                && failures >= most
            {
                return Unhealthy { failures, said };
            }
        }
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

    /// Asks once. The error says what came in place of a good answer.
    async fn ask(&self, stop: &Stop) -> Result<(), String> {
        if is_suspended(self.pid).await {
            return Err("a signal has suspended it".to_owned());
        }
        match &self.way {
            Way::Probe(probe) => probe.attempt(self.timeout).await,
            Way::Command(command) => {
                command.run(stop).await.map_err(|why| format!("its health command failed: {why}"))
            }
        }
    }
}

/// Returns whether a signal such as SIGSTOP has suspended a process. The kernel accepts connections
/// for such a one, and tells only its parent of that.
async fn is_suspended(pid: i32) -> bool {
    let looked = tokio::task::spawn_blocking(move || Stat::read(pid)).await;
    matches!(looked, Ok(Ok(Some(stat))) if stat.is_suspended)
}
