//! Owners whose workers linger, in an engine.

use std::time::Duration;

use crankcase_engine::owner::Linger;
use crankcase_engine::{ChangeError, Engine, Name, WorkerState};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::running::TestResult;

/// Checks that the bounce of an owner has not ended it before what is held of it is let go.
pub(crate) async fn check_held<T>(
    engine: &Engine,
    owner: &Name<T>,
    held: &mut mpsc::UnboundedReceiver<Linger>,
) -> TestResult {
    let linger = held.recv().await;

    let (bounced, seen) = tokio::join!(engine.bounce(owner.clone()), async {
        sleep(Duration::from_secs(600)).await;
        let owner = engine.report().await.workers.remove(owner.as_str());
        drop(linger);
        owner.map(|owner| (owner.state, owner.starts))
    });

    assert!(matches!(bounced, Err(ChangeError::Stuck { .. })), "{bounced:?}");
    assert_eq!(seen, Some((WorkerState::Stuck, 1)));
    Ok(())
}
