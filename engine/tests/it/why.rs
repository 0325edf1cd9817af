//! Chains to a root cause: what is given as the reason of what, and by which name.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Change, Engine, EventKind, Exit, Manifold, Name, Nested, WorkerState};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{A, B, C, Idle, TestResult, add_one, stop_all, with_bounce_delay};

#[tokio::test(start_paused = true)]
async fn why_leads_to_the_root_cause() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    (0..3).for_each(|_| script.fail_start(Exit::failed("no route to host")));
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.install(C, add_one(B)).await?;
    let third = |kind: &EventKind| matches!(kind, EventKind::Waiting { failures: 3, .. });
    events.wait_for_kind("/a", third).await?;

    let why = engine.why("c").await.ok_or("no such worker")?;

    let text = "/c waits for /b, which waits for /a, which failed 3 times: no route to host; next \
                try in 4.0 s";
    assert_eq!(why.to_string(), text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn who_has_parked_a_worker_and_why_is_told_while_it_is_parked() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, Script::new().manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.running(B).await?;
    let ada = engine.asked_by("ada", "a new disk");
    let why = async || engine.why("b").await.map(|why| why.to_string()).unwrap_or_default();

    ada.park(A).await?;
    let parked = "/b waits for /a, which is parked (ada: a new disk)";
    assert_eq!(why().await, parked);
    let report = engine.report().await;
    assert!(report.to_string().contains("  a  parked (ada: a new disk)\n"), "{report}");
    let by = report.workers["a"].parked_by.as_ref().map(|by| (&*by.who, &*by.why));
    assert_eq!(by, Some(("ada", "a new disk")));

    // Who parks it anew without a word is not ada.
    engine.park(A).await?;
    assert_eq!(why().await, "/b waits for /a, which is parked");
    ada.park(A).await?;
    assert_eq!(why().await, parked);

    // Nor has ada parked it once it is unparked or taken out; a new manifold stays parked.
    engine.unpark(A).await?;
    assert_eq!(engine.report().await.workers["a"].parked_by, None);
    ada.park(A).await?;
    engine.replace(A, Script::new().manifold(())).await?;
    assert_eq!(why().await, parked);
    engine.uninstall(A).await?;
    assert_eq!(why().await, "/b waits for /a, which is not installed");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn why_gives_no_error_of_the_past_as_the_cause() -> TestResult {
    let (engine, script) =
        (test_engine().policy(with_bounce_delay(Duration::from_secs(1))).build()?, Script::new());
    script.fail_start(Exit::missing("a licence"));
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.settled().await?;
    let why = async |name| engine.why(name).await.map(|why| why.to_string());
    assert_eq!(why("a").await.as_deref(), Some("/a misses something: a licence"));

    engine.bounce(A).await?;
    engine.running(B).await?;
    engine.bounce(A).await?;
    assert_eq!(why("a").await.as_deref(), Some("/a is delayed; next try in 1.0 s"));
    assert!(!engine.report().await.to_string().contains("licence"));

    engine.uninstall(A).await?;
    let waits = "/b waits for /a, which is not installed";
    assert_eq!(why("b").await.as_deref(), Some(waits));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_cannot_come_up_any_more_says_so() -> TestResult {
    let engine = test_engine().build()?;
    let forgets = Manifold::builder().offers::<(u32,)>().run(|(), _up| async move {
        std::future::pending::<()>().await;
        Ok(())
    });
    let fails = Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        drop(up);
        tokio::task::yield_now().await;
        Err("no luck".into())
    });
    let mut events = EventRecorder::new(&engine);

    engine.install(A, forgets).await?;
    engine.install(B, fails).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Health { .. })).await?;
    events.wait_for_kind("/b", |kind| matches!(kind, EventKind::Ended { .. })).await?;

    let why = async |name| engine.why(name).await.map(|why| why.to_string());
    let forgot = "/a is not up yet: it has dropped its `Up` without a call of `ready`, and can \
                  never come up";
    assert_eq!(why("a").await.as_deref(), Some(forgot));
    assert_eq!(why("b").await.as_deref(), Some("/b failed once: no luck; next try in 1.0 s"));
    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn a_closure_whose_up_is_dropped_in_another_task_says_so_at_once() -> TestResult {
    let engine = test_engine().build()?;
    let gives_away = Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(up) });
        std::future::pending::<()>().await;
        Ok(())
    });
    let mut events = EventRecorder::new(&engine);
    let began = Instant::now();

    engine.install(A, gives_away).await?;
    events.wait_for_kind("/a", |kind| matches!(kind, EventKind::Health { .. })).await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
    let why = engine.why("a").await.ok_or("no a")?.to_string();
    assert!(why.starts_with("/a is not up yet: it has dropped its `Up`"), "{why}");
    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_end_is_not_stuck_for_an_error_of_the_past() -> TestResult {
    let engine = test_engine().build()?;
    let kept = Arc::new(Mutex::new(None));
    let keeps = Manifold::builder().offers::<(u32,)>().run_with(
        Arc::clone(&kept),
        |kept, (), up| async move {
            if up.context().generation() == 1 {
                return Err("the disk is full".into());
            }
            *kept.lock() = Some(up.context().stop().linger());
            up.ready((1,)).wait().await;
            Ok(())
        },
    );
    engine.install(A, keeps).await?;
    engine.running(A).await?;
    let bouncing = engine.bounce(A);
    wait_for_state(&engine, "a", WorkerState::Stuck).await?;

    let why = engine.why("a").await.ok_or("no a")?.to_string();

    assert_eq!(why, "/a is stuck");
    assert!(!engine.report().await.to_string().contains("disk"));
    drop(kept.lock().take());
    assert!(bouncing.await.is_err());
    engine.running(A).await?;
    drop(kept.lock().take());
    engine.kill();
    Ok(engine.wait().await?)
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_replaced_worker_is_no_error_of_the_new_manifold() -> TestResult {
    let engine = test_engine().build()?;
    let fails_to_stop = Manifold::builder().offers::<(u32,)>().run(|(), up| async move {
        up.ready((1,)).wait().await;
        Err("cannot flush".into())
    });
    engine.install(A, fails_to_stop).await?;
    engine.running(A).await?;

    engine.replace(A, Script::new().manifold(())).await?;
    engine.running(A).await?;

    assert_eq!(engine.report().await.workers["a"].error, None);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn why_knows_the_name_that_an_input_was_to_have() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(Name::new("store"), 1_u32).await?;

    engine.install(B, add_one(Name::new("stroe"))).await?;
    let why = engine.why("b").await.ok_or("no b")?.to_string();

    let expected = "/b waits for /stroe, which is not installed; did you mean \"store\"?";
    assert_eq!(why, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn why_takes_the_paths_that_it_gives() -> TestResult {
    let engine = test_engine().build()?;
    let nested = Nested::new(|| Change::new().install(B, add_one(A)));
    engine.install_nested(Name::<()>::new("site"), nested).await?;
    engine.install(C, add_one(A)).await?;
    engine.settled().await?;
    let why = async |engine: &Engine, path| engine.why(path).await.map(|why| why.to_string());

    let nested = Some("/site/b waits for /site/a, which is not installed".to_owned());
    assert_eq!(why(&engine, "/site/b").await, nested);
    assert!(why(&engine, "/c").await.is_some_and(|why| why.starts_with("/c waits for /a")));
    let site = engine.engine_at("/site").ok_or("no site")?;
    assert_eq!(why(&site, "/site/b").await, nested);
    assert_eq!(why(&engine, "site/b").await, nested);
    assert_eq!(why(&site, "b").await, nested);
    // Not in it.
    assert_eq!(why(&site, "/c").await, None);
    for nothing in ["/", "", "/no name", "/site/no name", "/site/x-*", "site/"] {
        assert_eq!(why(&engine, nothing).await, None, "{nothing:?}");
    }
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn why_of_a_path_that_nothing_has_names_the_nearest() -> TestResult {
    let engine = test_engine().build()?;
    const WORKER: Name<u32> = Name::new("worker");
    let nested = Nested::new(|| Change::new().install(WORKER, add_one(A)));
    engine.install_nested(Name::<()>::new("site"), nested).await?;
    engine.settled().await?;
    let why = async |path| engine.why(path).await.map(|why| why.to_string());

    let found = why("/site/wroker").await;
    let nearest = "/site/wroker is not installed; did you mean \"worker\"?";
    assert_eq!(found.as_deref(), Some(nearest));
    let nearest = "/sites is not installed; did you mean \"site\"?";
    assert_eq!(why("/sites/worker").await.as_deref(), Some(nearest));
    assert_eq!(why("/elsewhere").await.as_deref(), Some("/elsewhere is not installed"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_starting_says_since_when_and_until_when() -> TestResult {
    const UNIT: Name<()> = Name::new("unit");
    let engine = test_engine().build()?;
    let never = Manifold::builder().start(|(), _ctx| async {
        std::future::pending::<()>().await;
        Ok::<Idle, _>(Idle)
    });
    let slow = never.build().start_timeout(Duration::from_secs(60));
    engine.install(UNIT, slow).await?;
    engine.install(B, Journal::new().manifold(UNIT)).await?;

    tokio::time::sleep(Duration::from_secs(20)).await;

    let why = engine.why("b").await.map(|why| why.to_string());
    let expected = "/b waits for /unit, which is starting (20.0 s of at most 60.0 s)";
    assert_eq!(why.as_deref(), Some(expected));
    Ok(engine.stop().await?)
}
