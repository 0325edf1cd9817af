//! The lock of a state folder that an agent takes over.

use std::fs;

use crankcase_engine::{Exit, Manifold, Name};
use crankcase_manifolds::{Agent, StateDir};

use crate::process::TestResult;

#[test]
fn an_agent_keeps_to_the_folder_whose_lock_it_takes_over() -> TestResult {
    let outer = tempfile::tempdir()?;
    let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let lock = StateDir::new(path.clone()).lock()?;
    fs::rename(&path, &moved)?;
    fs::create_dir(&path)?;
    let over =
        Manifold::builder().run(|(), _up| async move { Err(Exit::fatal("the work is over")) });

    let agent = Agent::builder().state_lock(lock).install(Name::<()>::new("over"), over);
    let ended = agent.run().err().ok_or("it ended well")?;

    let text = format!("{ended:?}");
    assert!(text.contains("the work is over"), "{text}");
    assert_eq!(fs::read_dir(&path)?.count(), 0);
    // The lock is given back at the end.
    drop(StateDir::new(moved).lock()?);
    Ok(())
}
