//! Settings of an agent that cannot be used.

use crankcase_manifolds::{Agent, AgentError, ControlConfig, StateDir};

use crate::process::TestResult;

#[test]
fn settings_that_cannot_be_used_are_named_and_nothing_is_begun() -> TestResult {
    let folder = tempfile::tempdir()?;
    let state_dir = folder.path().join("state");
    let agent = || Agent::builder().state_dir(StateDir::new(state_dir.clone()));
    let bounds = ControlConfig::default().max_connections(0);

    let refused = [agent().worker_threads(0).run(), agent().control(bounds).run()];

    let texts = refused.map(|refused| match refused {
        Err(AgentError::Config(error)) => error.to_string(),
        Err(AgentError::Control(error)) => error.to_string(),
        other => format!("{other:?}"),
    });
    assert_eq!(texts[0], "worker_threads is 0; expected at least 1");
    assert!(texts[1].contains("max_connections"), "{}", texts[1]);
    assert!(!std::fs::exists(&state_dir)?);
    Ok(())
}

#[test]
fn an_error_that_main_returns_is_printed_with_its_cause() -> TestResult {
    let folder = tempfile::tempdir()?;
    let agent = Agent::builder().state_dir(StateDir::new(folder.path().join("state")));

    let error = agent.worker_threads(0).run().err().ok_or("it ended well")?;

    let text = "cannot build the engine: worker_threads is 0; expected at least 1";
    assert_eq!(format!("{error:?}"), text);
    Ok(())
}
