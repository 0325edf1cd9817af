//! The heartbeat: a worker that hangs is dropped and started again.

use std::time::Duration;

use crankcase_engine::{Detail, EventKind, Manifold, Name};
use crankcase_manifolds::heartbeat;
use crankcase_testing::{EventRecorder, clean_kill, test_engine};
use crankcase_workers::{HeartbeatConfig, Pulse};
use tokio::time::sleep;

use crate::process::TestResult;

const HEARTBEAT: Name<Pulse> = Name::new("heartbeat");
const HUNG: Name<()> = Name::new("hung");
const LIVELY: Name<()> = Name::new("lively");

#[tokio::test(start_paused = true)]
async fn a_worker_that_hangs_is_dropped_and_started_again() -> TestResult {
    let engine = test_engine().build()?;
    let config = HeartbeatConfig::new(Duration::from_secs(10));
    let hung = Manifold::builder().inputs(HEARTBEAT).run(|pulse, up| async move {
        let _stop = up.ready(());
        let _beat = pulse.join("hung");
        std::future::pending().await
    });
    let mut events = EventRecorder::new(&engine);
    engine.install(HEARTBEAT, heartbeat::manifold(config)?).await?;
    engine.install(HUNG, hung).await?;

    for generation in 1..4 {
        let is_wanted = |kind: &EventKind| *kind == EventKind::Started { generation };
        events.wait_for(|event| event.path() == "/hung" && is_wanted(&event.kind)).await?;
    }

    let report = engine.report().await;
    let (heartbeat, hung) = (&report.workers["heartbeat"], &report.workers["hung"]);
    assert_eq!((heartbeat.failures, hung.failures), (0, 0));
    let Some(Detail::Value(detail)) = &heartbeat.report else { return Err("no report".into()) };
    assert_eq!((&detail["missed"], &detail["last_missed"]), (&2.into(), &"hung".into()));
    Ok(engine.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_beats_is_left_alone() -> TestResult {
    let engine = test_engine().build()?;
    let config = HeartbeatConfig::new(Duration::from_secs(10));
    let lively = Manifold::builder().inputs(HEARTBEAT).run(|pulse, up| async move {
        let stop = up.ready(());
        let beat = pulse.join("lively");
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                () = sleep(Duration::from_secs(9)) => beat.beat(),
            }
        }
    });
    engine.install(HEARTBEAT, heartbeat::manifold(config)?).await?;
    engine.install(LIVELY, lively).await?;

    sleep(Duration::from_secs(3600)).await;

    assert_eq!(engine.report().await.workers["lively"].generation, 1);
    Ok(clean_kill(engine).await?)
}

#[test]
fn a_bad_interval_is_refused_when_the_manifold_is_built() {
    let refused = heartbeat::manifold(HeartbeatConfig::new(Duration::from_secs(86_401)));

    let text = "within is 86401s; expected between 100 ms and 24 h";
    assert_eq!(refused.expect_err("it is too long").to_string(), text);
}
