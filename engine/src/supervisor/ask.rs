//! Reporters of workers, and what it takes to ask them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::seen::report::{Report, Reporter};

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
    pub(crate) reporter: Reporter,
    pub(crate) is_owing: AtomicBool,
    task: Mutex<Answering>,
}

/// Who owes an answer, or has owed the last one.
enum Answering {
    Nobody,
    Task(AbortHandle),
    /// Nobody ever will: its worker is gone.
    GivenUp,
}

/// Why a reporter is not asked.
pub(crate) enum Unasked {
    /// It owes an answer.
    IsOwing,
    /// Its worker is gone.
    IsGone,
}

impl Ask {
    pub(super) fn new(reporter: Reporter) -> Arc<Self> {
        let task = Mutex::new(Answering::Nobody);
        Arc::new(Self { reporter, is_owing: AtomicBool::new(false), task })
    }

    /// Asks the reporter, in a task that this begins.
    pub(crate) fn begin(&self, spawn: impl FnOnce() -> AbortHandle) -> Result<(), Unasked> {
        // Held until the task is there to be found by who gives it up.
        let mut task = self.task.lock();
        if matches!(*task, Answering::GivenUp) {
            return Err(Unasked::IsGone);
        }
        if self.is_owing.swap(true, Ordering::AcqRel) {
            return Err(Unasked::IsOwing);
        }
        *task = Answering::Task(spawn());
        Ok(())
    }

    /// Ends the task that owes an answer, and has no other begin: the worker is gone.
    pub(super) fn give_up(&self) {
        let before = std::mem::replace(&mut *self.task.lock(), Answering::GivenUp);
        if let Answering::Task(task) = before {
            task.abort();
        }
    }
}
