//! An agent with workers that never yield.

use crankcase_status::wire::{Detail, Subject, WorkerState};
use rustix::process::Signal;

use crate::process::{Agent, TestResult};

#[tokio::test]
async fn workers_that_never_yield_keep_no_one_from_the_report() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["spinning"]).await?;
    agent.until("the site is up").await?;
    agent.send(Signal::HUP)?;
    agent.until_all(&["spinning", "spinning"]).await?;

    let report = agent.client().await?.report(None).await?;

    let Subject::Engine(report) = report else { return Err("a worker".into()) };
    assert_eq!(report.workers["spinning-0"].state, WorkerState::Running);
    assert!(matches!(report.workers["site"].report, Some(Detail::Engine(_))), "{report:?}");
    Ok(())
}

#[tokio::test]
async fn workers_that_never_yield_are_named_and_left_behind() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["spinning"]).await?;
    agent.until("the site is up").await?;
    agent.send(Signal::HUP)?;
    agent.until_all(&["spinning", "spinning"]).await?;

    agent.send(Signal::TERM)?;

    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(1), "{log}");
    let error = log.lines().last().unwrap_or_default();
    assert!(error.contains("/agent/spinning-0, /agent/spinning-1"), "{log}");
    Ok(())
}
