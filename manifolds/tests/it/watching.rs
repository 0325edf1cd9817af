//! What is said of paths that the kernel does not watch, in a user namespace with limits of its own.

use std::process::Stdio;

use crankcase_engine::{Detail, EventKind, Name};
use crankcase_manifolds::file_watch;
use crankcase_testing::{EventRecorder, clean_kill, test_engine};
use crankcase_workers::{WatcherConfig, Watches};
use tokio::process::Command;

use crate::process::{TestResult, guarded};

const WATCHES: Name<Watches> = Name::new("watches");
const LIMIT: &str = "/proc/sys/user/max_inotify_watches";

#[tokio::test]
async fn paths_beyond_the_limits_degrade_the_worker_until_the_limits_are_raised() -> TestResult {
    let mut command = Command::new("unshare");
    command.arg("-Urm").arg(std::env::current_exe()?);
    command.args(["--exact", "watching::in_namespace", "--ignored", "--nocapture"]);
    command.stdin(Stdio::null()).kill_on_drop(true);

    let output = guarded(command.output()).await?;

    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    Ok(())
}

#[tokio::test]
#[ignore = "changes the limits of a namespace of its own"]
async fn in_namespace() -> TestResult {
    std::fs::write(LIMIT, "1")?;
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(WATCHES, file_watch::manifold(WatcherConfig::default())?).await?;
    let watches = guarded(engine.output(WATCHES).into_future()).await?;

    let _path = watches.watch(&std::env::current_exe()?)?;

    let is_said = |kind: &EventKind| {
        matches!(kind, EventKind::Health { degraded: Some(reason) }
            if reason.contains("user.max_inotify_watches is 1)"))
    };
    guarded(events.wait_for(|event| is_said(&event.kind))).await?;
    let report = guarded(engine.report()).await;
    let Some(Detail::Value(status)) = &report.workers["watches"].report else {
        return Err("no report".into());
    };
    assert_eq!((&status["subscriptions"], &status["problems"]), (&1.into(), &1.into()));
    std::fs::write(LIMIT, "1000")?;
    let is_well = |kind: &EventKind| *kind == EventKind::Health { degraded: None };
    guarded(events.wait_for(|event| is_well(&event.kind))).await?;
    Ok(clean_kill(engine).await?)
}
