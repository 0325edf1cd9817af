//! Kills that tell how something ended.

use std::time::Duration;

use crankcase_engine::{Exit, Outcome, Stop, Worker, WorkerState};
use crankcase_testing::{
    Bare, Script, check_alive, check_kill, check_killed, clean_kill, dirty_kill, test_engine,
    wait_for_state,
};
use tokio::time::Instant;

use crate::{A, B, TestResult};

/// A worker that ends with what its function returns, when it is told to stop or at once.
struct Ends {
    at_once: bool,
    with: fn() -> Outcome,
}

impl Worker for Ends {
    async fn run(self, stop: Stop) -> Outcome {
        if !self.at_once {
            stop.wait().await;
        }
        (self.with)()
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_stops_late_and_fails() -> TestResult {
    let script = Script::new();
    script.answer_stop_after(Duration::from_secs(5), Err("it broke".into()));
    let (worker, began) = (Bare::run(script.worker("web")), Instant::now());

    assert_eq!(dirty_kill(worker).await?.to_string(), "it broke");

    assert_eq!(began.elapsed(), Duration::from_secs(5));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_clean_kill_fails_if_the_engine_had_a_fatal_error() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.answer_stop(Err(Exit::fatal("it broke")));
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

    let failure = clean_kill(engine).await.err().ok_or("it was clean")?;

    let text =
        "it did not end well: worker /a had a fatal error; seen:\n  /a ended, fatal: it broke";
    assert_eq!(failure.to_string(), text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_clean_kill_fails_if_a_worker_is_left_behind() -> TestResult {
    let engine = test_engine().kill_deadline(Duration::from_secs(1)).build()?;
    let script = Script::new();
    script.ignore_stop();
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;

    let failure = clean_kill(engine).await.err().ok_or("it was clean")?;

    assert_eq!(
        failure.to_string(),
        "it did not end well: workers of engine / did not end in time and were left behind: /a; \
         seen:\n  /a is stuck"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dirty_kill_fails_if_the_engine_ends_well() -> TestResult {
    let engine = test_engine().build()?;

    let failure = dirty_kill(engine).await.err().ok_or("it was dirty")?;

    assert_eq!(failure.to_string(), "it ended well, but an error was expected");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_engine_is_alive_until_it_has_ended() -> TestResult {
    let engine = test_engine().build()?;
    check_alive(&engine).await?;

    clean_kill(engine.clone()).await?;

    assert!(check_alive(&engine).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_bare_worker_that_ends_with_an_error_is_killed_dirtily() -> TestResult {
    let worker = Bare::run(Ends { at_once: false, with: || Err("it broke".into()) });
    check_alive(&worker).await?;

    let exit = dirty_kill(worker).await?;

    assert_eq!(exit.to_string(), "it broke");
    Ok(())
}

#[tokio::test]
async fn a_bare_worker_that_panics_has_failed() -> TestResult {
    let mut worker = Bare::run(Ends { at_once: true, with: || panic!("it cannot be") });

    let exit = worker.ended().await?.err().ok_or("it ended well")?;

    assert_eq!(exit.to_string(), "panicked: it cannot be");
    assert!(check_alive(&worker).await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_end_is_waited_for_without_asking_for_it() -> TestResult {
    let engine = test_engine().build()?;
    let killer = engine.clone();
    let limit = Duration::from_secs(10);

    assert!(check_killed(engine.clone(), limit).await.is_err());
    killer.kill();

    assert!(check_killed(engine, limit).await?.is_ok());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kill_that_takes_too_long_is_told() -> TestResult {
    let script = Script::new();
    script.ignore_stop();
    let worker = Bare::run(script.worker("deaf"));

    let failure = check_kill(worker, Duration::from_secs(10)).await.err().ok_or("it ended")?;

    assert_eq!(failure.to_string(), "it has not ended within 10s");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kill_returns_how_it_ended() -> TestResult {
    let script = Script::new();
    script.answer_stop(Err("it broke".into()));
    let worker = Bare::run(script.worker("broken"));

    let ended = check_kill(worker, Duration::from_secs(10)).await?;

    assert_eq!(ended.err().ok_or("it ended well")?.to_string(), "it broke");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_clean_kill_fails_if_a_worker_ends_badly_when_it_is_told_to_stop() -> TestResult {
    let (engine, deaf, broken) = (test_engine().build()?, Script::new(), Script::new());
    engine.install(A, deaf.manifold(())).await?;
    engine.install(B, broken.manifold(())).await?;
    deaf.ignore_stop();
    broken.answer_stop(Err("it broke".into()));
    engine.running(A).await?;
    engine.running(B).await?;

    let failure = clean_kill(engine).await.err().ok_or("it was clean")?;

    let text = "it did not end well; seen:\n  /b ended, failed: it broke\n  /a did not end in time, is \
                dropped";
    assert_eq!(failure.to_string(), text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_clean_kill_fails_if_a_worker_that_stops_already_ignores_it() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.ignore_stop();
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    tokio::select! {
        biased;
        _ = engine.park(A) => return Err("it has ended".into()),
        stopping = wait_for_state(&engine, "a", WorkerState::Stopping) => stopping?,
    }

    let failure = clean_kill(engine).await.err().ok_or("it ended well")?.to_string();

    assert!(failure.contains("/a did not end in time"), "{failure}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_clean_kill_does_not_look_at_what_was_before() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    engine.install(A, script.manifold(())).await?;
    engine.running(A).await?;
    script.end(Err("it was ill".into()));
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;

    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_fails_at_once_is_not_alive() -> TestResult {
    let worker = Bare::run(Ends { at_once: true, with: || Err("it broke".into()) });

    assert!(check_alive(&worker).await.is_err());

    assert_eq!(dirty_kill(worker).await?.to_string(), "it broke");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn how_a_bare_worker_has_ended_can_be_asked_again() -> TestResult {
    let mut panicked = Bare::run(Ends { at_once: true, with: || panic!("it cannot be") });
    let mut done = Bare::run(Ends { at_once: true, with: || Ok(()) });
    assert!(done.ended().await?.is_ok());

    let first = panicked.ended().await?.err().ok_or("it ended well")?;
    let second = panicked.ended().await?.err().ok_or("it ended well")?;

    assert!(first.is_panic() && second.is_panic());
    assert_eq!(dirty_kill(panicked).await?.to_string(), "panicked: it cannot be");
    Ok(clean_kill(done).await?)
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_bare_worker_that_does_not_end_come_to_an_end() -> TestResult {
    let deaf = || {
        let script = Script::new();
        script.ignore_stop();
        Bare::run(script.worker("deaf"))
    };

    let clean = clean_kill(deaf()).await.err().ok_or("it ended")?;
    let dirty = dirty_kill(deaf()).await.err().ok_or("it ended")?;
    let ended = deaf().ended().await.err().ok_or("it ended")?;

    for failure in [clean, dirty, ended] {
        assert_eq!(failure.to_string(), "it has not ended within 600s");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_scripts_start_counts_without_an_engine_too() -> TestResult {
    let script = Script::new();
    script.fail_start(Exit::failed("no disk"));
    script.hold_start();

    let failed = Bare::run(script.worker("first")).ended().await?;
    let held = Bare::run(script.worker("second"));
    script.held().await?;
    script.release();

    assert_eq!(failed.err().ok_or("it was started")?.to_string(), "no disk");
    Ok(clean_kill(held).await?)
}
