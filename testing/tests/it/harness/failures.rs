//! The texts of a harness when something else happens than the test expects.

use std::time::Duration;

use crankcase_engine::{Exit, Manifold, Name, WorkerState};
use crankcase_testing::{Harness, Script, Stubs, start, test_engine};

use super::sum;
use crate::{A, B, TestResult};

#[tokio::test(start_paused = true)]
async fn what_was_expected_and_what_happened_is_told_with_the_journal() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.input(A);
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
    let mut a = harness.input(A);
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
    let (mut a, mut b) = (harness.input(A), harness.input(B));
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
    let mut a = harness.input(A);
    let reason = harness.expect_waiting("/subject is parked").await.err().ok_or("it is")?;
    a.come(3).await?;
    harness.expect_start().await?;
    let output = harness.expect_output(4_u32).await.err().ok_or("it is 4")?.to_string();
    let starts = harness.expect_starts(2).await.err().ok_or("it is 2")?.to_string();

    let waits = "happened: /subject waits for /a, which is not installed\n";
    assert!(reason.to_string().contains(waits), "{reason}");
    assert!(
        output.starts_with("expected that it offers 4\nhappened: it offers 3 after 600s\n"),
        "{output}"
    );
    let begin = "expected that it was started 2 times\nhappened: it was started once\n";
    assert!(starts.starts_with(begin), "{starts}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_input_of_another_type_is_refused() -> TestResult {
    let harness = Harness::new(sum()).await?;
    let mut text = harness.input(Name::<String>::new("a"));

    let error = text.come("one".to_owned()).await.err().ok_or("it fits")?;

    assert!(error.to_string().contains("\"subject\" asks \"a\" for u32"), "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_of_two_outputs_of_a_name_is_refused_with_the_way_to_give_both() -> TestResult {
    let both = Manifold::builder().inputs((A, A.output::<String>())).run(|_, up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    let hint = "; a name of several outputs is given all of them at once, by `Stubs::values` or \
                `Harness::inputs`";

    let refused = start(both.clone(), Stubs::new().value(A, 1)).await.err().ok_or("it fits")?;
    assert!(format!("{refused:?}").ends_with(hint), "{refused:?}");

    let harness = Harness::new(both).await?;
    let refused = harness.input(A).come(1).await.err().ok_or("it fits")?;
    assert!(refused.to_string().ends_with(hint), "{refused}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_has_been_told_but_not_done_is_no_quiet() -> TestResult {
    let script = Script::new();
    let mut harness = Harness::new(script.manifold(())).await?;
    harness.expect_start().await?;

    script.end(Err("it died".into()));
    let failure = harness.expect_quiet().await.err().ok_or("it was quiet")?.to_string();

    let begin = "expected that nothing happens to it\nhappened: /subject ended, failed: it died\n";
    assert!(failure.starts_with(begin), "{failure}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ignores_its_stop_has_not_stopped() -> TestResult {
    let script = Script::new();
    let mut harness = Harness::new(script.manifold(A)).await?;
    let mut a = harness.input(A);
    a.come(1).await?;
    harness.expect_start().await?;

    script.ignore_stop();
    a.go().await?;
    let failure = harness.expect_stop().await.err().ok_or("it stopped")?.to_string();

    let begin = "expected that it stops\nhappened: /subject did not end in time, is dropped\n";
    assert!(failure.starts_with(begin), "{failure}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_badly_does_not_finish_well() -> TestResult {
    let scripts = [Script::new(), Script::new(), Script::new()];
    scripts[0].ignore_stop();
    scripts[1].answer_stop(Err("it cannot write".into()));
    scripts[2].answer_stop(Err(Exit::missing("the disk")));
    let mut happened = Vec::new();
    for script in &scripts {
        let mut harness = Harness::new(script.manifold(())).await?;
        harness.expect_start().await?;

        let failure = harness.finish().await.err().ok_or("it ended well")?.to_string();

        let begin = "expected that it ends well\nhappened: it did not end well; seen:\n";
        assert!(failure.starts_with(begin), "{failure}");
        happened.extend(failure.lines().nth(2).map(str::to_owned));
    }
    let expected = [
        "  /subject did not end in time, is dropped",
        "  /subject ended, failed: it cannot write",
        "  /subject ended, missing: the disk",
    ];
    assert_eq!(happened, expected);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_input_that_cannot_come_or_fail_says_why() -> TestResult {
    let harness = Harness::new(sum()).await?.limit(Duration::from_secs(5));
    let mut a = harness.input(A);
    a.come(1).await?;
    harness.engine().park(A).await?;

    let come = a.come(2).await.err().ok_or("it came")?;
    let fail = a.fail("the disk is full").await.err().ok_or("it failed")?;

    let text = "input \"a\" does not offer the value within 5s; /a is parked";
    assert_eq!(come.to_string(), text);
    assert_eq!(fail.to_string(), "input \"a\" has not failed within 5s; /a is parked");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_output_that_does_not_come_is_told() -> TestResult {
    let mut harness = Harness::new(sum()).await?;

    let output = harness.output::<u32>().await.err().ok_or("it offers one")?.to_string();
    let other = harness.output::<String>().await.err().ok_or("it offers one")?.to_string();
    let expected = harness.expect_output(1_u32).await.err().ok_or("it offers one")?.to_string();

    let begin = "expected that it offers its u32\nhappened: nothing within 600s; /subject waits for \
                 /a, which is not installed\n";
    assert!(output.starts_with(begin), "{output}");
    assert!(other.contains("as String"), "{other}");
    let begin = "expected that it offers 1\nhappened: it offers nothing after 600s\n";
    assert!(expected.starts_with(begin), "{expected}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_state_that_does_not_come_is_told_with_those_that_came() -> TestResult {
    let script = Script::new();
    script.fail_start(Exit::failed("not yet"));
    let mut harness = Harness::new(script.manifold(())).await?;

    let failure = harness.expect_state(WorkerState::Parked).await.err().ok_or("it is")?;

    let happened = "happened: \"subject\" was not parked within 600s; seen:\n";
    let text = failure.to_string();
    assert!(text.contains(happened), "{text}");
    assert!(text.contains("\n  backing off\n  running\n"), "{text}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn events_that_were_missed_are_no_end_of_the_engine() -> TestResult {
    let stubs = Stubs::new().engine(test_engine().event_capacity(2));
    let mut harness = Harness::among(sum(), stubs).await?;
    let mut a = harness.input(A);
    for value in 0..10 {
        a.come(value).await?;
    }

    let failure = harness.expect_start().await.err().ok_or("it was seen")?.to_string();

    assert!(failure.contains("events were missed"), "{failure}");
    assert!(!failure.contains("has ended"), "{failure}");
    Ok(())
}
