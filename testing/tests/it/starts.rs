//! Manifolds that are started with stubs.

use crankcase_engine::{Detail, Exit, Manifold, Name, Outcome, Severity, Stop, Worker};
use crankcase_testing::{Script, StartError, Stubs, start};
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
    let stubs = Stubs::new().value(&A, 2).value(&B, 3);

    let started = start(sum(), stubs).await?;

    assert_eq!(started.output::<u32>().await?, 5);
    Ok(started.stop().await.map_err(|exit| exit.to_string())?)
}

#[tokio::test(start_paused = true)]
async fn an_optional_input_that_fails_is_absent() -> TestResult {
    let stubs = Stubs::new().value(&A, 2).error(&B, "no luck");

    let started = start(sum(), stubs).await?;

    assert_eq!(started.output::<u32>().await?, 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_required_input_that_fails_is_why_nothing_starts() -> TestResult {
    let started = start(sum(), Stubs::new().error(&A, "no luck")).await;

    let Err(StartError::Waiting(why)) = started else { return Err("it waits for nothing".into()) };
    let text = "/subject waits for /a, which failed once: no luck; next try in 1.0 s";
    assert_eq!(why, text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stub_of_another_type_is_refused() -> TestResult {
    let stubs = Stubs::new().value(&A.output::<String>(), "two".to_owned());

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
    let started = start(sum(), Stubs::new().value(&A, 0)).await?;

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
    let started = start(sum(), Stubs::new().changing(&A, values.subscribe())).await?;
    let mut totals = started.follow::<u32>().await?;
    assert_eq!(totals.value().await, Ok(1));

    values.send(7)?;

    assert_eq!(totals.changed().await, Ok(None));
    assert_eq!(totals.value().await, Ok(7));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_output_that_is_not_offered_is_an_error() -> TestResult {
    let started = start(sum(), Stubs::new().value(&A, 1)).await?;

    let failure = started.output::<String>().await.err().ok_or("there is one")?;

    assert_eq!(failure.to_string(), "cannot follow \"subject\" as String: it offers u32");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_workers_own_report_can_be_looked_at() -> TestResult {
    let started = start(sum(), Stubs::new().value(&A, 4)).await?;

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

    let started = start(user, Stubs::new().manifold(&BOTH, both)).await?;

    assert_eq!(started.output::<String>().await?, "1 is one");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_test_that_fails_prints_why_nothing_was_started() -> TestResult {
    let of_another_type = Stubs::new().value(&A.output::<String>(), String::new());

    let refused = start(sum(), of_another_type).await.err().ok_or("it was started")?;
    let waiting = start(sum(), Stubs::new()).await.err().ok_or("it was started")?;

    let text = format!("{refused:?}");
    let begin = "the manifold and its stubs do not fit together: ";
    assert!(text.starts_with(begin) && text.contains("String"), "{text}");
    assert_eq!(format!("{waiting:?}"), waiting.to_string());
    Ok(())
}
