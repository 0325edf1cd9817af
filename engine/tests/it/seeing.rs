//! What a report says of workers that say nothing themselves.

use std::time::Duration;

use crankcase_engine::{Engine, EventKind, Exit, Name, NameError, WorkerState};
use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine, wait_for_state};

use crate::{A, B, C, TestResult, add_one, stop_all, with_bounce_delay};

#[tokio::test(start_paused = true)]
async fn a_report_is_written_as_lines() -> TestResult {
    let (engine, script) = (test_engine().name(Name::new("agent")).build()?, Script::new());
    script.fail_start(Exit::missing("a lease"));
    engine.install(A, script.manifold(())).await?;
    engine.install(B, add_one(A)).await?;
    engine.provide(C, 1).await?;
    engine.settled().await?;

    let report = engine.report().await;

    let text = "/agent running, 3 workers\n  a  missing: a lease\n  b  waiting, a is missing\n  \
                c  running\n";
    assert_eq!(report.to_string(), text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_report_has_the_inputs_and_which_were_there_at_the_last_start() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.install(C, Script::new().manifold((A, B.optional()))).await?;
    engine.running(C).await?;

    let report = engine.report().await;

    let inputs = serde_json::to_value(&report.workers["c"].inputs)?;
    let expected = serde_json::json!([
        {"name": "a", "need": "required", "output": "u32", "state": "running", "was_present": true},
        {"name": "b", "need": "optional", "output": "u32", "state": "absent", "was_present": false},
    ]);
    assert_eq!(inputs, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_report_has_which_of_very_many_inputs_were_there() -> TestResult {
    let engine = test_engine().build()?;
    let names = (0..70).map(|number| Name::<u32>::parse(&format!("input-{number}")));
    let names = names.collect::<Result<Vec<_>, NameError>>()?;
    let is_there = |number: &usize| number.is_multiple_of(3);
    for number in (0..names.len()).filter(is_there) {
        engine.provide(names[number].clone(), 1).await?;
    }
    let inputs: Vec<_> = names.iter().map(Name::optional).collect();
    engine.install(C, Script::new().manifold(inputs)).await?;
    engine.running(C).await?;

    let report = engine.report().await;

    let inputs = report.workers["c"].inputs.iter().enumerate();
    let there = inputs.filter(|(_, input)| input.was_present).map(|(number, _)| number);
    assert!(there.eq((0..names.len()).filter(is_there)), "{report:?}");

    // One that has fewer inputs is started in its place, and one that waits for another.
    engine.replace(C, Script::new().manifold(names[0].optional())).await?;
    engine.running(C).await?;
    let waiting = (names.iter().map(Name::optional).collect::<Vec<_>>(), B);
    engine.replace(C, Script::new().manifold(waiting)).await?;
    let report = engine.report().await;

    let inputs = report.workers["c"].inputs.iter().enumerate();
    let there = inputs.filter(|(_, input)| input.was_present).map(|(number, _)| number);
    assert!(there.eq([0]), "{report:?}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_report_tells_the_inputs_of_a_new_manifold_from_those_of_the_last_worker() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.install(C, Script::new().manifold(A)).await?;
    engine.running(C).await?;

    engine.replace(C, Script::new().manifold((B, A))).await?;
    let report = engine.report().await;

    let inputs = report.workers["c"].inputs.iter();
    let there: Vec<_> = inputs.map(|input| (&*input.name, input.was_present)).collect();
    assert_eq!(there, [("b", false), ("a", true)]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_generations_of_a_new_name_begin_anew() -> TestResult {
    let engine = test_engine().build()?;
    engine.provide(A, 1).await?;
    engine.running(A).await?;
    engine.bounce(A).await?;
    engine.running(A).await?;
    engine.uninstall(A).await?;
    engine.settled().await?;
    let mut events = EventRecorder::new(&engine);

    engine.install(B, Script::new().manifold(C.optional())).await?;
    let before = engine.report().await.workers["b"].generation;
    engine.running(B).await?;

    assert_eq!((before, engine.report().await.workers["b"].generation), (1, 1));
    clean_kill(engine).await?;
    events.finish().await?;
    let is_first = |kind: &EventKind| *kind == EventKind::Started { generation: 1 };
    assert!(events.seen().iter().any(|event| is_first(&event.kind)), "{events:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_report_says_until_when_a_worker_backs_off() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.fail_start(Exit::failed("no luck"));
    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;

    let report = engine.report().await;

    let until = report.workers["a"].until.ok_or("no time")?;
    assert_eq!(until.0.duration_since(report.at.0)?, Duration::from_secs(1));
    Ok(clean_kill(engine).await?)
}

/// Returns what a report says of a worker: its state, and the number of the last event that has changed it.
async fn last_change(engine: &Engine, name: &str) -> (WorkerState, Option<u64>) {
    let report = engine.report().await;
    let worker = &report.workers[name];
    (worker.state, worker.last_event)
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_without_a_start_is_an_event() -> TestResult {
    let policy = with_bounce_delay(Duration::from_secs(1));
    let engine = test_engine().policy(policy).build()?;
    let mut events = EventRecorder::new(&engine);
    engine.provide(A, 1).await?;
    engine.install(B, add_one(A)).await?;
    engine.running(B).await?;

    engine.bounce(B).await?;
    let is_delay = |kind: &EventKind| matches!(kind, EventKind::Waiting { .. });
    let delay = events.wait_for_kind("/b", is_delay).await?;
    engine.park(A).await?;
    assert_eq!(last_change(&engine, "b").await, (WorkerState::Delayed, Some(delay.sequence)));
    let over = events.wait_for_kind("/b", |kind| *kind == EventKind::AwaitsInputs).await?;

    assert_eq!(
        (over.kind.to_string(), over.cause),
        ("waits for its inputs".to_owned(), Some(delay.sequence))
    );
    assert_eq!(last_change(&engine, "b").await, (WorkerState::Waiting, Some(over.sequence)));
    // A delay that ends with a start has that event alone.
    engine.unpark(A).await?;
    engine.running(B).await?;
    engine.bounce(B).await?;
    engine.running(B).await?;
    clean_kill(engine).await?;
    events.finish().await?;
    let waits = events.seen().iter().filter(|event| event.kind == EventKind::AwaitsInputs);
    assert_eq!(waits.count(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_changes_with_its_inputs() -> TestResult {
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(C, Script::new().manifold((A, B.optional(), Name::<u32>::new("d")))).await?;
    let installed = events.wait_for_kind("/c", |kind| *kind == EventKind::Installed).await?;
    engine.settled().await?;
    assert_eq!(last_change(&engine, "c").await, (WorkerState::Waiting, Some(installed.sequence)));

    let script = Script::new();
    script.fail_start(Exit::failed("not yet"));
    engine.install(A, script.offering((1_u32,), ())).await?;
    for wanted in ["waits", "started"] {
        let is_wanted = |kind: &EventKind| kind.to_string().starts_with(wanted);
        let event = events.wait_for_kind("/a", is_wanted).await?;
        let (state, last) = last_change(&engine, "c").await;
        assert_eq!((state, last), (WorkerState::Waiting, Some(event.sequence)), "{wanted}");
    }
    Ok(clean_kill(engine).await?)
}

/// Runs a chain of three, whose last one is a script's and does not stop when it is told to.
async fn run_chain(engine: &Engine, script: &Script) -> TestResult {
    engine.install(A, Script::new().offering((1_u32,), ())).await?;
    engine.install(B, add_one(A)).await?;
    engine.install(C, script.manifold(B)).await?;
    engine.running(C).await?;
    script.ignore_stop();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_closes_changed_with_what_makes_it_close() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let mut events = EventRecorder::new(&engine);
    run_chain(&engine, &script).await?;

    let bounce = engine.bounce(A);
    let bounced = events.wait_for_kind("/a", |kind| *kind == EventKind::Bounced).await?;
    for name in ["a", "b"] {
        let (state, last) = last_change(&engine, name).await;
        assert_eq!((state, last), (WorkerState::Closing, Some(bounced.sequence)), "{name}");
    }
    script.release();
    bounce.await?;

    engine.running(C).await?;
    script.ignore_stop();
    engine.kill();
    let killed = events.wait_for(|event| event.kind == EventKind::Killed).await?;
    for name in ["a", "b"] {
        let (state, last) = last_change(&engine, name).await;
        assert_eq!((state, last), (WorkerState::Closing, Some(killed.sequence)), "{name}");
    }
    script.release();
    stop_all(&engine).await
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_since_what_makes_its_input_close() -> TestResult {
    let (engine, script, failing) = (test_engine().build()?, Script::new(), Script::new());
    let mut events = EventRecorder::new(&engine);
    run_chain(&engine, &script).await?;
    failing.fail_start(Exit::failed("not yet"));
    let late = Name::<()>::new("late");
    engine.install(late, failing.manifold(B)).await?;
    let waits = |kind: &EventKind| matches!(kind, EventKind::Waiting { .. });
    events.wait_for_kind("/late", waits).await?;
    assert_eq!(last_change(&engine, "late").await.0, WorkerState::BackingOff);

    let bounce = engine.bounce(A);

    let bounced = events.wait_for_kind("/a", |kind| *kind == EventKind::Bounced).await?;
    let (state, last) = last_change(&engine, "late").await;
    assert_eq!((state, last), (WorkerState::Waiting, Some(bounced.sequence)));
    script.release();
    bounce.await?;
    stop_all(&engine).await
}
