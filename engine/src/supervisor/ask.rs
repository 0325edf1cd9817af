//! Reporters of workers, and what it takes to ask them.

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

/// A reporter to ask, for whom, until when, and where it runs.
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
    /// None once its worker has ended.
    reporter: Option<Reporter>,
    /// Who owes an answer, or has owed the last one.
    task: Option<AbortHandle>,
}

/// Why a reporter is not asked.
pub(crate) enum Unasked {
    /// It owes an answer.
    IsOwing,
    /// Its worker has ended.
    IsGone,
}

impl Ask {
    pub(super) fn new(reporter: Reporter, stopper: Stopper) -> Arc<Self> {
        let asked = Mutex::new(Asked { reporter: Some(reporter), task: None });
        Arc::new(Self { is_owing: AtomicBool::new(false), stopper, asked })
    }

    /// Asks the reporter, in a task that this begins. The task holds the reporter, and keeps its worker
    /// from counting as gone.
    pub(crate) fn begin(
        &self,
        spawn: impl FnOnce((Reporter, Linger)) -> AbortHandle,
    ) -> Result<(), Unasked> {
        // Held until the task is there to be found by who gives it up.
        let mut asked = self.asked.lock();
        let Some(reporter) = asked.reporter.clone() else { return Err(Unasked::IsGone) };
        if self.is_owing.swap(true, Ordering::AcqRel) {
            return Err(Unasked::IsOwing);
        }
        asked.task = Some(spawn((reporter, self.stopper.dropping())));
        Ok(())
    }

    /// Ends the task that owes an answer, and returns the reporter, which is not asked any more: the
    /// worker has ended.
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
