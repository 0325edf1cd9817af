//! The manifolds of runners, catacombs, values and owned workers.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{Name, Outcome, Stop, Worker, WorkerState};
use crankcase_manifolds::{catacomb, owned, runner, value};
use crankcase_testing::{Journal, clean_kill, test_engine, test_policy, wait_for_state};
use crankcase_workers::{
    CatacombConfig, CatacombHandle, ChildContext, ChildSpec, RunnerConfig, RunnerHandle,
    ValueHandle,
};
use tokio::time::{Instant, sleep};

type TestResult = Result<(), Box<dyn Error>>;

struct Idle;

impl Worker for Idle {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_runners_workers_are_in_the_engines_report_also_if_one_does_not_answer() -> TestResult {
    const TENANTS: Name<RunnerHandle> = Name::new("tenants");
    let engine = test_engine().build()?;
    engine.install(TENANTS, runner::manifold(RunnerConfig::default())?).await?;
    let tenants = engine.output(TENANTS).await?;
    tenants.start("ada", ChildSpec::permanent(|_ctx| async { Ok(Idle) })).await?;
    let silent = ChildSpec::permanent(|ctx| async move {
        ctx.report(std::future::pending::<serde_json::Value>);
        Ok(Idle)
    });
    tenants.start("brian", silent).await?.running().await?;

    let report = serde_json::to_value(engine.report().await)?;

    let workers = &report["workers"]["tenants"]["report"]["workers"];
    assert_eq!(workers["ada"]["state"], "running");
    assert_eq!(workers["brian"]["reporter"], "no answer within 1s");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_runner_has_the_time_that_its_workers_have() -> TestResult {
    struct Slow(Journal);
    impl Worker for Slow {
        async fn run(self, stop: Stop) -> Outcome {
            stop.wait().await;
            sleep(Duration::from_secs(29)).await;
            self.0.note("it has ended well");
            Ok(())
        }
    }
    const TENANTS: Name<RunnerHandle> = Name::new("tenants");
    let (engine, journal) = (
        test_engine().policy(test_policy().grace(Duration::from_secs(5))).build()?,
        Journal::new(),
    );
    engine.install(TENANTS, runner::manifold(RunnerConfig::default())?).await?;
    let noted = journal.clone();
    let slow = ChildSpec::permanent(move |_ctx| std::future::ready(Ok(Slow(noted.clone()))));
    engine.output(TENANTS).await?.start("slow", slow).await?.running().await?;

    clean_kill(engine).await?;

    assert_eq!(journal.lines(), ["it has ended well"]);
    Ok(())
}

/// Returns in which order, and when, workers that fail are started by a runner in an engine with this
/// seed.
async fn restarts(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    const TENANTS: Name<RunnerHandle> = Name::new("tenants");
    let (engine, journal) = (test_engine().seed(seed).build()?, Journal::new());
    engine.install(TENANTS, runner::manifold(RunnerConfig::default())?).await?;
    let (tenants, began) = (engine.output(TENANTS).await?, Instant::now());
    for name in ["ada", "brian", "clara"] {
        let noted = journal.clone();
        let failing = ChildSpec::permanent(move |ctx: ChildContext| {
            noted.note(format!("{} after {:?}", ctx.name(), began.elapsed()));
            std::future::ready(Err::<Idle, _>("the disk is full".into()))
        });
        tenants.start(name, failing).await?;
    }
    sleep(Duration::from_secs(60)).await;
    clean_kill(engine).await?;
    Ok(journal.take())
}

#[tokio::test(start_paused = true)]
async fn the_seed_of_an_engine_decides_when_a_runner_starts_its_workers_again() -> TestResult {
    let first = restarts(7).await?;

    let (again, other) = (restarts(7).await?, restarts(8).await?);

    assert!(first.len() > 9, "{first:?}");
    assert_eq!(first, again);
    assert_ne!(first, other);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_bounces_those_who_use_its_catacomb() -> TestResult {
    const SESSIONS: Name<CatacombHandle> = Name::new("sessions");
    const WEB: Name<u32> = Name::new("web");
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(SESSIONS, catacomb::manifold(CatacombConfig::default())).await?;
    engine.install(WEB, journal.manifold(SESSIONS.output::<()>())).await?;
    engine.running(WEB).await?;

    let sessions = engine.output(SESSIONS).await?;
    sessions.spawn("session", async |_stop| Err("the peer is gone".into()))?;
    wait_for_state(&engine, "sessions", WorkerState::BackingOff).await?;
    let why = engine.why("web").await.map(|why| why.to_string());
    engine.running(WEB).await?;

    let text = "/web waits for /sessions, which failed once: the peer is gone; next try in 1.0 s";
    assert_eq!(why.as_deref(), Some(text));
    let report = serde_json::to_value(engine.report().await)?;
    assert_eq!(report["workers"]["sessions"]["report"]["children"], serde_json::json!([]));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_set_bounces_who_requires_it_and_begins_anew_unless_it_is_shared()
-> TestResult {
    const LEVEL: Name<u32> = Name::new("level");
    const WEB: Name<u32> = Name::new("web");
    for is_shared in [false, true] {
        let (engine, journal) = (test_engine().build()?, Journal::new());
        let shared = value::shared(ValueHandle::new(1_u32));
        engine.install(LEVEL, if is_shared { shared } else { value::manifold(1_u32) }).await?;
        engine.install(WEB, journal.manifold(LEVEL)).await?;
        engine.running(WEB).await?;

        engine.output(LEVEL.output::<ValueHandle<u32>>()).await?.set(2);
        sleep(Duration::from_secs(1)).await;
        engine.bounce(LEVEL).await?;
        sleep(Duration::from_secs(1)).await;

        let mut starts = journal.lines();
        starts.retain(|line| line.starts_with("start"));
        let last = if is_shared { "start web 2" } else { "start web 1" };
        assert_eq!(starts, ["start web 1", "start web 2", last]);
        clean_kill(engine).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_made_with_a_worker_is_offered_by_each_generation() -> TestResult {
    const ROOT: Name<String> = Name::new("root");
    const PAGE: Name<String> = Name::new("page");
    let engine = test_engine().build()?;
    let page = owned::manifold(ROOT, |root: String, ctx| async move {
        let generation = ctx.generation();
        if generation == 2 {
            Err("no paper".into())
        } else {
            Ok((Idle, format!("{root} {generation}")))
        }
    });
    engine.install(PAGE, page).await?;
    engine.provide(ROOT, "/srv".to_owned()).await?;
    let first = engine.output(PAGE).await?;

    engine.bounce(PAGE).await?;
    let why = wait_for_state(&engine, "page", WorkerState::BackingOff).await;
    engine.running(PAGE).await?;

    why?;
    assert_eq!((first.as_str(), engine.output(PAGE).await?.as_str()), ("/srv 1", "/srv 3"));
    Ok(clean_kill(engine).await?)
}
