//! A manifold among inputs that the test drives.

use std::sync::Arc;

use crankcase_engine::{Change, Detail, EndKind, Exit, Manifold, Name, Nested, WorkerState};
use crankcase_testing::{Harness, Script, Stubs, test_engine};

use crate::{A, B, TestResult};

mod failures;

/// Returns a manifold that adds an optional input to a required one.
fn sum() -> Manifold {
    Manifold::builder().inputs((A, B.optional())).offers::<(u32,)>().run(|(a, b), up| async move {
        up.ready((a + b.unwrap_or(0),)).wait().await;
        Ok(())
    })
}

/// Returns a manifold that follows an input.
fn following() -> Manifold {
    Manifold::builder().inputs(A.live()).run(|_a, up| async move {
        up.ready(()).wait().await;
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn inputs_come_change_go_and_come_again() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let (mut a, mut b) = (harness.input(A), harness.input(B));

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
    let mut a = harness.input(A);
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
    let mut a = harness.input(A);

    a.fail("it cannot be reached").await?;

    let why = "/subject waits for /a, which failed once: it cannot be reached; next try in 1.0 s";
    harness.expect_waiting(why).await?;
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn a_changing_input_publishes_its_values() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.changing(A);
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
    let mut a = harness.changing(A);
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
    let mut harness = Harness::among(manifold, Stubs::new().value(A, 1)).await?;
    harness.expect_start().await?;

    let own = harness.own_report().await?;

    assert_eq!(own, Some(Detail::Value(serde_json::json!({ "all": "well" }))));
    assert!(harness.report().await?.is_well());
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn a_stub_can_offer_several_values() -> TestResult {
    const BOTH: Name<u32> = Name::new("both");
    let user = Manifold::builder().inputs((BOTH, BOTH.output::<String>())).offers::<(String,)>();
    let user = user.run(|(number, text), up| async move {
        up.ready((format!("{number} is {text}"),)).wait().await;
        Ok(())
    });

    let stubs = Stubs::new().values(BOTH, (1_u32, "one".to_owned()));
    let mut harness = Harness::among(user, stubs).await?;

    harness.expect_output("1 is one".to_owned()).await?;
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn a_change_has_reached_the_users_when_it_is_over() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.changing(A);
    a.come(1).await?;
    harness.expect_start().await?;

    a.change(1).await?;
    harness.expect_quiet().await?; // an equal value is no change
    a.change(2).await?;
    let failure = harness.expect_quiet().await.err().ok_or("it was quiet")?.to_string();

    let begin = "expected that nothing happens to it\nhappened: /subject ended, stopped\n";
    assert!(failure.starts_with(begin), "{failure}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_an_input_was_told_is_so_when_the_call_is_over() -> TestResult {
    let harness = Harness::new(following()).await?;
    let mut a = harness.changing(A);
    a.come(1).await?;
    let offered = harness.engine().output(A).follow().await?;

    a.change(2).await?;
    let changed = offered.get();
    a.fail("the disk is full").await?;

    assert_eq!((changed, offered.get()), (Some(2), None));
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_not_equal_to_itself_can_be_published() -> TestResult {
    const RATE: Name<f64> = Name::new("rate");
    let manifold = Manifold::builder().inputs(RATE).run(|_rate, up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    let mut harness = Harness::new(manifold).await?;
    let mut rate = harness.changing(RATE);
    rate.come(1.0).await?;
    harness.expect_start().await?;

    rate.change(f64::NAN).await?;

    harness.expect_bounce().await?;
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_that_was_told_to_fail_has_failed() -> TestResult {
    for is_changing in [false, true] {
        let mut harness = Harness::new(sum()).await?;
        let mut a = if is_changing { harness.changing(A) } else { harness.input(A) };
        a.come(1).await?;
        harness.expect_start().await?;

        a.fail("the disk is full").await?;

        let why = "/subject waits for /a, which failed once: the disk is full; next try in 1.0 s";
        harness.expect_waiting(why).await?;
        a.fail("the disk is gone").await?;
        harness.expect_waiting(why).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_input_can_offer_several_values_that_nobody_can_print() -> TestResult {
    type Render = Arc<dyn Fn(u32) -> String + Send + Sync>;
    const PAGE: Name<Render> = Name::new("page");
    let user = Manifold::builder().inputs((PAGE, PAGE.output::<u32>())).offers::<(String,)>();
    let user = user.run(|(render, pages), up| async move {
        up.ready((render(pages),)).wait().await;
        Ok(())
    });
    let mut harness = Harness::new(user).await?;
    let mut page = harness.inputs::<(Render, u32), _>(PAGE);
    let render: Render = Arc::new(|pages| format!("{pages} pages"));

    page.come((Arc::clone(&render), 1)).await?;
    harness.expect_start().await?;
    page.change((render, 2)).await?;
    harness.expect_bounce().await?;

    assert_eq!(harness.output::<String>().await?, "2 pages");
    page.fail("no paper").await?;
    harness.expect_stop().await?;
    assert_eq!(harness.journal().lines(), ["page comes", "page changes", "page fails: no paper"]);
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn a_thousand_changes_are_not_too_many() -> TestResult {
    let mut harness = Harness::new(sum()).await?;
    let mut a = harness.input(A);
    for value in 0..1_000 {
        a.come(value).await?;
    }

    harness.expect_start().await?;
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn the_engine_around_it_can_be_set() -> TestResult {
    let engine = test_engine().name(Name::new("agent"));
    let engine = engine.filter(|exit| Err(Exit::missing(format!("filtered: {exit}"))));
    let script = Script::new();
    let stubs = Stubs::new().engine(engine).value(A, 1);
    let mut harness = Harness::among(script.manifold(A), stubs).await?;
    harness.expect_start().await?;

    script.end(Err("it died".into()));

    let end = (EndKind::Missing, Some("filtered: it died".to_owned()));
    assert_eq!(harness.expect_end().await?, end);
    Ok(harness.finish().await?)
}

/// Returns a nested engine that adds one to what it imports, and exports the sum.
fn adder() -> Nested {
    const INNER: Name<u32> = Name::new("inner");
    const SUM: Name<u32> = Name::new("sum");
    let add = || {
        Manifold::builder().inputs(INNER).offers::<(u32,)>().run(|number, up| async move {
            up.ready((number + 1,)).wait().await;
            Ok(())
        })
    };
    Nested::new(move || Change::new().install(SUM, add())).require(A, INNER).export(SUM, B)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_can_be_driven() -> TestResult {
    let mut harness = Harness::of_nested(adder(), Stubs::new()).await?;
    let mut a = harness.input(A);
    harness.expect_waiting("/subject waits for /a, which is not installed").await?;

    a.come(1).await?;
    harness.expect_start().await?;
    assert_eq!(harness.engine().output(B).await?, 2);
    a.change(5).await?;
    harness.expect_bounce().await?;

    assert_eq!(harness.engine().output(B).await?, 6);
    Ok(harness.finish().await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_can_be_a_stub() -> TestResult {
    const NESTED: Name<()> = Name::new("nested");
    let user = Manifold::builder().inputs(B).offers::<(u32,)>().run(|number, up| async move {
        up.ready((number,)).wait().await;
        Ok(())
    });
    let stubs = Stubs::new().value(A, 1).nested(NESTED, adder());

    let mut harness = Harness::among(user, stubs).await?;

    harness.expect_output(2_u32).await?;
    Ok(harness.finish().await?)
}
