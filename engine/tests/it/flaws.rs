//! Flaws of the engine that this one takes after, each shown to be none here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crankcase_engine::{
    Change, ChangeError, Engine, EventKind, Exit, Manifold, Name, Nested, Severity, WorkerState,
};
use crankcase_testing::{
    EventRecorder, Journal, Script, clean_kill, test_engine, test_policy, wait_for_state,
};
use tokio::time::Instant;

use crate::{A, B, C, Idle, TestResult, add_one, stop_all, with_bounce_delay};

#[tokio::test(start_paused = true)]
async fn a_first_bounce_waits_the_whole_bounce_delay() -> TestResult {
    let engine = test_engine().policy(with_bounce_delay(Duration::from_millis(500))).build()?;
    let script = Script::new();
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    let began = Instant::now();

    script.end(Err(Exit::Bounce));
    events.wait_for_kind("/a", |kind| *kind == EventKind::Started { generation: 2 }).await?;

    assert_eq!(began.elapsed(), Duration::from_millis(500));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn bounces_are_never_penalised() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    let began = Instant::now();

    (0..10).for_each(|_| script.end(Err(Exit::Bounce)));
    engine.install(A, script.manifold(())).await?;
    events.wait_for_kind("/a", |kind| *kind == EventKind::Started { generation: 11 }).await?;

    assert_eq!(began.elapsed(), Duration::from_millis(10 * 10));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_kill_during_a_delay_asks_no_classifier_and_is_no_error() -> TestResult {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let all_fatal = move |_: &Exit| {
        count.fetch_add(1, Ordering::Relaxed);
        Severity::FATAL
    };
    let engine = test_engine().classifier(all_fatal).build()?;
    let script = Script::new();
    script.fail_start(Exit::Bounce);
    script.fail_start(Exit::missing("nothing"));
    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::Delayed).await?;

    stop_all(&engine).await?;

    assert_eq!(asked.load(Ordering::Relaxed), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_during_a_bounce_removes_the_worker() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    script.answer_stop(Err(Exit::Uninstall));

    engine.bounce(A).await?;
    engine.settled().await?;

    assert!(engine.graph().await.ok_or("it has ended")?.nodes.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_of_any_length_keeps_nothing() -> TestResult {
    let engine =
        test_engine().policy(test_policy().backoff(crankcase_engine::Backoff::none())).build()?;
    let (config, starts) = (Arc::new(()), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&starts);
    let crashing = Manifold::builder().offers::<(Arc<()>,)>().run_with(
        Arc::clone(&config),
        move |config, (), up| {
            let count = Arc::clone(&count);
            async move {
                let stop = up.ready((Arc::clone(&config),));
                if count.fetch_add(1, Ordering::Relaxed) < 20_000 {
                    return Err("again".into());
                }
                stop.wait().await;
                Ok(())
            }
        },
    );

    let name = Name::<Arc<()>>::new("crashing");
    let mut events = engine.events();
    engine.install(name.clone(), crashing).await?;
    while engine.report().await.workers["crashing"].starts <= 20_000 {
        events.next().await;
    }
    engine.running(name.clone()).await?;
    engine.settled().await?;
    tokio::task::yield_now().await;

    // The test's, the manifold's, the worker's and the value's.
    assert_eq!(Arc::strong_count(&config), 4);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_never_answers_holds_up_no_call() -> TestResult {
    let engine = test_engine().build()?;
    let silent = Manifold::builder()
        .start(|(), _ctx| async { Ok(Idle) })
        .output(|_| 1_u32)
        .report(|_| std::future::pending::<serde_json::Value>)
        .build();
    engine.install(A, silent).await?;
    engine.running(A).await?;
    let began = Instant::now();

    let reported = engine.report();
    let called = async {
        engine.install(B, add_one(A)).await?;
        engine.bounce(B).await?;
        engine.running(B).await
    };
    let called = tokio::select! {
        biased;
        _ = reported => None,
        called = called => Some(called),
    };

    assert_eq!(called, Some(Ok(())));
    assert_eq!(began.elapsed(), Duration::from_millis(10));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_that_waits_for_the_engine_does_not_lock_it() -> TestResult {
    let engine = test_engine().build()?;
    let (asking, script) = (engine.clone(), Script::new());
    script.fail_start(Exit::failed("lost"));
    let filter = move |exit: Exit| {
        let report = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(asking.report())
        });
        assert_eq!(report.workers["a"].state, WorkerState::Starting);
        drop(exit);
        Err(Exit::Bounce)
    };

    engine.install(A, script.manifold(()).filter(filter)).await?;

    engine.running(A).await?;
    assert_eq!(engine.report().await.workers["a"].failures, 0);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_start_leaves_all_others_running() -> TestResult {
    let (engine, journal, script) = (test_engine().build()?, Journal::new(), Script::new());
    script.panic_in_start("it cannot be");
    engine.install(B, journal.manifold(())).await?;
    engine.running(B).await?;

    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

    assert_eq!(journal.lines(), ["start b"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_hung_start_does_not_keep_the_engine_from_ending() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.hold_start();
    engine.install(A, script.manifold(())).await?;
    script.held().await?;
    let began = Instant::now();

    clean_kill(engine).await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_seed_stops_an_input_before_its_users() -> TestResult {
    for seed in 0..200 {
        let (engine, journal) = (test_engine().seed(seed).build()?, Journal::new());
        let group = Change::new().install(A, journal.manifold(())).install(B, journal.manifold(A));
        engine.apply(group.install(C, journal.manifold((A, B)))).await?;
        engine.running(C).await?;

        clean_kill(engine).await?;

        assert_eq!(journal.stops(), ["c", "b", "a"], "seed {seed}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_name_can_be_used_twice_by_two_types_and_starts_its_user_once() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(B, journal.manifold((A, A.output::<()>()))).await?;

    engine.provide(A, 1).await?;
    engine.running(B).await?;
    engine.settled().await?;

    assert_eq!(journal.lines(), ["start b (1, ())"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_cycle_is_told_the_same_way_every_time() -> TestResult {
    let mut texts = Vec::new();

    for seed in 0..20 {
        let engine = test_engine().seed(seed).build()?;
        let group = Change::new().install(A, add_one(C)).install(B, add_one(A));
        let refused = engine.apply(group.install(C, add_one(B))).await;
        texts.push(refused.err().ok_or("it was applied")?.to_string());
        clean_kill(engine).await?;
    }

    texts.dedup();
    let text = "cannot install manifold \"c\": it would depend on itself: c -> b -> a -> c";
    assert_eq!(texts, [text]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_leaves_the_other_users_of_its_inputs_alone() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(A, 1).await?;
    let names = (0..50).map(|index| Name::<u32>::parse(&format!("user{index}")));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    for name in &names {
        engine.install(name.clone(), journal.manifold(A)).await?;
    }
    engine.settled().await?;
    journal.take();

    engine.uninstall(names[7].clone()).await?;
    engine.settled().await?;

    assert_eq!(journal.lines(), ["stop user7", "end user7"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_install_that_races_with_a_kill_is_started_or_refused() -> TestResult {
    for seed in 0..20 {
        let (engine, journal) = (test_engine().seed(seed).build()?, Journal::new());
        let mut events = EventRecorder::new(&engine);

        let late = async {
            for _ in 0..seed {
                tokio::task::yield_now().await;
            }
            engine.kill();
        };
        let (installed, ()) = tokio::join!(engine.install(A, journal.manifold(())), late);
        engine.wait().await?;
        events.finish().await?;

        let starting = EventKind::Starting { generation: 1 };
        let was_told = events.seen().iter().any(|event| event.kind == starting);
        assert_eq!(installed.is_ok(), was_told, "{events:?}");
        assert!(installed.is_ok() || installed == Err(ChangeError::Stopped));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_backs_off_is_told_with_its_error_and_its_next_try() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    (0..2).for_each(|_| script.fail_start(Exit::failed("no route to host")));
    let mut events = EventRecorder::new(&engine);
    engine.install(A, script.manifold(())).await?;
    let second = |kind: &EventKind| matches!(kind, EventKind::Waiting { failures: 2, .. });
    events.wait_for_kind("/a", second).await?;

    let report = engine.report().await;

    let worker = &report.workers["a"];
    let error = worker.error.as_ref().ok_or("no error")?;
    let next = worker.until.ok_or("no next try")?.0.duration_since(report.at.0)?;
    let told = (worker.state, error.text.as_str(), worker.failures, worker.starts, next);
    let two = Duration::from_secs(2);
    assert_eq!(told, (WorkerState::BackingOff, "no route to host", 2, 2, two));
    Ok(clean_kill(engine).await?)
}

/// Runs the same things in an engine with a seed, and returns its events.
async fn trace(seed: u64) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let engine = Engine::builder().seed(seed).build()?;
    let mut events = EventRecorder::new(&engine);
    let script = Script::new();
    script.fail_start(Exit::failed("no luck"));
    let mut group = Change::new().install(A, script.manifold(()));
    for index in 0..10 {
        let name = Name::<u32>::parse(&format!("user{index}"))?;
        group = group.install(name, Script::new().manifold(A.optional()));
    }
    engine.apply(group).await?;
    engine.running(A).await?;
    engine.bounce(A).await?;
    engine.settled().await?;
    clean_kill(engine).await?;
    events.finish().await?;
    Ok(events.lines())
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_trace() -> TestResult {
    let first = trace(5).await?;

    let second = trace(5).await?;

    assert_eq!(first, second);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn another_seed_starts_independent_workers_in_another_order() -> TestResult {
    let first = trace(5).await?;

    let second = trace(6).await?;

    assert_ne!(first, second);
    Ok(())
}

/// Has a nested engine with many borders take itself out, and returns the events of that.
async fn trace_of_parts() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    const SITE: Name<Engine> = Name::new("site");
    let (engine, page) = (test_engine().show_carriers().build()?, Script::new());
    let script = page.clone();
    let mut site = Nested::new(move || Change::new().install(B, script.manifold(())))
        .manifold(|site| site.filter(|_| Err(Exit::Uninstall)));
    for index in 0..5 {
        site = site.export(B, Name::parse(&format!("export{index}"))?);
        site = site.import(A, Name::parse(&format!("import{index}"))?);
    }
    engine.install_nested(SITE, site).await?;
    engine.output(SITE).await?.running(B).await?;
    engine.settled().await?;
    let mut events = EventRecorder::new(&engine);
    page.end(Err(Exit::fatal("it is over")));
    // The nested engine, its exports and its imports.
    for _ in 0..11 {
        events.wait_for(|event| event.kind == EventKind::Removed).await?;
    }
    clean_kill(engine).await?;
    events.finish().await?;
    Ok(events.lines())
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_nested_engine_go_in_the_same_order_every_time() -> TestResult {
    let first = trace_of_parts().await?;

    let others = [trace_of_parts().await?, trace_of_parts().await?];

    assert_eq!(others, [first.clone(), first]);
    Ok(())
}
