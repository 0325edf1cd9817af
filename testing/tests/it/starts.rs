//! Manifolds that are started with stubs.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Detail, Exit, Manifold, Name, Outcome, Severity, Stop, Worker};
use crankcase_testing::{
    Journal, Script, StartError, Stubs, check_killed, clean_kill, start, test_engine, test_policy,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{A, B, TestResult};

struct Sum(u32);

impl Worker for Sum {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        if self.0 == 0 { Err("nothing was summed".into()) } else { Ok(()) }
    }
}

/// Returns a manifold that adds an optional input to a required one.
fn sum() -> Manifold {
    Manifold::builder()
        .inputs((A, B.optional()))
        .start(|(a, b), _ctx| async move { Ok(Sum(a + b.unwrap_or(0))) })
        .output(|sum| sum.0)
        .report(|sum| {
            let total = sum.0;
            move || async move { serde_json::json!({ "total": total }) }
        })
        .build()
}

#[tokio::test(start_paused = true)]
async fn values_reach_the_worker() -> TestResult {
    let stubs = Stubs::new().value(A, 2).value(B, 3);

    let started = start(sum(), stubs).await?;

    assert_eq!(started.output::<u32>().await?, 5);
    Ok(started.stop().await.map_err(|exit| exit.to_string())?)
}

