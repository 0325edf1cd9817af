//! Engines as workers of others.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::owner::NestedEngine;
use crankcase_engine::{
    Backoff, ChangeError, Context, Detail, Engine, EngineBuilder, EngineError, EngineState,
    EventKind, Exit, Manifold, Metrics, Name, Report, WorkerState,
};
use crankcase_testing::{
    EventRecorder, Failure, Journal, Script, clean_kill, test_engine, test_policy, wait_for_state,
};
use parking_lot::Mutex;

use crate::threads::WorkerRuntime;
use crate::{A, Idle, TestResult, with_grace};

const SITE: Name<Engine> = Name::new("site");
const PAGE: Name<u32> = Name::new("page");
const DISK: Name<u32> = Name::new("disk");

/// Returns a manifold whose engine runs `page`, which depends on `disk`.
fn site(page: &Script, disk: &Script) -> Manifold {
    let manifolds = (page.manifold(DISK), disk.manifold(()));
    let start = |(page, disk), (), ctx: Context| async move {
        let engine = test_engine().build_nested(&ctx)?;
        engine.install(DISK, disk).await?;
        engine.install(PAGE, page).await?;
        Ok::<NestedEngine, Exit>(engine)
    };
    Manifold::builder()
        .start_with(manifolds, start)
        .output(|engine| Engine::clone(engine))
        .report(|engine| engine.reporter())
        .build()
        .grace(Duration::from_secs(120))
}

#[tokio::test(start_paused = true)]
async fn a_nested_workers_path_begins_with_its_engines() -> TestResult {
    let engine = test_engine().name(Name::new("agent")).build()?;
    let mut events = EventRecorder::new(&engine);

    engine.install(SITE, site(&Script::new(), &Script::new())).await?;
    let is_up = |kind: &EventKind| matches!(kind, EventKind::Started { .. });
    events.wait_for_kind("/agent/site/page", is_up).await?;

    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engines_report_stands_under_its_name() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(SITE, site(&Script::new(), &Script::new())).await?;
    engine.output(SITE).await?.running(PAGE).await?;

    let report = engine.report().await;

    let Some(Detail::Engine(nested)) = &report.workers["site"].report else {
        return Err("no nested report".into());
    };
    assert_eq!(nested.path, "/site");
    assert_eq!(nested.workers["page"].state, WorkerState::Running);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_silent_reporter_in_a_nested_engine_does_not_silence_the_engine() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(SITE, site(&Script::new(), &Script::new())).await?;
    let silent = Manifold::builder()
        .start(|(), _ctx| async { Ok(Idle) })
        .report(|_| std::future::pending::<serde_json::Value>)
        .build();
    let (nested, name) = (engine.output(SITE).await?, Name::<()>::new("silent"));
    nested.install(name.clone(), silent).await?;
    nested.running(name.clone()).await?;

    let report = engine.report().await;

    let Some(Detail::Engine(nested)) = &report.workers["site"].report else {
        return Err("no nested report".into());
    };
    assert_eq!(nested.workers["silent"].reporter.as_deref(), Some("no answer within 900ms"));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_silent_reporter_two_engines_deep_silences_none_above_it() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(SITE, site(&Script::new(), &Script::new())).await?;
    let middle = engine.output(SITE).await?;
    middle.install(SITE, site(&Script::new(), &Script::new())).await?;
    let silent = Manifold::builder()
        .start(|(), _ctx| async { Ok(Idle) })
        .report(|_| std::future::pending::<serde_json::Value>)
        .build();
    let (inner, name) = (middle.output(SITE).await?, Name::<()>::new("silent"));
    inner.install(name.clone(), silent).await?;
    inner.running(name.clone()).await?;

    let report = engine.report().await;

    let nested = |report: &Report| match &report.workers["site"].report {
        Some(Detail::Engine(nested)) => Ok((**nested).clone()),
        other => Err(format!("no nested report: {other:?}")),
    };
    let inner = nested(&nested(&report)?)?;
    assert_eq!(inner.workers["silent"].reporter.as_deref(), Some("no answer within 810ms"));
    Ok(clean_kill(engine).await?)
}

