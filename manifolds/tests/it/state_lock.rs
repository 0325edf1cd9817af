//! The lock of a state folder that an agent has from its caller.

use std::fs;
use std::sync::Arc;

use crankcase_engine::{Exit, Manifold, Name};
use crankcase_manifolds::{Agent, StateDir};
use crankcase_status::StateError;

use crate::process::TestResult;

#[test]
fn an_agent_keeps_to_the_folder_whose_lock_its_caller_holds() -> TestResult {
    let outer = tempfile::tempdir()?;
    let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let lock = Arc::new(StateDir::new(path.clone()).lock()?);
    fs::rename(&path, &moved)?;
    fs::create_dir(&path)?;
    let over =
        Manifold::builder().run(|(), _up| async move { Err(Exit::fatal("the work is over")) });

    let agent =
        Agent::builder().state_lock(Arc::clone(&lock)).install(Name::<()>::new("over"), over);
    let ended = agent.run().err().ok_or("it ended well")?;

    let text = format!("{ended:?}");
    assert!(text.contains("the work is over"), "{text}");
    assert_eq!(fs::read_dir(&path)?.count(), 0);
    // The caller has the lock until it drops it.
    let held = StateDir::new(moved.clone()).lock().err();
    assert!(matches!(held, Some(StateError::Held { .. })), "{held:?}");
    drop(lock);
    drop(StateDir::new(moved).lock()?);
    Ok(())
}
