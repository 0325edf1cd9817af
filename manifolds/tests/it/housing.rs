//! What is put around manifolds.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crankcase_engine::{
    ChangeError, EndKind, Engine, EventKind, Exit, Manifold, Name, WorkerState,
};
use crankcase_manifolds::{Housing, flag, fortress, gate};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};
use crankcase_workers::{Flag, Fortress, FortressError, Gate, Guest, Unlocker, ValueHandle};
use tokio::time::sleep;

type TestResult = Result<(), Box<dyn std::error::Error>>;

const UPGRADED: Name<Flag> = Name::new("upgraded");
const MIGRATED: Name<Flag> = Name::new("migrated");
const FORTRESS: Name<Guest> = Name::new("fortress");
const STORE: Name<u32> = Name::new("store");
const WEB: Name<u32> = Name::new("web");

fn flags() -> (ValueHandle<Flag>, ValueHandle<Flag>) {
    (ValueHandle::new(Flag::UNSET), ValueHandle::new(Flag::UNSET))
}

async fn why(engine: &Engine, name: &str) -> Option<String> {
    engine.why(name).await.map(|why| why.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_worker_runs_only_while_all_its_flags_are_set() -> TestResult {
    let (engine, journal, (upgraded, migrated)) = (test_engine().build()?, Journal::new(), flags());
    let housing = Housing::default().flags(vec![UPGRADED, MIGRATED]);
    engine.install(UPGRADED, flag::shared(upgraded.clone())).await?;
    engine.install(MIGRATED, flag::shared(migrated.clone())).await?;
    engine.install(WEB, housing.decorate(journal.manifold(()))).await?;
    wait_for_state(&engine, "web", WorkerState::Missing).await?;
    let both = why(&engine, "web").await;
    upgraded.set(Flag::SET);
    sleep(Duration::from_secs(1)).await;
    let one = why(&engine, "web").await;
    assert_eq!(journal.lines(), [""; 0]);

    migrated.set(Flag::SET);
    engine.running(WEB).await?;
    upgraded.set(Flag::UNSET);
    wait_for_state(&engine, "web", WorkerState::Missing).await?;

    let text = "/web misses something: flags \"upgraded\", \"migrated\" are not set";
    assert_eq!(both.as_deref(), Some(text));
    assert_eq!(one.as_deref(), Some("/web misses something: flag \"migrated\" is not set"));
    assert_eq!(journal.lines(), ["start web", "stop web", "end web"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_lockdown_stops_who_occupies_and_who_depends_on_them_first() -> TestResult {
    let (engine, journal, fortress) = (test_engine().build()?, Journal::new(), Fortress::new());
    let housing = Housing::default().occupy(FORTRESS);
    let slow = Script::new().recorded_in(&journal);
    slow.stop_after(Duration::from_secs(20));
    engine.install(FORTRESS, fortress::shared(fortress.clone())).await?;
    engine.install(STORE, housing.decorate(slow.manifold(()))).await?;
    engine.install(WEB, journal.manifold(STORE)).await?;
    wait_for_state(&engine, "store", WorkerState::Missing).await?;
    let locked = why(&engine, "web").await;

    fortress.guard().unlock();
    engine.running(WEB).await?;
    assert_eq!(fortress.guests(), 1);
    fortress.guard().lockdown().await?;
    let at_lockdown = journal.take();
    wait_for_state(&engine, "store", WorkerState::Missing).await?;
    fortress.guard().unlock();
    engine.running(WEB).await?;

    let text = "/web waits for /store, which misses something: fortress \"fortress\" is locked";
    assert_eq!(locked.as_deref(), Some(text));
    let lines = ["start store", "start web 2", "stop web", "end web", "stop store", "end store"];
    assert_eq!(at_lockdown, lines);
    Ok(clean_kill(engine).await?)
}

/// Unlocks a fortress when it is dropped.
struct Unlocking(Fortress);

impl Drop for Unlocking {
    fn drop(&mut self) {
        self.0.guard().unlock();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lockdown_too_short_to_be_seen_keeps_nobody_out() -> TestResult {
    let (engine, journal, fortress) = (test_engine().build()?, Journal::new(), Fortress::new());
    let housing = Housing::default().occupy(FORTRESS);
    fortress.guard().unlock();
    // It locks the fortress for as long as the first worker asks to come in.
    let (locked, asked) = (fortress.clone(), journal.clone());
    let short = move |(), _ctx: &_| {
        let is_first = asked.lines().is_empty();
        asked.note("ask");
        if is_first {
            let guard = locked.guard();
            let mut lockdown = std::pin::pin!(guard.lockdown());
            let polled = lockdown.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled, Poll::Ready(Ok(())));
        }
        Ok::<_, Exit>(is_first.then(|| Unlocking(locked.clone())))
    };
    engine.install(FORTRESS, fortress::shared(fortress.clone())).await?;

    let housed = housing.decorate(journal.manifold(()));
    engine.install(WEB, housed.admitted((), short)).await?;
    engine.running(WEB).await?;

    assert_eq!(journal.lines(), ["ask", "ask", "start web"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_shared_fortress_outlives_its_worker_and_another_does_not() -> TestResult {
    let (engine, journal, fortress) = (test_engine().build()?, Journal::new(), Fortress::new());
    let housing = Housing::default().occupy(FORTRESS);
    engine.install(FORTRESS, fortress::shared(fortress.clone())).await?;
    engine.install(WEB, housing.decorate(journal.manifold(()))).await?;
    fortress.guard().unlock();
    engine.running(WEB).await?;

    engine.bounce(FORTRESS).await?;
    engine.running(WEB).await?;
    assert_eq!(fortress.guests(), 1);
    engine.replace(FORTRESS, fortress::manifold()).await?;
    let guest = engine.output(FORTRESS).await?;
    engine.bounce(FORTRESS).await?;

    assert_eq!(guest.visit().await.err(), Some(FortressError::Ended));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_filter_comes_after_the_manifolds_own() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    let housing = Housing::default().filter(Arc::new(|exit| match exit.to_string().as_str() {
        "the token is old, says the store" => Err(Exit::Bounce),
        _ => Err(exit),
    }));
    let own = script.manifold(()).filter(|exit| Err(format!("{exit}, says the store").into()));
    engine.install(WEB, housing.decorate(own)).await?;
    let mut events = EventRecorder::new(&engine);

    script.end(Err("the token is old".into()));
    let ended = |kind: &EventKind| matches!(kind, EventKind::Ended { .. });
    let event = events.wait_for_kind("/web", ended).await?;

    assert!(matches!(event.kind, EventKind::Ended { end: EndKind::Bounce, .. }), "{event}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn housings_nest_in_any_order_and_leave_the_manifold_alone() -> TestResult {
    const PLAIN: Name<u32> = Name::new("plain");
    let flags = Housing::default().flags(vec![UPGRADED]);
    let both = Housing::default().flags(vec![UPGRADED]).occupy(FORTRESS);
    let orders: [fn(&Housing, &Housing, Manifold) -> Manifold; 3] = [
        |flags, both, inner| flags.decorate(both.decorate(inner)),
        |flags, both, inner| both.decorate(flags.decorate(inner)),
        |_, both, inner| both.decorate(both.decorate(inner)),
    ];
    for decorate in orders {
        let (engine, journal, fortress) = (test_engine().build()?, Journal::new(), Fortress::new());
        let upgraded = ValueHandle::new(Flag::UNSET);
        // The manifold asks for the fortress and the flag itself, each in its own way.
        let inner = journal.manifold((FORTRESS.optional(), UPGRADED.live()));
        engine.install(FORTRESS, fortress::shared(fortress.clone())).await?;
        engine.install(UPGRADED, flag::shared(upgraded.clone())).await?;

        engine.install(WEB, decorate(&flags, &both, inner.clone())).await?;
        engine.install(PLAIN, inner).await?;
        engine.running(PLAIN).await?;
        wait_for_state(&engine, "web", WorkerState::Missing).await?;
        upgraded.set(Flag::SET);
        sleep(Duration::from_secs(1)).await;
        assert_eq!((journal.starts("web"), journal.starts("plain")), (0, 1));
        fortress.guard().unlock();
        engine.running(WEB).await?;

        let report = engine.report().await;
        let names = |worker: &str| -> Vec<_> {
            report.workers[worker].inputs.iter().map(|input| (&*input.name, input.need)).collect()
        };
        assert_eq!(names("plain"), [("fortress", "optional"), ("upgraded", "live")]);
        let housed = [("fortress", "required"), ("upgraded", "required"), ("fortress", "required")];
        assert_eq!(names("web"), housed);
        assert!(fortress.guests() > 0);
        clean_kill(engine).await?;
        assert_eq!(fortress.guests(), 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_gate_lets_a_housed_worker_start_once_it_is_unlocked() -> TestResult {
    const GATE: Name<Gate> = Name::new("gate");
    let housing = Housing::default().flags(vec![GATE.output::<Flag>()]);
    for is_shared in [false, true] {
        let (engine, journal) = (test_engine().build()?, Journal::new());
        let gate = if is_shared { gate::shared(Gate::new()) } else { gate::manifold() };
        engine.install(GATE, gate).await?;
        engine.install(WEB, housing.decorate(journal.manifold(()))).await?;
        wait_for_state(&engine, "web", WorkerState::Missing).await?;

        engine.output(GATE.output::<Unlocker>()).await?.unlock();
        engine.running(WEB).await?;
        engine.bounce(GATE).await?;
        engine.settled().await?;

        // A gate of its own is locked again; a shared one is not.
        let starts = if is_shared { 2 } else { 1 };
        assert_eq!(journal.starts("web"), starts);
        clean_kill(engine).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fortress_that_does_not_show_its_state_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let housing = Housing::default().occupy(FORTRESS);
    engine.provide(FORTRESS, Fortress::new().guest()).await?;

    let refused = engine.install(WEB, housing.decorate(Journal::new().manifold(()))).await;

    let Err(error @ ChangeError::InputMismatch { .. }) = refused else {
        return Err(format!("{refused:?}").into());
    };
    assert!(error.to_string().contains("FortressState"), "{error}");
    Ok(clean_kill(engine).await?)
}