/// Returns a manifold of an engine that says nothing of itself, with `inner` in it.
fn silent_engine(inner: Option<Manifold>) -> Manifold {
    let start = |inner, (), ctx: Context| async move {
        let engine = test_engine().build_nested(&ctx)?;
        if let Some(inner) = inner {
            engine.install(SITE, inner).await?;
        }
        let page = Manifold::builder().start(|(), _ctx| async { Ok(Idle) });
        engine
            .install(
                PAGE.output::<()>(),
                page.report(|_| || async { serde_json::json!(7) }).build(),
            )
            .await?;
        Ok::<NestedEngine, Exit>(engine)
    };
    Manifold::builder()
        .start_with(inner, start)
        .output(|engine| Engine::clone(engine))
        .report(|_| std::future::pending::<serde_json::Value>)
        .build()
}

#[tokio::test(start_paused = true)]
async fn engines_that_give_no_report_are_looked_into_within_one_deadline() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(SITE, silent_engine(Some(silent_engine(Some(silent_engine(None)))))).await?;
    let mut inmost = engine.clone();
    for _ in 0..3 {
        inmost = inmost.output(SITE).await?;
    }
    inmost.running(PAGE).await?;
    let asked = tokio::time::Instant::now();

    let report = serde_json::to_value(engine.report().await)?;

    assert_eq!(asked.elapsed(), Duration::from_secs(1));
    let first = &report["workers"]["site"];
    assert_eq!(first["reporter"], "no answer within 1s");
    let inmost = &first["report"]["workers"]["site"]["report"]["workers"]["site"]["report"];
    let page = &inmost["workers"]["page"];
    assert_eq!(
        (&page["path"], &page["state"]),
        (&"/site/site/site/page".into(), &"running".into())
    );
    assert_eq!(page["reporter"], "not asked, as its engine gave no report");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_second_report_at_the_same_time_has_what_a_nested_engine_can_answer_in_time() -> TestResult
{
    let engine = test_engine().build()?;
    let start = |(), ctx: Context| async move {
        let nested = test_engine().build_nested(&ctx)?;
        for (name, delay) in [(PAGE, 0), (DISK, 600)] {
            let reporter = move || async move {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                serde_json::json!(7)
            };
            let page = Manifold::builder().start(|(), _ctx| async { Ok(Idle) });
            let page = page.output(|_| 1_u32).report(move |_| reporter).build();
            nested.install(name, page).await?;
        }
        Ok::<NestedEngine, Exit>(nested)
    };
    let site = Manifold::builder().start(start).output(|engine| Engine::clone(engine));
    engine.install(SITE, site.report(|engine| engine.reporter()).build()).await?;
    let nested = engine.output(SITE).await?;
    nested.running(PAGE).await?;
    nested.running(DISK).await?;
    let later = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        engine.report().await
    };

    let (first, second) = tokio::join!(engine.report(), later);

    let first = &serde_json::to_value(first)?["workers"]["site"]["report"]["workers"];
    assert_eq!((&first["page"]["report"], &first["disk"]["report"]), (&7.into(), &7.into()));
    // The nested engine was asked again after 600 ms, and the second caller waits until 1,010 ms.
    let second = &serde_json::to_value(second)?["workers"]["site"]["report"]["workers"];
    assert_eq!(second["page"]["report"], 7);
    assert_eq!(second["disk"]["reporter"], "no answer within 369ms");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engines_workers_stop_before_it_counts_as_stopped() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let page = Script::new().recorded_in(&journal);
    page.stop_after(Duration::from_secs(10));
    engine.install(A, journal.manifold(())).await?;
    let site = site(&page, &Script::new().recorded_in(&journal));
    engine.install(SITE, site).await?;
    engine.output(SITE).await?.running(PAGE).await?;
    let mut events = EventRecorder::new(&engine);

    engine.bounce(SITE).await?;
    assert_eq!(journal.stops(), ["page", "disk"]);
    clean_kill(engine).await?;
    events.finish().await?;

    let lines = events.lines();
    let finished = lines.iter().position(|line| line == "/site finished").ok_or("no end")?;
    let ended = lines.iter().position(|line| line == "/site ended, stopped").ok_or("no end")?;
    assert!(finished < ended);
    Ok(())
}

const SHORT: Duration = Duration::from_millis(20);

/// Returns a manifold of an engine that runs `page`, with short graces in it and around it.
fn hasty_site(page: &Script) -> Manifold {
    let start = |page: Manifold, (), ctx: Context| async move {
        let engine = test_engine().policy(with_grace(SHORT)).build_nested(&ctx)?;
        engine.install(PAGE, page).await?;
        engine.running(PAGE).await?;
        Ok::<NestedEngine, Exit>(engine)
    };
    let page = page.manifold(()).abort_grace(SHORT);
    let site = Manifold::builder().start_with(page, start).output(|engine| Engine::clone(engine));
    site.build().grace(4 * SHORT).abort_grace(SHORT)
}

