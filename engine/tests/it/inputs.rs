//! How a worker is started with its inputs, and what their changes do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    ChangeError, Engine, EngineInput, Exit, Latest, Manifold, Name, WorkerState,
};
use crankcase_testing::{Journal, Script, clean_kill, test_engine, wait_for_state};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{A, B, C, TestResult, state};

#[tokio::test(start_paused = true)]
async fn a_start_is_not_called_without_its_required_input() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());

    engine.install(B, journal.manifold(A)).await?;
    engine.settled().await?;

    assert_eq!(journal.starts("b"), 0);
    assert_eq!(state(&engine, "b").await, WorkerState::Waiting);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_optional_input_that_is_absent_is_none() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());

    engine.install(B, journal.manifold(A.optional())).await?;
    engine.running(B).await?;

    assert_eq!(journal.lines(), ["start b None"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_coming_and_the_going_of_an_optional_input_bounce_the_worker() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(B, journal.manifold(A.optional())).await?;
    engine.running(B).await?;
    journal.take();

    engine.provide(A, 5).await?;
    engine.settled().await?;
    engine.uninstall(A).await?;
    engine.settled().await?;

    let expected = ["stop b", "end b", "start b Some(5)", "stop b", "end b", "start b None"];
    assert_eq!(journal.lines(), expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_an_optional_input_that_is_coming() -> TestResult {
    let (engine, journal, slow) = (test_engine().build()?, Journal::new(), Script::new());
    slow.hold_start();
    engine.install(A, slow.manifold(())).await?;
    engine.install(B, journal.manifold(A.optional())).await?;
    slow.held().await?;
    assert_eq!(journal.starts("b"), 0);

    slow.release();
    engine.running(B).await?;

    assert_eq!(journal.lines(), ["start b Some(1)"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_start_does_not_wait_for_an_optional_input_that_failed() -> TestResult {
    let (engine, journal, script) = (test_engine().build()?, Journal::new(), Script::new());
    script.fail_start(Exit::failed("no luck"));
    engine.install(A, script.manifold(())).await?;
    wait_for_state(&engine, "a", WorkerState::BackingOff).await?;
    let began = Instant::now();

    engine.install(B, journal.manifold(A.optional())).await?;
    engine.running(B).await?;

    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(journal.lines(), ["start b None"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_hung_optional_start_holds_a_worker_for_its_start_timeout() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.hold_start();
    let hung = script.manifold(()).start_timeout(Duration::from_secs(7));
    engine.install(A, hung).await?;
    let began = Instant::now();

    engine.install(B, Script::new().manifold(A.optional())).await?;
    engine.running(B).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(7));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_absent_input_has_its_default() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());

    engine.install(B, journal.manifold(A.optional().or(8))).await?;
    engine.running(B).await?;

    assert_eq!(journal.lines(), ["start b 8"]);
    Ok(clean_kill(engine).await?)
}

/// Returns a manifold that notes the values of a live input.
fn follower(journal: &Journal) -> Manifold {
    let journal = journal.clone();
    Manifold::builder().inputs(A.live()).offers::<(u32,)>().run(move |mut live, up| {
        let journal = journal.clone();
        async move {
            journal.note(format!("begins with {:?}", live.get()));
            let stop = up.ready((0,));
            loop {
                tokio::select! {
                    biased;
                    () = stop.wait() => return Ok(()),
                    value = live.changed() => journal.note(format!("sees {:?}", value?)),
                }
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_live_input_is_followed_without_a_bounce() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(B, follower(&journal)).await?;
    engine.running(B).await?;

    engine.provide(A, 1).await?;
    engine.settled().await?;
    engine.provide(A, 2).await?;
    engine.settled().await?;

    let lines = ["begins with None", "sees Some(1)", "sees None", "sees Some(2)"];
    assert_eq!(journal.lines(), lines);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_required_live_input_delays_the_start_until_its_first_value() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(KEEPER, keeper(&journal)).await?;
    engine.settled().await?;
    assert_eq!(journal.lines(), [""; 0]);

    engine.provide(A, 3).await?;
    engine.running(KEEPER).await?;

    assert_eq!(journal.lines(), ["begins with 3"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_required_live_input_keeps_its_last_value_while_there_is_none() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(A, 1).await?;
    engine.install(KEEPER, keeper(&journal)).await?;
    let latest = engine.output(KEEPER).await?;

    engine.uninstall(A).await?;
    engine.settled().await?;
    assert_eq!(latest.get(), 1);

    engine.provide(A, 2).await?;
    engine.settled().await?;

    assert_eq!(latest.get(), 2);
    assert_eq!(journal.lines(), ["begins with 1", "sees 2"]);
    Ok(clean_kill(engine).await?)
}

const KEEPER: Name<Latest<u32>> = Name::new("keeper");

/// Returns a manifold that notes the values of a live input that is required, and offers it.
fn keeper(journal: &Journal) -> Manifold {
    let journal = journal.clone();
    let builder = Manifold::builder().inputs(A.live().required()).offers::<(Latest<u32>,)>();
    builder.run(move |mut latest, up| {
        let journal = journal.clone();
        async move {
            journal.note(format!("begins with {}", latest.get()));
            let stop = up.ready((latest.clone(),));
            loop {
                tokio::select! {
                    biased;
                    () = stop.wait() => return Ok(()),
                    value = latest.changed() => journal.note(format!("sees {}", value?)),
                }
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_worker_stops_after_the_live_users_of_its_output() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let slow = Script::new().recorded_in(&journal);
    slow.stop_after(Duration::from_secs(5));
    engine.install(A, journal.manifold(())).await?;
    engine.install(B, slow.manifold(A.live())).await?;
    engine.settled().await?;

    clean_kill(engine).await?;

    assert_eq!(journal.stops(), ["b", "a"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_vector_of_inputs_is_made_at_run_time() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let names = [1, 2, 3].map(|index| Name::<u32>::parse(&format!("disk-{index}")));
    let names = names.into_iter().collect::<Result<Vec<_>, _>>()?;

    engine.install(B, journal.manifold(names.clone())).await?;
    for (index, name) in names.into_iter().enumerate() {
        engine.provide(name, u32::try_from(index)?).await?;
    }
    engine.running(B).await?;

    assert_eq!(journal.lines(), ["start b [0, 1, 2]"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_map_of_inputs_keeps_its_aliases() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let inputs = BTreeMap::from([("left", A.optional()), ("right", B.optional())]);
    engine.provide(B, 4).await?;
    engine.settled().await?;

    engine.install(C, journal.manifold(inputs)).await?;
    engine.running(C).await?;

    assert_eq!(journal.lines(), [r#"start c {"left": None, "right": Some(4)}"#]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn one_manifold_can_be_installed_twice() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let manifold = journal.manifold(A);
    engine.provide(A, 1).await?;

    engine.install(B, manifold.clone()).await?;
    engine.install(C, manifold).await?;
    engine.running(B).await?;
    engine.running(C).await?;

    assert_eq!((journal.starts("b"), journal.starts("c")), (1, 1));
    Ok(clean_kill(engine).await?)
}

/// Returns a manifold that does something with the engine, and offers what came of it.
fn asker<F>(ask: impl Fn(Engine) -> F + Send + Sync + 'static) -> Manifold
where
    F: Future<Output = Result<(), ChangeError>> + Send,
{
    let ask = Arc::new(ask);
    Manifold::builder().inputs((EngineInput, A.optional())).offers::<(String,)>().run(
        move |(engine, _), up| {
            let ask = Arc::clone(&ask);
            async move {
                let answer = match ask(engine).await {
                    Ok(()) => "done".to_owned(),
                    Err(error) => error.to_string(),
                };
                up.ready((answer,)).wait().await;
                Ok(())
            }
        },
    )
}

const ASKER: Name<String> = Name::new("asker");

#[tokio::test(start_paused = true)]
async fn a_worker_can_install_others() -> TestResult {
    let engine = test_engine().build()?;
    let child = |engine: Engine| async move { engine.install(B, Script::new().manifold(())).await };

    engine.install(ASKER, asker(child)).await?;

    assert_eq!(engine.output(ASKER).await?, "done");
    engine.running(B).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_would_wait_for_its_own_end_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let own_end = |engine: Engine| async move { engine.uninstall(ASKER).await };

    engine.install(ASKER, asker(own_end)).await?;

    let text = "cannot uninstall manifold \"asker\": \"asker\" asks for it and would wait for its \
                own end";
    assert_eq!(engine.output(ASKER).await?, text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_would_bounce_its_own_input_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let own_input = |engine: Engine| async move { engine.bounce(A).await };
    engine.provide(A, 1).await?;
    engine.running(A).await?;

    engine.install(ASKER, asker(own_input)).await?;

    let text = "cannot bounce manifold \"a\": \"asker\" asks for it and would wait for its own end";
    assert_eq!(engine.output(ASKER).await?, text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_replaced_worker_that_would_bounce_what_it_still_holds_is_refused() -> TestResult {
    let (engine, said) = (test_engine().build()?, Arc::new(Mutex::new(None)));
    let says = Arc::clone(&said);
    let replaced = Manifold::builder().inputs((EngineInput, A)).offers::<(String,)>().run_with(
        says,
        |says, (engine, _), up| async move {
            up.ready((String::new(),)).wait().await;
            let bounced = engine.bounce(A).await;
            *says.lock() = bounced.err().map(|error| error.to_string());
            Ok(())
        },
    );
    engine.provide(A, 1).await?;
    engine.install(ASKER, replaced).await?;
    engine.running(ASKER).await?;

    let new = |_| std::future::ready(Ok(()));
    engine.replace(ASKER, asker(new)).await?;

    let text = "cannot bounce manifold \"a\": \"asker\" asks for it and would wait for its own end";
    assert_eq!(said.lock().as_deref(), Some(text));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_would_wait_for_its_engines_end_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let waits = Manifold::builder().inputs(EngineInput).offers::<(String,)>().run(
        |engine, up| async move {
            let waited = engine.wait().await;
            let text = waited.err().map(|error| error.to_string()).unwrap_or_default();
            up.ready((text,)).wait().await;
            Ok(())
        },
    );

    engine.install(ASKER, waits).await?;

    assert_eq!(engine.output(ASKER).await?, "worker /asker would wait for its own end");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_handle_in_a_worker_keeps_no_engine_alive() -> TestResult {
    let engine = test_engine().build()?;
    let look = |engine: Engine| async move {
        engine.report().await;
        Ok(())
    };
    engine.install(ASKER, asker(look)).await?;
    engine.running(ASKER).await?;

    clean_kill(engine).await?;

    Ok(())
}
