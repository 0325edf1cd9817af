//! What a process is doing, and the handle that shows it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_engine::Stop;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use super::health_watch::HealthView;
use super::ledger::Record;
use super::notify::Notified;
use super::output::{Counts, Output};
use super::reloader::{ReloadError, Reloader};

/// What ends with a process: the bounds that what it starts cannot leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Containment {
    /// A [cgroup](crate::ProcessConfig::cgroups) of its own: all that it has started, and what that
    /// has started.
    Cgroup,
    /// Its process group: what leaves the group may run on, unless it is found by its mark.
    #[default]
    ProcessGroup,
}

impl Containment {
    /// Returns the containment of a process, by its record.
    pub(super) fn of(record: Option<&Record>) -> Self {
        match record.and_then(Record::cgroup) {
            Some(_) => Self::Cgroup,
            None => Self::ProcessGroup,
        }
    }
}

/// What a process is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessStatus {
    /// The pid of the leader, which is the group's id.
    pub pid: i32,
    /// Whether it was ready, by what its [`Readiness`](crate::Readiness) asks.
    pub is_ready: bool,
    /// Whether it was adopted from an earlier agent or worker.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_adopted: bool,
    /// What ends with it.
    pub contained_by: Containment,
    /// What it lacked to be ready, at the last look; none once it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Why its last health check has failed, and how many checks have; none while it is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<String>,
    /// What it says of itself over its notify socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// How many lines it has written to stdout and stderr.
    pub lines: u64,
    /// How many of them were dropped because they came too fast.
    pub dropped_lines: u64,
    /// How many bytes were cut off lines that were too long.
    pub cut_bytes: u64,
}

/// A view of a [`Process`](crate::Process). Cheap to clone.
#[derive(Clone)]
pub struct ProcessHandle {
    pid: i32,
    output: Arc<Output>,
    notified: watch::Receiver<Notified>,
    is_ready: Arc<AtomicBool>,
    missing: Arc<Mutex<Option<String>>>,
    reloader: Arc<Reloader>,
    health: HealthView,
    is_adopted: bool,
    contained_by: Containment,
}

impl ProcessHandle {
    pub(super) fn new(
        pid: i32,
        (output, notified): (Arc<Output>, watch::Receiver<Notified>),
        health: HealthView,
        reloader: Reloader,
    ) -> Self {
        let (is_ready, missing, reloader) = (Arc::default(), Arc::default(), Arc::new(reloader));
        Self {
            pid,
            output,
            notified,
            is_ready,
            missing,
            reloader,
            health,
            is_adopted: false,
            contained_by: Containment::default(),
        }
    }

    /// Returns the same view, but of a process with which this ends.
    pub(super) fn contained_by(self, contained_by: Containment) -> Self {
        Self { contained_by, ..self }
    }

    /// Returns the same view, but of a process that an earlier agent has started.
    pub(super) fn adopted(self) -> Self {
        Self { is_adopted: true, ..self }
    }

    /// Returns the pid of the leader, which is the group's id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns what the process is doing; after its end, what it did last.
    pub fn status(&self) -> ProcessStatus {
        let Counts { lines, dropped_lines, cut_bytes, .. } = self.output.counts();
        ProcessStatus {
            pid: self.pid,
            is_ready: self.is_ready.load(Ordering::Acquire),
            // It may be a path, a line or a URL with a secret.
            waits_for: self.missing.lock().as_ref().map(|text| self.output.redact(text)),
            unhealthy: self.health.unhealthy.borrow().clone(),
            is_adopted: self.is_adopted,
            contained_by: self.contained_by,
            says: self.notified.borrow().status.clone(),
            lines,
            dropped_lines,
            cut_bytes,
        }
    }

    /// Has the process read its configuration anew, as its
    /// [`reload`](crate::ProcessConfig::reload) says.
    ///
    /// A signal is only sent. A command is waited for; `stop` ends it.
    ///
    /// # Errors
    ///
    /// When its config does not say how, the process has ended, or the command fails, takes too long
    /// or is stopped.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the command is killed.
    pub async fn reload(&self, stop: &Stop) -> Result<(), ReloadError> {
        self.reloader.reload(stop).await
    }

    /// Follows the reason why the last check of its health has failed; none while it is well.
    ///
    /// The channel ends with the process.
    pub fn unhealthy(&self) -> watch::Receiver<Option<String>> {
        self.health.unhealthy.clone()
    }

    /// Pauses the health checks until [`resume_checks`](Self::resume_checks), so that no check ends
    /// the process. An unhealthy process counts as well from the time of the next check on.
    pub fn pause_checks(&self) {
        self.health.are_paused.store(true, Ordering::Release);
    }

    /// Resumes the health checks. Failures from before the pause do not count.
    pub fn resume_checks(&self) {
        self.health.are_paused.store(false, Ordering::Release);
    }

    pub(super) fn output(&self) -> &Arc<Output> {
        &self.output
    }

    pub(super) fn notified(&self) -> watch::Receiver<Notified> {
        self.notified.clone()
    }

    /// Returns the lock that holds what the process lacks to be ready.
    pub(super) fn missing(&self) -> &Mutex<Option<String>> {
        &self.missing
    }

    pub(super) fn set_ready(&self) {
        *self.missing.lock() = None;
        self.is_ready.store(true, Ordering::Release);
    }
}

impl fmt::Debug for ProcessHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessHandle").field("status", &self.status()).finish()
    }
}
