//! Reporters of workers, with all that is needed to ask them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::seen::report::{Report, Reporter};
use crate::worker::stop::Stopper;
use crate::worker::stop::cell::Linger;

/// A report, with the reporters that are still to be asked.
pub(crate) struct Snapshot {
    pub(crate) report: Report,
    pub(crate) asks: Vec<Asking>,
}

/// A reporter to ask: its worker's name, its deadline and its runtime.
pub(crate) struct Asking {
    pub(crate) name: String,
    pub(crate) ask: Arc<Ask>,
    pub(crate) deadline: Duration,
    pub(crate) runtime: Handle,
}

/// A worker's reporter, and whether it owes an answer.
pub(crate) struct Ask {
    pub(crate) is_owing: AtomicBool,
    stopper: Stopper,
    asked: Mutex<Asked>,
}

struct Asked {
    /// None once the worker has ended.
    reporter: Option<Reporter>,
    /// The task that was last asked. It may still owe its answer.
    task: Option<AbortHandle>,
}

/// Why a reporter is not asked.
pub(crate) enum Unasked {
    /// The reporter still owes an answer.
    IsOwing,
    /// The worker has ended.
    IsGone,
}

impl Ask {
    pub(super) fn new(reporter: Reporter, stopper: Stopper) -> Arc<Self> {
        let asked = Mutex::new(Asked { reporter: Some(reporter), task: None });
        Arc::new(Self { is_owing: AtomicBool::new(false), stopper, asked })
    }

    /// Asks the reporter in a task that `spawn` starts. The task holds the reporter and a guard, so
    /// the worker is not gone before the task has ended.
    pub(crate) fn begin(
        &self,
        spawn: impl FnOnce((Reporter, Linger)) -> AbortHandle,
    ) -> Result<(), Unasked> {
        // The lock is held until the task is stored, so that `withdraw` finds it.
        let mut asked = self.asked.lock();
        let Some(reporter) = asked.reporter.clone() else { return Err(Unasked::IsGone) };
        if self.is_owing.swap(true, Ordering::AcqRel) {
            return Err(Unasked::IsOwing);
        }
        asked.task = Some(spawn((reporter, self.stopper.dropping())));
        Ok(())
    }

    /// Aborts the task that was last asked, and returns the reporter. Called once the worker has
    /// ended; after that the reporter is not asked again.
    pub(super) fn withdraw(&self) -> Option<Reporter> {
        let mut asked = self.asked.lock();
        let (reporter, task) = (asked.reporter.take(), asked.task.take());
        drop(asked);
        if let Some(task) = task {
            task.abort();
        }
        reporter
    }
}