#[tokio::test]
async fn a_nested_engine_with_a_stuck_worker_is_not_started_again() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let (engine, journal) = (test_engine().workers_on(workers.handle()?).build()?, Journal::new());
    let page = Script::new().recorded_in(&journal);
    let mut events = EventRecorder::new(&engine);
    engine.install(SITE, hasty_site(&page)).await?;
    engine.running(SITE).await?;
    page.never_yield();
    page.blocked().await?;

    let asking = engine.clone();
    let bounced = async { asking.bounce(SITE).await };
    let released = async {
        events.wait_for_kind("/site", |kind| *kind == EventKind::Stuck).await?;
        let starts = journal.starts("page");
        page.release();
        Ok::<_, Failure>(starts)
    };
    let (bounced, starts) = tokio::join!(bounced, released);
    assert!(matches!(bounced, Err(ChangeError::Stuck { .. })), "{bounced:?}");
    engine.running(SITE).await?;

    assert_eq!(starts?, 1);
    assert_eq!(journal.lines(), ["start page", "stop page", "end page", "start page"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn an_engine_ends_without_a_stuck_worker_of_a_nested_one() -> TestResult {
    let workers = WorkerRuntime::new(2)?;
    let (engine, page) = (test_engine().workers_on(workers.handle()?).build()?, Script::new());
    // Far longer than a test may take: it must not be waited out.
    let site = hasty_site(&page).grace(Duration::from_secs(3600));
    engine.install(SITE, site).await?;
    let nested = engine.output(SITE).await?;
    page.never_yield();
    page.blocked().await?;

    let ended = engine.stop().await;

    page.release();
    let Err(EngineError::LeftBehind { path, workers }) = ended else {
        return Err("nobody was left behind".into());
    };
    assert_eq!((&*path, &*workers), ("/", &["/site/page".to_owned()][..]));
    for engine in [engine, nested] {
        assert_eq!(engine.report().await.left_behind, ["/site/page"]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_a_nested_engine_leaves_behind_is_an_ordinary_failure_outside() -> TestResult {
    let (engine, page) = (test_engine().build()?, Script::new());
    page.ignore_stop();
    let start = |page, (), ctx: Context| async move {
        let engine = test_engine().kill_deadline(SHORT).build_nested(&ctx)?;
        engine.install(PAGE, page).await?;
        engine.running(PAGE).await?;
        Ok::<NestedEngine, Exit>(engine)
    };
    let site = Manifold::builder().start_with(page.manifold(()), start);
    let mut events = EventRecorder::new(&engine);
    engine.install(SITE, site.output(|engine| Engine::clone(engine)).build()).await?;
    engine.output(SITE).await?.kill();

    events.wait_for_kind("/site", |kind| *kind == EventKind::Started { generation: 2 }).await?;

    let left = "workers of engine /site did not end in time and were left behind: /site/page";
    assert!(events.lines().contains(&format!("/site ended, failed: {left}")), "{events:?}");
    Ok(engine.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_of_a_nested_engine_is_an_ordinary_failure_outside() -> TestResult {
    let (engine, disk) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    engine.install(SITE, site(&Script::new(), &disk)).await?;
    engine.output(SITE).await?.running(PAGE).await?;

    disk.end(Err(Exit::fatal("it is full")));
    events.wait_for_kind("/site", |kind| *kind == EventKind::Started { generation: 2 }).await?;

    let line = "/site ended, failed: worker /site/disk had a fatal error: it is full".to_owned();
    assert!(events.lines().contains(&line), "{events:?}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_whose_start_is_dropped_is_killed() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let child = journal.manifold(());
    let start = |child, (), ctx: Context| async move {
        let engine = test_engine().build_nested(&ctx)?;
        engine.install(PAGE, child).await?;
        std::future::pending::<()>().await;
        Ok::<NestedEngine, Exit>(engine)
    };
    let hung = Manifold::builder().start_with(child, start).build();
    let mut events = EventRecorder::new(&engine);
    engine.install(Name::<()>::new("site"), hung).await?;
    let is_up = |kind: &EventKind| matches!(kind, EventKind::Started { .. });
    events.wait_for_kind("/site/page", is_up).await?;

    clean_kill(engine).await?;

    assert_eq!(journal.lines(), ["start page", "stop page", "end page"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handle_on_a_nested_engine_answers_after_its_end() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(SITE, site(&Script::new(), &Script::new())).await?;
    let nested = engine.output(SITE).await?;

    engine.uninstall(SITE).await?;

    assert_eq!(nested.report().await.state, EngineState::Stopped);
    Ok(clean_kill(engine).await?)
}

/// Counts the workers that have started.
#[derive(Default)]
struct Started(Mutex<Vec<String>>);

impl Metrics for Started {
    fn worker_started(&self, path: &str, _: Duration) {
        self.0.lock().push(path.to_owned());
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_engines_workers_are_counted_by_the_outer_metrics() -> TestResult {
    let started = Arc::new(Started::default());
    let engine = test_engine().metrics(started.clone()).build()?;

    engine.install(SITE, site(&Script::new(), &Script::new())).await?;
    engine.output(SITE).await?.running(PAGE).await?;
    clean_kill(engine).await?;

    let mut paths = started.0.lock().clone();
    paths.sort();
    assert_eq!(paths, ["/site", "/site/disk", "/site/page"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_has_a_policy_of_its_own() -> TestResult {
    let patient = Backoff::none().initial(Duration::from_secs(60));
    let (engine, disk) =
        (test_engine().policy(test_policy().backoff(patient)).build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    disk.fail_start("not yet".into());

    engine.install(SITE, site(&Script::new(), &disk)).await?;
    let is_waiting = |kind: &EventKind| matches!(kind, EventKind::Waiting { .. });
    let event = events.wait_for_kind("/site/disk", is_waiting).await?;

    let delay = Duration::from_secs(1);
    assert_eq!(event.kind, EventKind::Waiting { delay, failures: 1 });
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn what_the_outer_engine_decides_is_refused_to_a_nested_one() -> TestResult {
    type Build = fn() -> EngineBuilder;
    let refused = [
        (
            (|| test_engine().event_capacity(8)) as Build,
            "event_capacity is 8; expected none for a nested engine, whose events are the outer \
             one's",
        ),
        (
            || test_engine().name(Name::new("page")),
            "name is page; expected none for a nested engine, whose path is that of its worker",
        ),
    ];
    for (builder, text) in refused {
        let engine = test_engine().build()?;
        let mut events = EventRecorder::new(&engine);
        let nested = Manifold::builder()
            .start(move |(), ctx| async move { Ok(builder().build_nested(&ctx)?) })
            .build();

        engine.install(Name::<()>::new("site"), nested).await?;
        let is_end = |kind: &EventKind| matches!(kind, EventKind::Ended { .. });
        let event = events.wait_for_kind("/site", is_end).await?;

        assert_eq!(event.kind.to_string(), format!("ended, failed: {text}"));
        clean_kill(engine).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn events_of_a_tree_are_counted_without_gaps() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(SITE, site(&Script::new(), &Script::new())).await?;
    wait_for_state(&engine, "site", WorkerState::Running).await?;
    clean_kill(engine).await?;

    events.finish().await?;

    let sequences: Vec<_> = events.seen().iter().map(|event| event.sequence).collect();
    let expected: Vec<_> = (0..).take(sequences.len()).collect();
    assert_eq!(sequences, expected);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_engines_of_a_tree_have_one_wall_clock() -> TestResult {
    let engine = test_engine().build()?;
    let site = Manifold::builder()
        .start(|(), ctx| async move { Ok(Engine::builder().build_nested(&ctx)?) })
        .output(|nested| Engine::clone(nested))
        .build();
    tokio::time::sleep(Duration::from_secs(3600)).await;

    engine.install(SITE, site).await?;
    let nested = engine.output(SITE).await?;

    assert_eq!(nested.report().await.at, engine.report().await.at);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_one_engine_at_most() -> TestResult {
    let engine = test_engine().build()?;
    let twice = Manifold::builder().start(|(), ctx| async move {
        let first = Engine::builder().build_nested(&ctx)?;
        drop(Engine::builder().build_nested(&ctx)?);
        Ok(first)
    });
    engine.install(PAGE, twice.output(|_| 1_u32).build()).await?;

    engine.settled().await?;

    let error = engine.report().await.workers["page"].error.clone().ok_or("it is two")?;
    let expected = "path is /page; expected one that no engine has: a worker is one engine at most";
    assert_eq!(error.text, expected);
    Ok(clean_kill(engine).await?)
}
