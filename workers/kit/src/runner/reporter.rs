//! Asks workers for their own reports.
//!
//! Invariants:
//! 1. A reporter runs in a task of its own, so that one that blocks its thread holds up nobody else.
//! 2. It owes one answer at most: as long as it does, it is asked for no other.
//! 3. What it owes is dropped with its worker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_engine::owner;
use crankcase_engine::{Detail, Panicked};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::child::caught;

/// What a worker gives to be asked for its own report.
pub(super) type Report = dyn Fn() -> Pin<Box<dyn Future<Output = Detail> + Send>> + Send + Sync;

/// A report, or that the reporter panicked.
pub(super) type Answer = Result<Detail, Panicked>;

/// A worker's reporter, and what it owes.
pub(super) struct Reporter {
    report: Box<Report>,
    is_owing: AtomicBool,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    /// The task that owes the answer.
    task: Option<AbortHandle>,
    /// Its worker is gone.
    is_over: bool,
}

impl Reporter {
    pub(super) fn new(report: Box<Report>) -> Self {
        Self { report, is_owing: AtomicBool::new(false), asked: Mutex::default() }
    }

    /// Asks for a report; nothing if it owes one, and no answer if its worker is gone.
    pub(super) fn ask(self: &Arc<Self>, runtime: &Handle) -> Option<oneshot::Receiver<Answer>> {
        let mut asked = self.asked.lock();
        if self.is_owing.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        if asked.is_over {
            return Some(answer);
        }
        let owed = Owed(Arc::clone(self));
        let task = runtime.spawn(async move {
            let answer = answered(&owed.0).await;
            // Before the answer, so that who has it may ask for the next.
            drop(owed);
            // Nobody may be waiting any more.
            drop(sender.send(answer));
        });
        asked.task = Some(task.abort_handle());
        Some(answer)
    }

    /// Lets go of what it owes: its worker is gone.
    pub(super) fn give_up(self: Arc<Self>) {
        let task = {
            let mut asked = self.asked.lock();
            asked.is_over = true;
            asked.task.take()
        };
        if let Some(task) = task {
            task.abort();
        }
        // Foreign code.
        drop(caught(|| drop(self)));
    }
}

/// An answer that is owed, until this is dropped.
struct Owed(Arc<Reporter>);

impl Drop for Owed {
    fn drop(&mut self) {
        self.0.is_owing.store(false, Ordering::Release);
    }
}

/// Asks, and takes a panic for an answer too.
async fn answered(reporter: &Reporter) -> Answer {
    let mut report =
        catch_unwind(AssertUnwindSafe(|| (reporter.report)())).map_err(owner::panic_of)?;
    std::future::poll_fn(move |cx| {
        match catch_unwind(AssertUnwindSafe(|| report.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(payload) => std::task::Poll::Ready(Err(owner::panic_of(payload))),
        }
    })
    .await
}
