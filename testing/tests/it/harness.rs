//! A manifold among inputs that the test drives.

use crankcase_engine::{Detail, EndKind, Exit, Manifold, Name, WorkerState};
use crankcase_testing::{Harness, Script, Stubs};

use crate::{A, B, TestResult};

/// Returns a manifold that adds an optional input to a required one.
fn sum() -> Manifold {
    Manifold::builder().inputs((A, B.optional())).offers::<(u32,)>().run(|(a, b), up| async move {
        up.ready((a + b.unwrap_or(0),)).wait().await;
        Ok(())
    })
}

/// Returns a manifold that follows an input.
fn following() -> Manifold {
    Manifold::builder().inputs(A.live()).offers::<()>().run(|_a, up| async move {
        up.ready(()).wait().await;
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn inputs_come_change_go_and_come_again() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let (mut a, mut b) = (harness.input(&A), harness.input(&B));

    harness.expect_waiting("/subject waits for /a, which is not installed").await?;
    a.come(1).await?;
    assert_eq!(harness.expect_start().await?, 1);
    b.come(10).await?;
    assert_eq!(harness.expect_bounce().await?, 2);
    harness.expect_output(11_u32).await?;
    a.change(2).await?;
    harness.expect_bounce().await?;
    harness.expect_output(12_u32).await?;
    b.go().await?;
    harness.expect_bounce().await?;
    harness.expect_output(2_u32).await?;
    a.go().await?;
    harness.expect_stop().await?;
    harness.expect_waiting("/subject waits for /a, which is parked").await?;
    a.come(7).await?;
    harness.expect_start().await?;
    harness.expect_output(7_u32).await?;
    harness.expect_starts(5).await?;
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_that_fails_is_lost_until_it_comes_again() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.input(&A);
    a.come(1).await?;
    harness.expect_start().await?;

    a.fail("the disk is full").await?;

    harness.expect_stop().await?;
    let why = "/subject waits for /a, which failed once: the disk is full; next try in 1.0 s";
    harness.expect_waiting(why).await?;
    a.come(2).await?;
    harness.expect_start().await?;
    harness.expect_output(2_u32).await?;
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_can_fail_from_the_beginning() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.input(&A);

    a.fail("it cannot be reached").await?;

    let why = "/subject waits for /a, which failed once: it cannot be reached; next try in 1.0 s";
    harness.expect_waiting(why).await?;
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn a_changing_input_publishes_its_values() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.changing(&A);
    a.come(1).await?;
    harness.expect_start().await?;

    a.change(5).await?;

    harness.expect_bounce().await?;
    harness.expect_output(5_u32).await?;
    let report = harness.engine().report().await;
    assert_eq!(report.workers["a"].generation, 1);
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn a_live_input_bounces_nobody() -> TestResult {
    let mut harness = Harness::new(following()).await?;
    let mut a = harness.changing(&A);
    harness.expect_start().await?;

    a.come(1).await?;
    a.change(2).await?;
    a.go().await?;

    harness.expect_quiet().await?;
    harness.expect_starts(1).await?;
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn an_end_of_its_own_is_told_apart_from_a_stop() -> TestResult {
    let script = Script::new();
    let mut harness = Harness::new(script.manifold(())).await?;
    harness.expect_start().await?;

    script.end(Err("it died".into()));

    assert_eq!(harness.expect_end().await?, (EndKind::Failed, Some("it died".to_owned())));
    harness.expect_start().await?;
    script.end(Err(Exit::missing("its licence")));
    harness.expect_state(WorkerState::Missing).await?;
    assert_eq!(harness.expect_end().await?.0, EndKind::Missing);
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn reports_can_be_looked_at() -> TestResult {
    let manifold = Manifold::builder()
        .inputs(A)
        .start(|_a, _ctx| async move { Ok(Script::new().worker("it")) })
        .report(|_| || async { serde_json::json!({ "all": "well" }) })
        .build();
    let mut harness = Harness::among(manifold, Stubs::new().value(&A, 1)).await?;
    harness.expect_start().await?;

    let own = harness.own_report().await?;

    assert_eq!(own, Some(Detail::Value(serde_json::json!({ "all": "well" }))));
    assert!(harness.report().await?.is_well());
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn what_was_expected_and_what_happened_is_told_with_the_journal() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.input(&A);
    a.come(1).await?;
    harness.expect_start().await?;
    harness.journal().note("the test goes on");

    let failure = harness.expect_bounce().await.err().ok_or("it was bounced")?;

    let lines = [
        "expected that it stops",
        "happened: nothing within 600s; /subject is running",
        "the engine's events:",
        "  /subject installed",
        "  /a installed",
        "  /a starting, generation 1",
        "  /a started, generation 1",
        "  /subject starting, generation 1",
        "  /subject started, generation 1",
        "the journal:",
        "  a comes: 1",
        "  the test goes on",
        "the report:",
        "  / running, 2 workers",
        "    a        running",
        "    subject  running",
    ];
    assert_eq!(failure.to_string().lines().collect::<Vec<_>>(), lines);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_end_where_a_start_was_expected_is_told() -> TestResult {
    let script = Script::new();
    script.fail_start(Exit::failed("it broke"));
    let mut harness = Harness::new(script.manifold(())).await?;

    let failure = harness.expect_start().await.err().ok_or("it started")?.to_string();

    let begin = "expected that it starts\nhappened: /subject ended, failed: it broke\n";
    assert!(failure.starts_with(begin), "{failure}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stop_where_an_end_was_expected_is_told() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.input(&A);
    a.come(1).await?;
    harness.expect_start().await?;
    a.go().await?;

    let failure = harness.expect_end().await.err().ok_or("it ended by itself")?.to_string();

    let begin = "expected that it ends by itself\nhappened: /subject ended, stopped\n";
    assert!(failure.starts_with(begin), "{failure}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_bounce_where_quiet_was_expected_is_told() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let (mut a, mut b) = (harness.input(&A), harness.input(&B));
    a.come(1).await?;
    harness.expect_start().await?;
    b.come(1).await?;

    let failure = harness.expect_quiet().await.err().ok_or("it was quiet")?.to_string();

    let begin = "expected that nothing happens to it\nhappened: /subject ended, stopped\n";
    assert!(failure.starts_with(begin), "{failure}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn another_output_and_another_reason_are_told() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.input(&A);
    let reason = harness.expect_waiting("/subject is parked").await.err().ok_or("it is")?;
    a.come(3).await?;
    harness.expect_start().await?;
    let output = harness.expect_output(4_u32).await.err().ok_or("it is 4")?.to_string();
    let starts = harness.expect_starts(2).await.err().ok_or("it is 2")?.to_string();

    let waits = "happened: /subject waits for /a, which is not installed\n";
    assert!(reason.to_string().contains(waits), "{reason}");
    assert!(output.starts_with("expected that it offers 4\nhappened: it is 3\n"), "{output}");
    let begin = "expected that it was started 2 times\nhappened: it was started 1 times\n";
    assert!(starts.starts_with(begin), "{starts}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_input_of_another_type_is_refused() -> TestResult {
    let harness = Harness::new(sum()).await?;
    let mut text = harness.input(&Name::<String>::new("a"));

    let error = text.come("one".to_owned()).await.err().ok_or("it fits")?;

    assert!(error.to_string().contains("\"subject\" asks \"a\" for u32"), "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stub_can_offer_several_values() -> TestResult {
    const BOTH: Name<u32> = Name::new("both");
    let user = Manifold::builder().inputs((BOTH, BOTH.output::<String>())).offers::<(String,)>();
    let user = user.run(|(number, text), up| async move {
        up.ready((format!("{number} is {text}"),)).wait().await;
        Ok(())
    });

    let stubs = Stubs::new().values(&BOTH, (1_u32, "one".to_owned()));
    let mut harness = Harness::among(user, stubs).await?;

    harness.expect_output("1 is one".to_owned()).await?;
    Ok(harness.finish().await?)
}
