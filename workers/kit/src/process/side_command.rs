//! A command that is run beside a process, to reload it or to check its health.
//!
//! It may run every second. So one record without a pid stands for all its runs, and a run writes
//! nothing to the disk: one that a killed agent has left is found by the mark in its environment.

use std::ffi::OsString;
use std::time::Duration;

use crankcase_engine::Stop;
use tokio::sync::OnceCell;

use super::config::ProcessConfig;
use super::error::ProcessError;
use super::job::{Finished, Job, JobError};
use super::ledger::{Ledger, MARK, Record};
use super::readiness::Readiness;
use super::spawn::{begin, blocking};
use crate::condition::chain;
use crate::printable::spaced;
use crate::secrets::Secrets;

/// The time between TERM and KILL, after the timeout or a stop.
const GRACE: Duration = Duration::from_secs(1);

/// How many bytes of an output are kept, of its beginning and of its end each.
const KEPT: usize = 4 * 1024;

/// How long the name in the records may be, in characters.
const MAX_NAME: usize = 60;

/// How many characters of the last words an error has at most.
const MAX_WORDS: usize = 200;

/// A command with the user, the folder, the environment and the bounds of a process.
#[derive(Debug)]
pub(super) struct SideCommand {
    job: Job,
    ledger: Option<Ledger>,
    /// Begun by the first run, if there is a ledger. It stands as long as this does.
    record: OnceCell<Record>,
}

/// Why a command beside a process has not done its work.
#[derive(Debug)]
pub(super) enum NotDone {
    /// It could not be started or followed. That says nothing of the process.
    NotMade(String),
    /// It has failed, took too long or was stopped.
    Failed(String),
}

impl NotDone {
    /// Returns the reason.
    pub(super) fn into_why(self) -> String {
        let (Self::NotMade(why) | Self::Failed(why)) = self;
        why
    }
}

impl SideCommand {
    /// Returns the command of a process for a purpose, such as `reload`. It may take as long as the
    /// timeout.
    pub(super) fn new(
        (purpose, process): (&str, &ProcessConfig),
        (command, timeout): (&[OsString], Duration),
        ledger: Option<&Ledger>,
    ) -> Self {
        let name = format!("{purpose} {}", process.name).chars().take(MAX_NAME).collect();
        let process = ProcessConfig {
            name,
            command: command.to_vec(),
            input: Vec::new(),
            readiness: Readiness::Spawned,
            reload: None,
            health: None,
            survives: false,
            cgroups: None,
            grace: GRACE,
            ..process.clone()
        };
        let job = Job::new(process, timeout).kept(KEPT, KEPT).with_children();
        Self { job, ledger: ledger.cloned(), record: OnceCell::new() }
    }

    /// Runs the command to its end. The error says why it has not done its work.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the command is killed.
    pub(super) async fn run(&self, stop: &Stop) -> Result<(), NotDone> {
        look(&self.job.process).await.map_err(|error| NotDone::NotMade(chain(&error)))?;
        let job = self.marked().await.map_err(|error| NotDone::NotMade(chain(&error)))?;
        // Boxed, so that the owner of such a command does not hold its memory all the time.
        let ran = Box::pin(job.run(None, stop, (None, None))).await;
        let finished = ran.map_err(|error| match error {
            JobError::Start(_) | JobError::Follow(_) => NotDone::NotMade(chain(&error)),
            error => NotDone::Failed(chain(&error)),
        })?;
        if finished.status.success() {
            return Ok(());
        }
        let words = last_words(&finished, &self.job.process.secrets);
        Err(NotDone::Failed(format!("it {}{words}", finished.end())))
    }

    /// Returns the job with the mark of the record, if there is a ledger.
    async fn marked(&self) -> Result<Job, ProcessError> {
        let mut job = self.job.clone();
        if let Some(ledger) = &self.ledger {
            let record = self.record.get_or_try_init(|| begun(&self.job.process, ledger.clone()));
            let mark = record.await?.token().into();
            job.process.environment.insert(MARK.into(), mark);
        }
        Ok(job)
    }
}

/// Looks whether a command is there that is launched by way of this program. The launcher would
/// start, and its end could not be told from that of the command.
async fn look(process: &ProcessConfig) -> Result<(), ProcessError> {
    if process.needs_launcher() {
        let owned = process.clone();
        blocking(&process.name, move || owned.look()).await??;
    }
    Ok(())
}

/// Begins the record of a command. It writes to no files beside the record.
async fn begun(process: &ProcessConfig, ledger: Ledger) -> Result<Record, ProcessError> {
    begin(process, ledger).await.map(|(record, _)| record)
}

/// Returns the last line that a command has written, for the end of an error.
fn last_words(finished: &Finished, secrets: &Secrets) -> String {
    let lines = finished.stderr.lines().rev().chain(finished.stdout.lines().rev());
    let last = lines.map(str::trim).find(|line| !line.is_empty());
    let printable = |line: &str| spaced(&secrets.redact(line)).take(MAX_WORDS).collect::<String>();
    last.map_or_else(String::new, |line| format!(": {}", printable(line)))
}
