//! Asks a worker for its own report.
//!
//! Invariants:
//! 1. A reporter runs in a task of its own. If it blocks, it delays neither the loop nor another
//!    reporter.
//! 2. It owes at most one answer. A caller that asks meanwhile gets the next answer, because the
//!    present one may be older than the question.
//! 3. A caller that asks when the answer is late is refused at once. So is the reporter itself. A
//!    caller that waits never gets [`ReporterError::Late`], even if its time is over: a busy runtime
//!    may start the reporter's task late.
//! 4. After [`Reporter::withdraw`] it is not asked again, and what it owes is dropped.
//! 5. No foreign code runs under the lock.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::seen::report::{self, Detail, ReportFn};
use crate::vocabulary::exit::Panicked;
use crate::vocabulary::policy::LONG;
use crate::vocabulary::wake::wake;
use crate::worker::stop::Stopper;
use crate::worker::stop::cell::Linger;

/// Why a reporter gave no report.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReporterError {
    /// Its earlier answer is late, or it has asked itself.
    #[error("has not answered an earlier request")]
    Late,
    /// It was withdrawn, or its runtime is gone.
    #[error("ended before it answered")]
    Gone,
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

tokio::task_local! {
    /// The current reporter, and how long it may take to answer.
    static CURRENT: (Weak<Reporter>, Duration);
}

/// Returns how long the current reporter may take to answer, if the caller is one.
pub(crate) fn limit() -> Option<Duration> {
    CURRENT.try_with(|(_, limit)| *limit).ok()
}

/// A worker's reporter. Its owner asks it, and withdraws it after the worker's end.
pub struct Reporter {
    stopper: Option<Stopper>,
    state: Mutex<State>,
}

struct State {
    /// `None` once it was withdrawn.
    report: Option<ReportFn>,
    /// When the answer that it owes is late. `None` if it owes none.
    due: Option<Instant>,
    /// The callers that wait for the next answer.
    next: Vec<Waiter>,
    /// The task that was started last, and the number of tasks so far.
    task: Option<AbortHandle>,
    tasks: u64,
}

impl Reporter {
    /// Returns a reporter that calls `report`. If there is a stopper, its worker is not gone while
    /// the reporter owes an answer.
    pub fn new<P, F, D>(report: P, stopper: Option<Stopper>) -> Arc<Self>
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = D> + Send + 'static,
        D: Into<Detail>,
    {
        Self::of(report::reporter(report), stopper)
    }

    pub(crate) fn of(report: ReportFn, stopper: Option<Stopper>) -> Arc<Self> {
        let (report, next) = (Some(report), Vec::new());
        let state = State { report, due: None, next, task: None, tasks: 0 };
        Arc::new(Self { stopper, state: Mutex::new(state) })
    }

    /// Asks for a report at once, and returns the future of the answer.
    ///
    /// The reporter runs on `runtime`. If it is answering other callers, this caller gets the next
    /// answer. The caller should wait no longer than `limit`; the future itself has no deadline. The
    /// answer is late if the reporter takes longer than `deadline`.
    ///
    /// # Errors
    ///
    /// If an earlier answer is late, the reporter asks itself, it is withdrawn, its runtime is gone,
    /// or it panics.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait. The reporter goes on.
    pub fn ask(
        self: &Arc<Self>,
        limit: Duration,
        deadline: Duration,
        runtime: &Handle,
    ) -> impl Future<Output = Result<Detail, ReporterError>> + Send + use<> {
        let (sender, answer) = oneshot::channel();
        let until = Instant::now() + limit.min(LONG);
        let waiter = Waiter { sender: Some(sender), until, deadline: deadline.min(LONG) };
        let asked = self.enqueue(waiter, runtime);
        async move {
            asked?;
            answer.await.unwrap_or(Err(ReporterError::Gone))
        }
    }

    fn enqueue(self: &Arc<Self>, waiter: Waiter, runtime: &Handle) -> Result<(), ReporterError> {
        let asks_itself = CURRENT.try_with(|(reporter, _)| reporter.as_ptr() == Arc::as_ptr(self));
        let mut state = self.state.lock();
        let Some(report) = state.report.clone() else { return Err(ReporterError::Gone) };
        if let Some(due) = state.due {
            // Callers that have left take no memory. Their wakers have left with them, so no foreign
            // code runs here.
            state.next.retain(|waiter| !waiter.has_left());
            if asks_itself == Ok(true) || Instant::now() >= due {
                return Err(ReporterError::Late);
            }
            state.next.push(waiter);
            return Ok(());
        }
        state.due = Some(Instant::now() + waiter.deadline);
        state.next.push(waiter);
        state.tasks += 1;
        let number = state.tasks;
        let linger = self.stopper.as_ref().map(Stopper::dropping);
        let owing = Owing { report, reporter: Some(Arc::clone(self)), _linger: linger };
        drop(state);
        // A runtime that is gone drops the task here.
        let task = runtime.spawn(answer_all(owing)).abort_handle();
        let mut state = self.state.lock();
        if state.report.is_none() {
            drop(state);
            task.abort();
        } else if state.tasks == number {
            state.task = Some(task);
        }
        Ok(())
    }

