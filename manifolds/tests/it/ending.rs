use crankcase_status::wire::Subject;
use rustix::process::Signal;

use crate::process::{Agent, TestResult};

#[tokio::test]
async fn one_signal_stops_all_workers_in_order() -> TestResult {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir()?;
        let mut agent = Agent::start(folder.path(), &["dependent"]).await?;
        agent.until("the dependent is up").await?;

        agent.send(signal)?;

        agent.until("the dependent stops").await?;
        let (status, log) = agent.end().await?;
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(!folder.path().join("control.sock").exists());
    }
    Ok(())
}

#[tokio::test]
async fn the_second_signal_ends_what_does_not_listen() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["deaf"]).await?;
    agent.until("the deaf worker is up").await?;
    agent.send(Signal::INT)?;
    agent.until("not listening").await?;

    agent.send(Signal::INT)?;

    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(130), "{log}");
    Ok(())
}

#[tokio::test]
async fn an_agent_that_stops_still_says_what_it_waits_for() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["deaf"]).await?;
    agent.until("the deaf worker is up").await?;
    agent.send(Signal::TERM)?;
    agent.until("not listening").await?;

    let report = agent.client().await?.report(None).await?;

    let Subject::Engine(report) = report else { return Err("a worker".into()) };
    assert_eq!((&*report.state, &*report.workers["deaf"].state), ("stopping", "stopping"));
    agent.send(Signal::TERM)?;
    assert_eq!(agent.end().await?.0.code(), Some(130));
    Ok(())
}

#[tokio::test]
async fn a_fatal_error_is_the_exit_code_and_is_said_once() -> TestResult {
    let folder = tempfile::tempdir()?;
    let agent = Agent::start(folder.path(), &["fatal"]).await?;
    let mut events = agent.client().await?.events().await?;

    agent.send(Signal::HUP)?;

    while events.next().await?.is_some() {}
    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(1), "{log}");
    assert_eq!(log.matches("the signal hurt").count(), 1, "{log}");
    Ok(())
}

#[tokio::test]
async fn a_panic_does_not_end_the_agent() -> TestResult {
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::start(folder.path(), &["panicking"]).await?;
    agent.until("a worker has ended").await?;

    let answer = agent.client().await?.why("/agent/panicking").await?;

    assert!(answer.text.contains("panicked: at the start"), "{}", answer.text);
    agent.send(Signal::TERM)?;
    assert_eq!(agent.end().await?.0.code(), Some(0));
    Ok(())
}
