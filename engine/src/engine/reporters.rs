//! Asks the workers' reporters for their reports, outside the engine's loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Engine;
use crate::seen::report::{Detail, Report};
use crate::supervisor::call::Question;
use crate::supervisor::life::Life;
use crate::supervisor::snapshot::Asking;
use crate::vocabulary::text;
use crate::worker::reporter;

/// Returns how long the reporters of a nested engine may take to answer. This is less than the
/// nested engine's own deadline, so its report can still name the reporters that did not answer.
pub(super) fn inner_limit(engine: &Engine) -> Duration {
    let outer = reporter::limit().unwrap_or(engine.shared.environment.policy.report_deadline);
    outer / 10 * 9
}

/// Returns a report. Waits for no reporter longer than the limit.
pub(super) async fn report(engine: &Engine, limit: Duration) -> Report {
    let Some(snapshot) = engine.ask(Question::Snapshot).await else {
        return last_report(engine).await;
    };
    let mut report = snapshot.report;
    if !snapshot.asks.is_empty() {
        ask_all(&engine.shared.environment.driver, &mut report, snapshot.asks, limit).await;
    }
    look_into(engine, &mut report).await;
    report
}

/// Asks the reporters, and waits for each answer until its deadline.
async fn ask_all(driver: &Handle, report: &mut Report, asks: Vec<Asking>, limit: Duration) {
    // All are asked before one is waited for.
    let mut asked: BTreeMap<Duration, Vec<_>> = BTreeMap::new();
    for Asking { name, reporter, deadline, runtime } in asks {
        let limit = deadline.min(limit);
        let answer = reporter.ask(limit, deadline, &runtime);
        asked.entry(limit).or_default().push((name, answer));
    }
    // All deadlines begin now. The caller may have no runtime, so they are tasks on the engine's own.
    let waits = asked.into_iter().map(|(limit, answers)| {
        let mut over = JoinSet::new();
        over.spawn_on(async move { sleep(limit).await }, driver);
        (limit, over, answers)
    });
    // The shortest deadline comes first, so no wait is longer than its own deadline.
    for (limit, mut over, answers) in waits.collect::<Vec<_>>() {
        for (name, answer) in answers {
            // After the deadline the set is empty, and an empty set has no wait.
            tokio::select! {
                biased;
                answer = answer => match answer {
                    Ok(detail) => set_detail(report, &name, detail),
                    Err(error) => set_reporter(report, &name, text::written(&error)),
                },
                _ = over.join_next() => {
                    set_reporter(report, &name, no_answer(limit));
                }
            }
        }
    }
}

/// Returns the text for a reporter that did not answer, with whole milliseconds.
fn no_answer(limit: Duration) -> String {
    let millis = limit.as_micros().div_ceil(1000).try_into().unwrap_or(u64::MAX);
    format!("no answer within {}", humantime::format_duration(Duration::from_millis(millis)))
}

fn set_reporter(report: &mut Report, name: &str, text: String) {
    if let Some(worker) = report.workers.get_mut(name) {
        worker.reporter = Some(text);
    }
}

fn set_detail(report: &mut Report, name: &str, detail: Detail) {
    if let Some(worker) = report.workers.get_mut(name) {
        report.is_healthy &= !(is_unwell(&detail) && worker.is_essential);
        worker.report = Some(detail);
    }
}

/// Adds reports for nested engines that gave no report of their own. They leave out the reports of
/// the nested workers, so no level adds another wait.
async fn look_into(engine: &Engine, report: &mut Report) {
    for nested in engine.shared.tree.nested_in(&engine.shared.environment.path) {
        let name = nested.environment.path.rsplit_once('/').map_or("", |(_, name)| name);
        if report.workers.get(name).is_none_or(|worker| worker.report.is_some()) {
            continue;
        }
        let nested = engine.beside(Arc::clone(&nested));
        let Some(mut snapshot) = nested.ask(Question::Snapshot).await else { continue };
        for asking in snapshot.asks {
            let text = "not asked, as its engine gave no report".to_owned();
            set_reporter(&mut snapshot.report, &asking.name, text);
        }
        Box::pin(look_into(&nested, &mut snapshot.report)).await;
        set_detail(report, name, snapshot.report.into());
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
        .get(&engine.shared.environment, engine.shared.paths_left_behind())
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
