//! Asks the workers' reporters for their reports, outside the engine's loop.
//!
//! Each reporter runs in a task of its own, owes at most one answer, and is dropped with its
//! worker. So there are never more such tasks than workers.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Engine;
use crate::seen::report::{Detail, Report, Reporter};
use crate::supervisor::ask::{Ask, Asking, Unasked};
use crate::supervisor::call::Question;
use crate::supervisor::life::Life;
use crate::vocabulary::exit::Panicked;
use crate::vocabulary::text;
use crate::worker::stop::cell::Linger;

/// The answer of a reporter.
enum Answer {
    Detail(Detail),
    /// The text of the panic.
    Panicked(String),
    /// No answer: the reporter has ended with its worker or its runtime.
    Gone,
}

/// The text in the report for a reporter that has ended.
const GONE: &str = "ended before it answered";

tokio::task_local! {
    /// How long the current reporter may take to answer.
    static LIMIT: Duration;
}

/// Returns how long the reporters of a nested engine may take to answer. This is less than the
/// nested engine's own deadline, so its report can still name the reporters that did not answer.
pub(super) fn inner_limit(engine: &Engine) -> Duration {
    let outer =
        LIMIT.try_with(|limit| *limit).unwrap_or(engine.shared.environment.policy.report_deadline);
    outer / 10 * 9
}

/// Returns a report. Waits for no reporter longer than the limit.
pub(super) async fn report(engine: &Engine, limit: Duration) -> Report {
    let Some(snapshot) = engine.ask(Question::Snapshot).await else {
        return last_report(engine).await;
    };
    let mut report = snapshot.report;
    if !snapshot.asks.is_empty() {
        ask_all(&engine.shared.environment.driver, &mut report, &snapshot.asks, limit).await;
    }
    look_into(engine, &mut report).await;
    report
}

/// Asks the reporters, and waits for each answer until its deadline.
///
/// The caller may have no runtime, so the deadlines are tasks on the engine's own runtime.
async fn ask_all(driver: &Handle, report: &mut Report, asks: &[Asking], limit: Duration) {
    // For each deadline, how many reporters still owe an answer.
    let mut owing: BTreeMap<Duration, usize> = BTreeMap::new();
    let (sender, mut answers) = mpsc::unbounded_channel();
    for (index, asking) in asks.iter().enumerate() {
        let Some(worker) = report.workers.get_mut(&asking.name) else { continue };
        let deadline = asking.deadline.min(limit);
        let begun = asking.ask.begin(|asked| {
            let (ask, sender) = (Arc::clone(&asking.ask), Some(sender.clone()));
            let owing = Owing { ask, index, sender, asked };
            asking.runtime.spawn(answer(owing, deadline)).abort_handle()
        });
        worker.reporter = Some(match begun {
            Ok(()) => {
                *owing.entry(deadline).or_default() += 1;
                format!("no answer within {}", humantime::format_duration(deadline))
            }
            Err(Unasked::IsOwing) => "has not answered an earlier request".to_owned(),
            Err(Unasked::IsGone) => GONE.to_owned(),
        });
    }
    let mut deadlines = JoinSet::new();
    for deadline in owing.keys().copied() {
        let over = async move {
            sleep(deadline).await;
            deadline
        };
        deadlines.spawn_on(over, driver);
    }
    while !owing.is_empty() {
        let (index, answer) = tokio::select! {
            biased;
            Some(answer) = answers.recv() => answer,
            over = deadlines.join_next() => {
                // The runtime is gone, so the engine has ended: stop waiting.
                let Some(Ok(deadline)) = over else { return };
                owing.remove(&deadline);
                continue;
            }
        };
        let deadline = asks[index].deadline.min(limit);
        if let Some(left) = owing.get_mut(&deadline) {
            *left -= 1;
            if *left == 0 {
                owing.remove(&deadline);
            }
        }
        if let Some(worker) = report.workers.get_mut(&asks[index].name) {
            match answer {
                Answer::Detail(detail) => {
                    report.is_healthy &= !(is_unwell(&detail) && worker.is_essential);
                    (worker.report, worker.reporter) = (Some(detail), None);
                }
                Answer::Panicked(panic) => worker.reporter = Some(panic),
                Answer::Gone => worker.reporter = Some(GONE.to_owned()),
            }
        }
    }
}

/// Adds reports for nested engines that gave no report of their own. They leave out the reports of
/// the nested workers, so no level adds another wait.
async fn look_into(engine: &Engine, report: &mut Report) {
    for nested in engine.shared.tree.nested_in(&engine.shared.environment.path) {
        let name = nested.environment.path.rsplit_once('/').map_or("", |(_, name)| name);
        let silent = report.workers.get_mut(name).filter(|worker| worker.report.is_none());
        let Some(worker) = silent else { continue };
        let nested = engine.beside(Arc::clone(&nested));
        let Some(mut snapshot) = nested.ask(Question::Snapshot).await else { continue };
        for asking in snapshot.asks {
            if let Some(worker) = snapshot.report.workers.get_mut(&asking.name) {
                worker.reporter = Some("not asked, as its engine gave no report".to_owned());
            }
        }
        Box::pin(look_into(&nested, &mut snapshot.report)).await;
        let detail = Detail::from(snapshot.report);
        report.is_healthy &= !(is_unwell(&detail) && worker.is_essential);
        worker.report = Some(detail);
    }
}

fn is_unwell(detail: &Detail) -> bool {
    matches!(detail, Detail::Engine(nested) if !nested.is_healthy)
}

async fn last_report(engine: &Engine) -> Report {
    // The data for the last report is stored before the verdict.
    drop(engine.wait().await);
    engine
        .shared
        .last_report
        .get(&engine.shared.environment, engine.shared.left_behind())
        .unwrap_or_else(|| {
            let error = match &*engine.shared.life.borrow() {
                Life::Ended(verdict) => verdict.text(),
                Life::Running | Life::Stopping => None,
            };
            Report::of_lost(
                engine.path().to_owned(),
                engine.shared.environment.clock.now().into(),
                error,
            )
        })
}

/// Asks one reporter. Its code may panic in the call and in each poll.
async fn answer(owing: Owing, limit: Duration) {
    let ask = || LIMIT.sync_scope(limit, || (owing.asked.0)());
    let called = catch_unwind(AssertUnwindSafe(ask));
    let answer = match called {
        Err(payload) => panicked(payload),
        Ok(mut future) => {
            std::future::poll_fn(move |cx| {
                match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
                    Ok(poll) => poll.map(Answer::Detail),
                    Err(payload) => Poll::Ready(panicked(payload)),
                }
            })
            .await
        }
    };
    owing.settle(answer);
}

fn panicked(payload: Box<dyn Any + Send>) -> Answer {
    Answer::Panicked(text::written(&Panicked::from_payload(payload)))
}

/// An answer that a reporter owes. Dropping it sends [`Answer::Gone`].
struct Owing {
    ask: Arc<Ask>,
    index: usize,
    /// `None` once the answer was sent.
    sender: Option<mpsc::UnboundedSender<(usize, Answer)>>,
    /// The reporter and the guard of its worker. The reporter is dropped first.
    asked: (Reporter, Linger),
}

impl Owing {
    fn settle(mut self, answer: Answer) {
        self.send(answer);
    }

    fn send(&mut self, answer: Answer) {
        if let Some(sender) = self.sender.take() {
            // This comes first: the receiver of the answer may ask again at once.
            self.ask.is_owing.store(false, Ordering::Release);
            // If the answer is too late, nobody receives it.
            drop(sender.send((self.index, answer)));
        }
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        self.send(Answer::Gone);
    }
}
