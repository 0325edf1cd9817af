//! Agents of one state folder, and agents that run without a socket or do not start.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::process::Signal;

use crate::process::{Agent, TestResult};

#[tokio::test]
async fn a_second_agent_names_the_first_and_leaves_it_alone() -> TestResult {
    let folder = tempfile::tempdir()?;
    let first = Agent::start(folder.path(), &[]).await?;

    let (status, log) = Agent::spawn(folder.path(), &[])?.end().await?;

    assert_eq!(status.code(), Some(75), "{log}");
    assert!(log.contains(&format!("is held by process {}", first.pid()?)), "{log}");
    first.client().await?.report(None).await?;
    first.send(Signal::TERM)?;
    assert_eq!(first.end().await?.0.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn an_agent_takes_over_the_socket_of_a_killed_one() -> TestResult {
    let folder = tempfile::tempdir()?;
    let first = Agent::start(folder.path(), &[]).await?;
    first.send(Signal::KILL)?;
    first.end().await?;
    assert!(folder.path().join("control.sock").exists());

    let second = Agent::start(folder.path(), &[]).await?;

    second.client().await?.report(None).await?;
    second.send(Signal::TERM)?;
    assert_eq!(second.end().await?.0.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn an_agent_without_its_socket_runs_and_says_why() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700))?;
    symlink("elsewhere", folder.path().join("control.sock"))?;
    let mut agent = Agent::spawn(folder.path(), &[])?;

    agent.until("the control socket failed").await?;

    agent.send(Signal::TERM)?;
    assert_eq!(agent.end().await?.0.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn manifolds_that_do_not_fit_start_nothing() -> TestResult {
    let folder = tempfile::tempdir()?;

    let (status, log) = Agent::spawn(folder.path(), &["mistyped", "panicking"])?.end().await?;

    assert_eq!(status.code(), Some(65), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    Ok(())
}