#[tokio::test(start_paused = true)]
async fn an_optional_input_that_fails_is_absent() -> TestResult {
    let stubs = Stubs::new().value(A, 2).error(B, "no luck");

    let started = start(sum(), stubs).await?;

    assert_eq!(started.output::<u32>().await?, 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_required_input_that_fails_is_why_nothing_starts() -> TestResult {
    let started = start(sum(), Stubs::new().error(A, "no luck")).await;

    let Err(StartError::Waiting(why)) = started else { return Err("it waits for nothing".into()) };
    let text = "/subject waits for /a, which failed once: no luck; next try in 1.0 s";
    assert_eq!(why, text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stub_of_another_type_is_refused() -> TestResult {
    let stubs = Stubs::new().value(A.output::<String>(), "two".to_owned());

    let error = start(sum(), stubs).await.err().ok_or("it started")?;

    let cause = std::error::Error::source(&error).ok_or("no cause")?.to_string();
    assert!(cause.contains("asks \"a\" for u32"), "{cause}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_failed_start_gives_its_own_error() -> TestResult {
    let script = Script::new();
    script.fail_start(Exit::failed(std::io::Error::from(std::io::ErrorKind::NotFound)));

    let started = start(script.manifold(()), Stubs::new()).await;

    let Err(StartError::Ended(Err(exit))) = started else { return Err("it did not fail".into()) };
    let error = exit.error().ok_or("no error")?;
    let error = error.downcast_ref::<std::io::Error>().ok_or("another error")?;
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_start_is_an_error() -> TestResult {
    let script = Script::new();
    script.panic_in_start("it cannot be");

    let started = start(script.manifold(()), Stubs::new()).await;

    let Err(StartError::Ended(Err(exit))) = started else { return Err("it did not fail".into()) };
    assert!(exit.is_panic());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_start_that_misses_something_says_what() -> TestResult {
    let script = Script::new();
    script.fail_start(Exit::missing("a lease"));

    let error = start(script.manifold(()), Stubs::new()).await.err().ok_or("it started")?;

    assert_eq!(error.to_string(), "the worker ended before it was up: missing: a lease");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_error_at_the_stop_is_returned() -> TestResult {
    let started = start(sum(), Stubs::new().value(A, 0)).await?;

    let exit = started.stop().await.err().ok_or("it ended well")?;

    assert_eq!(exit.to_string(), "nothing was summed");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_end_of_its_own_is_returned_and_not_started_again() -> TestResult {
    let script = Script::new();
    let manifold = script.manifold(()).classifier(|_| Severity::ORDINARY);
    let mut started = start(manifold, Stubs::new()).await?;

    script.end(Err("it died".into()));
    let exit = started.ended().await?.err().ok_or("it ended well")?;

    assert_eq!(exit.to_string(), "it died");
    started.engine().settled().await?;
    assert_eq!(started.engine().report().await.workers["subject"].starts, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_changing_stub_bounces_the_worker() -> TestResult {
    let values = watch::Sender::new(1);
    let started = start(sum(), Stubs::new().changing(A, values.subscribe())).await?;
    let mut totals = started.follow::<u32>().await?;
    assert_eq!(totals.value().await, Ok(1));

    values.send(7)?;

    assert_eq!(totals.changed().await, Ok(None));
    assert_eq!(totals.value().await, Ok(7));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_output_that_is_not_offered_is_an_error() -> TestResult {
    let started = start(sum(), Stubs::new().value(A, 1)).await?;

    let failure = started.output::<String>().await.err().ok_or("there is one")?;

    assert_eq!(failure.to_string(), "cannot follow \"subject\" as String: it offers u32");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_workers_own_report_can_be_looked_at() -> TestResult {
    let started = start(sum(), Stubs::new().value(A, 4)).await?;

    let report = started.report().await;

    assert_eq!(report, Some(Detail::Value(serde_json::json!({ "total": 4 }))));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stub_can_be_any_manifold() -> TestResult {
    const BOTH: Name<u32> = Name::new("both");
    let both = Manifold::builder().offers::<(u32, String)>().run(|(), up| async move {
        up.ready((1, "one".to_owned())).wait().await;
        Ok(())
    });
    let user = Manifold::builder().inputs((BOTH, BOTH.output::<String>())).offers::<(String,)>();
    let user = user.run(|(number, text), up| async move {
        up.ready((format!("{number} is {text}"),)).wait().await;
        Ok(())
    });

    let started = start(user, Stubs::new().manifold(BOTH, both)).await?;

    assert_eq!(started.output::<String>().await?, "1 is one");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_test_that_fails_prints_why_nothing_was_started() -> TestResult {
    let of_another_type = Stubs::new().value(A.output::<String>(), String::new());

    let refused = start(sum(), of_another_type).await.err().ok_or("it was started")?;
    let waiting = start(sum(), Stubs::new()).await.err().ok_or("it was started")?;

    let text = format!("{refused:?}");
    let begin = "the manifold and its stubs do not fit together: ";
    assert!(text.starts_with(begin) && text.contains("String"), "{text}");
    assert_eq!(format!("{waiting:?}"), waiting.to_string());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_bounce_is_not_taken_for_the_end() -> TestResult {
    let values = watch::Sender::new(1);
    let started = start(sum(), Stubs::new().changing(A, values.subscribe())).await?;
    let mut totals = started.follow::<u32>().await?;
    assert_eq!(totals.value().await, Ok(1));
    values.send(0)?;
    assert_eq!(totals.changed().await, Ok(None));
    assert_eq!(totals.value().await, Ok(0));

    let exit = started.stop().await.err().ok_or("it ended well")?;

    assert_eq!(exit.to_string(), "nothing was summed");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_end_of_its_own_is_waited_for_through_bounces() -> TestResult {
    let (script, values) = (Script::new(), watch::Sender::new(1));
    let stubs = Stubs::new().changing(A, values.subscribe());
    let mut started = start(script.manifold(A), stubs).await?;
    let mut generation = started.follow::<u32>().await?;
    assert_eq!(generation.value().await, Ok(1));
    values.send(2)?;
    assert_eq!(generation.changed().await, Ok(None));
    assert_eq!(generation.value().await, Ok(2));

    script.end(Err("it died".into()));
    let exit = started.ended().await?.err().ok_or("it ended well")?;

    assert_eq!(exit.to_string(), "it died");
    let again = started.ended().await.err().ok_or("it ended again")?;
    assert_eq!(again.to_string(), "the worker has ended, and how was asked for before");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_is_bounced_and_ends_with_an_error_is_started_again() -> TestResult {
    let started = start(sum(), Stubs::new().value(A, 0)).await?;
    let mut totals = started.follow::<u32>().await?;
    assert_eq!(totals.value().await, Ok(0));

    started.engine().bounce(Name::<()>::new("subject")).await?;

    assert_eq!(totals.changed().await, Ok(None));
    assert_eq!(totals.value().await, Ok(0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_is_bounced_and_ends_with_a_fatal_error_ends_the_engine() -> TestResult {
    let script = Script::new();
    script.answer_stop(Err(Exit::fatal("it broke")));
    let started = start(script.manifold(()), Stubs::new()).await?;

    let bounced = started.engine().bounce(Name::<()>::new("subject")).await;
    let ended = check_killed(started.engine().clone(), Duration::from_secs(60)).await?;

    assert!(bounced.is_err() && ended.is_err());
    assert_eq!(started.stop().await.err().ok_or("it ended well")?.to_string(), "it broke");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_after_an_end_of_its_own() -> TestResult {
    let ends: [fn() -> Outcome; 4] =
        [|| Ok(()), || Err(Exit::Bounce), || Err(Exit::missing("it")), || Err("it died".into())];
    for end in ends {
        let (script, values) = (Script::new(), watch::Sender::new(1));
        let stubs = Stubs::new().changing(A, values.subscribe());
        let mut started = start(script.manifold(A), stubs).await?;
        script.end(end());
        let ended = started.ended().await?;
        assert_eq!(format!("{ended:?}"), format!("{:?}", end()));

        values.send(2)?;
        tokio::time::sleep(Duration::from_secs(60)).await;

        let up = started.output::<u32>().await;
        assert!(up.is_err(), "{ended:?}: {up:?}");
        assert!(started.stop().await.is_ok(), "{ended:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ignores_its_stop_does_not_end_well() -> TestResult {
    let script = Script::new();
    script.ignore_stop();
    let started = start(script.manifold(()), Stubs::new()).await?;

    let exit = started.stop().await.err().ok_or("it ended well")?;

    assert_eq!(exit.to_string(), "it has not ended within its grace, and was dropped");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_end_is_not_waited_for_without_end() -> TestResult {
    let mut started = start(sum(), Stubs::new().value(A, 1)).await?;

    let failure = started.ended().await.err().ok_or("it ended")?.to_string();

    let begin = "nothing came within 600s that was waited for; seen:\n";
    assert!(failure.starts_with(begin), "{failure}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stub_that_ends_the_engine_is_told_apart_from_one_that_does_not_fit() -> TestResult {
    let script = Script::new();
    script.fail_start(Exit::fatal("it broke"));

    let lost = start(sum(), Stubs::new().manifold(A, script.manifold(()))).await;

    let Err(StartError::Lost(failure)) = lost else { return Err("it is not lost".into()) };
    let text = failure.to_string();
    assert!(text.contains("/a ended, fatal: it broke"), "{text}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_engine_can_be_set() -> TestResult {
    let engine =
        test_engine().name(Name::new("agent")).policy(test_policy().grace(Duration::from_secs(5)));
    let script = Script::new();
    script.stop_after(Duration::from_secs(6));

    let started = start(script.manifold(()), Stubs::new().engine(engine)).await?;

    assert_eq!(started.engine().path(), "/agent");
    assert!(started.stop().await.is_err());
    Ok(())
}

/// What no one can look into.
trait Store: Send + Sync {
    fn pages(&self) -> u32;
}

impl Store for u32 {
    fn pages(&self) -> u32 {
        *self
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_stands_for_an_input_of_any_type() -> TestResult {
    const STORE: Name<Arc<dyn Store>> = Name::new("store");
    let web = Manifold::builder().inputs(STORE).offers::<(u32,)>().run(|store, up| async move {
        up.ready((store.pages(),)).wait().await;
        Ok(())
    });
    let (script, journal) = (Script::new(), Journal::new());
    let store: Arc<dyn Store> = Arc::new(7_u32);
    let double = script.clone().recorded_in(&journal).offering((store,), ());
    script.fail_start(Exit::missing("the disk"));

    let waiting = start(web.clone(), Stubs::new().manifold(STORE, double.clone())).await;
    let started = start(web, Stubs::new().manifold(STORE, double)).await?;

    assert!(matches!(waiting, Err(StartError::Waiting(why)) if why.ends_with("the disk")));
    assert_eq!(started.output::<u32>().await?, 7);
    script.panic("out of range");
    assert_eq!(started.follow::<u32>().await?.changed().await, Ok(None));
    assert_eq!(journal.lines(), ["start store", "start store"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_script_of_any_type_that_is_held_in_its_start_ends_when_it_is_told_to() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.hold_start();
    engine.install(A, script.offering((7_u32,), ())).await?;
    script.held().await?;

    Ok(clean_kill(engine).await?)
}

#[tokio::test]
async fn a_worker_that_is_stuck_does_not_end_well() -> TestResult {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let brief = Duration::from_millis(20);
    let stuck = Manifold::builder().run_blocking(move |(), up| {
        let _stop = up.ready(());
        // An error: it is released.
        released.lock().recv().unwrap_or_default();
        Ok(())
    });
    let stuck = stuck.grace(brief).abort_grace(brief);
    let engine = test_engine().kill_deadline(Duration::from_millis(200));
    let started = start(stuck, Stubs::new().engine(engine)).await?;

    let stopped = started.stop().await;

    drop(release);
    let text = stopped.err().ok_or("it ended well")?.to_string();
    assert_eq!(text, "it has not ended, and was left behind");
    Ok(())
}
