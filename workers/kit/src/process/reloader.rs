//! The reload of a process, by a signal or a command.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crankcase_engine::Stop;
use rustix::process::pidfd_send_signal;
use thiserror::Error;

use super::config::ProcessConfig;
use super::ledger::Ledger;
use super::reload::Reload;
use super::side_command::SideCommand;
use super::stop_signal::StopSignal;

/// Why a process could not be told to read its configuration anew. It runs on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot reload process {name:?}: {why}")]
#[non_exhaustive]
pub struct ReloadError {
    /// The name of the process.
    pub name: String,
    /// What has failed.
    pub why: String,
}

/// Reloads one process, as its config says.
#[derive(Debug)]
pub(super) struct Reloader {
    name: String,
    way: Way,
}

#[derive(Debug)]
enum Way {
    None,
    /// The signal goes to the descriptor of the leader: once the leader was reaped, the kernel may
    /// give its pid to another process.
    Signal(StopSignal, Arc<OwnedFd>),
    Command(Box<SideCommand>),
}

impl Reloader {
    /// Returns a reloader of the process that has this descriptor.
    pub(super) fn new(
        config: &ProcessConfig,
        leader: Option<Arc<OwnedFd>>,
        ledger: Option<&Ledger>,
    ) -> Self {
        let way = match (&config.reload, leader) {
            (Some(Reload::Signal(signal)), Some(leader)) => Way::Signal(*signal, leader),
            (Some(Reload::Command { command, timeout }), _) => {
                let command = (&command[..], *timeout);
                Way::Command(Box::new(SideCommand::new(("reload", config), command, ledger)))
            }
            _ => Way::None,
        };
        Self { name: config.name.clone(), way }
    }

    pub(super) async fn reload(&self, stop: &Stop) -> Result<(), ReloadError> {
        let reloaded = match &self.way {
            Way::None => Err("its config does not say how".to_owned()),
            Way::Signal(signal, leader) => pidfd_send_signal(leader, signal.number())
                .map_err(|err| format!("cannot send {}: {}", signal.name(), io::Error::from(err))),
            Way::Command(command) => {
                let told = command.run(stop).await;
                told.map_err(|error| format!("its reload command failed: {}", error.into_why()))
            }
        };
        reloaded.map_err(|why| ReloadError { name: self.name.clone(), why })
    }
}