    /// Drops the answer that it owes. After this call the reporter is not asked again.
    ///
    /// Returns the reporter's function and the callers that wait for the next answer: drop them where
    /// foreign code may run.
    #[must_use = "dropping it runs foreign code"]
    pub fn withdraw(&self) -> impl Send + use<> {
        let (report, next, task) = {
            let mut state = self.state.lock();
            (state.report.take(), std::mem::take(&mut state.next), state.task.take())
        };
        if let Some(task) = task {
            task.abort();
        }
        (report, next)
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

/// A caller that waits for an answer.
struct Waiter {
    /// `None` once the answer was sent.
    sender: Option<oneshot::Sender<Result<Detail, ReporterError>>>,
    /// When the caller stops waiting.
    until: Instant,
    /// How long the reporter may take.
    deadline: Duration,
}

impl Waiter {
    fn has_left(&self) -> bool {
        self.sender.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn answer(mut self, answer: Result<Detail, ReporterError>) {
        if let Some(sender) = self.sender.take() {
            // If the answer is too late, nobody receives it.
            wake(|| drop(sender.send(answer)));
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        wake(|| drop(self.sender.take()));
    }
}

/// The answer that a reporter owes. The function is dropped first, and the guard of its worker last.
struct Owing {
    report: ReportFn,
    /// `None` once nobody waits for an answer. From then on another task may owe one.
    reporter: Option<Arc<Reporter>>,
    _linger: Option<Linger>,
}

impl Owing {
    /// Returns the callers that wait for the next answer, and how long it may take. Returns `None` if
    /// there are no callers.
    fn next(&mut self) -> Option<(Vec<Waiter>, Duration)> {
        let mut state = self.reporter.as_ref()?.state.lock();
        let now = Instant::now();
        let all = std::mem::take(&mut state.next).into_iter();
        let next: Vec<_> = all.filter(|waiter| !waiter.has_left()).collect();
        let due = next.iter().map(|waiter| now + waiter.deadline).max();
        state.due = due;
        drop(state);
        let Some(due) = due else {
            self.reporter = None;
            return None;
        };
        // A caller whose time is over takes no time from the others. It may still get the answer.
        let until = next.iter().map(|waiter| waiter.until).filter(|until| *until > now).min();
        let until = until.unwrap_or(due);
        Some((next, until - now))
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        let Some(reporter) = &self.reporter else { return };
        let next = {
            let mut state = reporter.state.lock();
            state.due = None;
            std::mem::take(&mut state.next)
        };
        drop(next);
    }
}

/// Answers until no caller waits.
async fn answer_all(mut owing: Owing) {
    let mut batch = owing.next();
    while let Some((mut waiters, limit)) = batch {
        let reporter = owing.reporter.as_ref().map(Arc::downgrade).unwrap_or_default();
        let answer = call(&owing.report, (reporter, limit)).await.map_err(ReporterError::from);
        // This comes first: the receiver of the answer may ask again at once.
        batch = owing.next();
        // The report of a nested engine may be large, so the last caller gets no copy.
        let last = waiters.pop();
        for waiter in waiters {
            waiter.answer(answer.clone());
        }
        if let Some(last) = last {
            last.answer(answer);
        }
        if batch.is_some() {
            // A reporter that is always ready must not keep its thread.
            tokio::task::yield_now().await;
        }
    }
}

/// Calls the reporter. Its code may panic in the call, in each poll, and when its future is dropped.
async fn call(report: &ReportFn, current: (Weak<Reporter>, Duration)) -> Result<Detail, Panicked> {
    let mut future = None;
    let answer = std::future::poll_fn(|cx| {
        let poll = || future.get_or_insert_with(|| report()).as_mut().poll(cx);
        let polled = || CURRENT.sync_scope(current.clone(), poll);
        match catch_unwind(AssertUnwindSafe(polled)) {
            Ok(poll) => poll.map(Ok),
            Err(payload) => Poll::Ready(Err(Panicked::from_payload(payload))),
        }
    });
    let answer = answer.await;
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
    dropped.map_err(Panicked::from_payload).and(answer)
}
