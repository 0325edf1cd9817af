//! A worker that owns others.

use std::time::Duration;

use crankcase_engine::owner::{self, Linger};
use crankcase_engine::{Exit, Manifold, Name, Outcome, Stop, Worker};
use crankcase_testing::{Bare, Journal, clean_kill, dirty_kill, test_engine};
use crankcase_workers::{Catacomb, CatacombConfig, CatacombEnded, CatacombHandle};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::asking::Asking;
use crate::events::Events;
use crate::gone::Gone;
use crate::owning::check_held;
use crate::running::{TestResult, guarded};

fn catacomb() -> (Catacomb, CatacombHandle) {
    let catacomb = Catacomb::new(CatacombConfig::default());
    let children = catacomb.handle();
    (catacomb, children)
}

/// A child that writes what it does, and runs until it is told to stop.
struct Idle(Journal, &'static str);

impl Worker for Idle {
    async fn run(self, stop: Stop) -> Outcome {
        let Self(journal, name) = &self;
        journal.note(format!("run {name}"));
        stop.wait().await;
        journal.note(format!("stop {name}"));
        Ok(())
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.note(format!("drop {}", self.1));
    }
}

/// A child that goes on when it is told to stop.
fn deaf(_stop: Stop) -> impl Future<Output = Outcome> + Send {
    std::future::pending()
}

#[tokio::test(start_paused = true)]
async fn children_begin_at_once_and_stop_with_it() -> TestResult {
    let ((catacomb, children), journal) = (catacomb(), Journal::new());
    children.add("early", Idle(journal.clone(), "early"))?;
    let running = Bare::run(catacomb);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(journal.take(), ["run early"]);

    clean_kill(running).await?;

    assert_eq!(journal.lines(), ["stop early", "drop early"]);
    assert_eq!(children.count(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_first_error_stops_all_and_is_what_it_ends_with() -> TestResult {
    let ((catacomb, children), journal) = (catacomb(), Journal::new());
    children.add("idle", Idle(journal.clone(), "idle"))?;
    children.spawn("first", async |_stop| Err("the first".into()))?;
    children.spawn("later", async |stop: Stop| {
        stop.wait().await;
        Err("a later one".into())
    })?;

    let ended = Bare::run(catacomb).ended().await?;

    assert_eq!(ended.unwrap_err().to_string(), "the first");
    assert_eq!(journal.lines(), ["run idle", "stop idle", "drop idle"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_exit_of_a_child_is_the_catacombs() -> TestResult {
    let (catacomb, children) = catacomb();
    children.spawn("child", async |_stop| Err(Exit::Bounce))?;

    let ended = Bare::run(catacomb).ended().await?;

    assert!(matches!(ended, Err(Exit::Bounce)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_error_while_it_stops_is_its_error() -> TestResult {
    let (catacomb, children) = catacomb();
    children.spawn("child", async |stop: Stop| {
        stop.wait().await;
        Err("it could not save".into())
    })?;

    let exit = dirty_kill(Bare::run(catacomb)).await?;

    assert_eq!(exit.to_string(), "it could not save");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_child_is_a_failure_with_its_message() -> TestResult {
    struct Falls;
    impl Drop for Falls {
        fn drop(&mut self) {
            panic!("in its drop");
        }
    }
    let in_run: fn() -> Outcome = || panic!("in its run");
    let in_drop: fn() -> Outcome = || {
        let _falls = Falls;
        Ok(())
    };
    for (fall, expected) in [(in_run, "panicked: in its run"), (in_drop, "panicked: in its drop")] {
        let (catacomb, children) = catacomb();
        children.spawn("child", async move |_stop| fall())?;

        let exit = Bare::run(catacomb).ended().await?.unwrap_err();

        assert!(exit.is_panic());
        assert_eq!(exit.to_string(), expected);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn it_outlives_children_that_end_well_and_keeps_nothing_of_them() -> TestResult {
    let (catacomb, children) = catacomb();
    let mut running = Bare::run(catacomb);
    for _ in 0..1000 {
        children.spawn("short", async |_stop| Ok(()))?;
    }
    tokio::select! {
        biased;
        _ = running.ended() => return Err("it has ended".into()),
        () = sleep(Duration::from_secs(1)) => {}
    }

    assert_eq!(children.count(), 0);
    assert!(children.report().children.is_empty());
    Ok(clean_kill(running).await?)
}

#[tokio::test(start_paused = true)]
async fn a_child_may_add_others_and_end_the_catacomb() -> TestResult {
    let ((catacomb, children), journal) = (catacomb(), Journal::new());
    let inner = (children.clone(), journal.clone());
    children.spawn("main", async move |_stop| {
        let (children, journal) = inner;
        children.add("grandchild", Idle(journal, "grandchild"))?;
        sleep(Duration::from_secs(1)).await;
        children.kill();
        Ok(())
    })?;

    assert!(Bare::run(catacomb).ended().await?.is_ok());

    assert_eq!(journal.lines(), ["run grandchild", "stop grandchild", "drop grandchild"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_child_that_comes_while_it_stops_is_told_at_once_and_awaited() -> TestResult {
    let ((catacomb, children), journal) = (catacomb(), Journal::new());
    let inner = (children.clone(), journal.clone());
    children.spawn("slow", async move |stop: Stop| {
        let (children, journal) = inner;
        stop.wait().await;
        let late = journal.clone();
        children.spawn("late", async move |stop: Stop| {
            late.note(format!("late is told: {}", stop.is_stopped()));
            sleep(Duration::from_secs(5)).await;
            late.note("late has ended");
            Ok(())
        })?;
        Ok(())
    })?;
    let running = Bare::run(catacomb);
    sleep(Duration::from_secs(1)).await;

    clean_kill(running).await?;

    assert_eq!(journal.lines(), ["late is told: true", "late has ended"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_child_that_comes_when_the_grace_is_over_is_taken_and_not_run() -> TestResult {
    let ((catacomb, children), journal) = (catacomb(), Journal::new());
    let (sender, mut held) = mpsc::unbounded_channel();
    add_lingering(&children, sender)?;
    let running = Bare::run(catacomb);
    let linger = held.recv().await;

    let (killed, (before, after)) = tokio::join!(dirty_kill(running), async {
        sleep(Duration::from_millis(19_500)).await;
        let before = children.spawn("before", async |_stop| Ok(()));
        sleep(Duration::from_secs(1)).await;
        (before, children.add("after", Idle(journal.clone(), "after")))
    });

    killed?;
    assert_eq!((before, after), (Ok(()), Err(CatacombEnded)));
    assert_eq!(journal.lines(), ["drop after"]);
    drop(linger);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_child_that_comes_when_it_has_ended_is_taken_and_not_run() -> TestResult {
    let ((catacomb, children), journal) = (catacomb(), Journal::new());
    clean_kill(Bare::run(catacomb)).await?;

    assert_eq!(children.add("late", Idle(journal.clone(), "late")), Err(CatacombEnded));

    assert_eq!(journal.lines(), ["drop late"]);
    assert!(children.is_stopping());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_stop_is_dropped_after_the_grace() -> TestResult {
    let (catacomb, children) = catacomb();
    children.spawn("deaf", deaf)?;
    let running = Bare::run(catacomb);
    let began = Instant::now();

    clean_kill(running).await?;

    assert_eq!(began.elapsed(), Duration::from_secs(20));
    assert_eq!(children.count(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn children_that_do_not_stop_are_dropped_in_the_order_in_which_they_came() -> TestResult {
    struct Noting(Journal, usize);
    impl Drop for Noting {
        fn drop(&mut self) {
            self.0.note(self.1.to_string());
        }
    }
    let ((catacomb, children), journal) = (catacomb(), Journal::new());
    for number in 0..20 {
        let noting = Noting(journal.clone(), number);
        children.spawn(&format!("deaf-{number}"), move |stop| async move {
            let _noting = noting;
            deaf(stop).await
        })?;
    }

    clean_kill(Bare::run(catacomb)).await?;

    let expected: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(journal.lines(), expected);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn its_children_are_dropped_with_it() -> TestResult {
    for is_run in [false, true] {
        let ((catacomb, children), journal) = (catacomb(), Journal::new());
        children.add("idle", Idle(journal.clone(), "idle"))?;
        children.spawn("deaf", deaf)?;
        if is_run {
            let running = Bare::run(catacomb);
            sleep(Duration::from_secs(1)).await;
            drop(running);
        } else {
            drop(catacomb);
        }
        sleep(Duration::from_secs(1)).await;

        assert_eq!(journal.lines().last().map(String::as_str), Some("drop idle"));
        assert_eq!(children.count(), 0);
        assert_eq!(children.spawn("late", deaf), Err(CatacombEnded));
    }
    Ok(())
}

/// Adds a child that lingers until what it sends is dropped.
fn add_lingering(children: &CatacombHandle, held: mpsc::UnboundedSender<Linger>) -> TestResult {
    children.spawn("stubborn", async move |stop: Stop| {
        held.send(stop.linger())?;
        deaf(stop).await
    })?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_child_that_ends_neither_way_is_named() -> TestResult {
    let (catacomb, children) = catacomb();
    let (sender, mut held) = mpsc::unbounded_channel();
    add_lingering(&children, sender)?;
    let running = Bare::run(catacomb);
    let linger = held.recv().await;
    let began = Instant::now();

    let exit = dirty_kill(running).await?;

    assert_eq!(exit.to_string(), "children were left behind: \"stubborn\"");
    assert_eq!(began.elapsed(), Duration::from_secs(21));
    assert_eq!(children.count(), 1);
    drop(linger);
    assert_eq!(children.count(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_stopped_half_way_has_not_ended_before_its_children_are_gone() -> TestResult
{
    const OWNER: Name<()> = Name::new("owner");
    let (sender, mut held) = mpsc::unbounded_channel();
    let owner = Manifold::builder().start_with(sender, |sender, (), ctx| async move {
        let catacomb = Catacomb::new_for(ctx.stop(), CatacombConfig::default());
        add_lingering(&catacomb.handle(), sender).map_err(|error| error.to_string())?;
        std::future::pending::<()>().await;
        Ok(catacomb)
    });
    let engine = test_engine().build()?;
    engine.install(OWNER, owner.build()).await?;
    check_held(&engine, &OWNER, &mut held).await?;

    assert!(held.recv().await.is_some(), "the next begins then");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn children_hold_the_worker_it_was_made_for_and_the_one_it_runs_as() -> TestResult {
    let ((_, made_for), (_, runs_as)) = (Stop::pair(), Stop::pair());
    let catacomb = Catacomb::new_for(&made_for, CatacombConfig::default());
    let (sender, mut held) = mpsc::unbounded_channel();
    add_lingering(&catacomb.handle(), sender)?;
    let linger = tokio::select! {
        biased;
        _ = catacomb.run(runs_as.clone()) => return Err("it has ended".into()),
        linger = held.recv() => linger,
    };
    let gone = [&made_for, &runs_as].map(Gone::of);
    sleep(Duration::from_secs(1)).await;

    let before = gone.each_ref().map(Gone::is_gone);
    drop(linger);

    assert_eq!(before, [false; 2]);
    assert_eq!(gone.each_ref().map(Gone::is_gone), [true; 2]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_engine_does_not_start_it_again_before_its_children_are_gone() -> TestResult {
    const OWNER: Name<()> = Name::new("owner");
    let (sender, mut held) = mpsc::unbounded_channel();
    let owner = Manifold::builder()
        .start_with(sender, |sender, (), _ctx| async move {
            let (catacomb, children) = catacomb();
            add_lingering(&children, sender).map_err(|error| error.to_string())?;
            Ok(catacomb)
        })
        .build();
    let engine = test_engine().build()?;
    engine.install(OWNER, owner).await?;
    check_held(&engine, &OWNER, &mut held).await?;

    engine.running(OWNER).await?;
    drop(held.recv().await);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_report_has_the_children_with_their_age() -> TestResult {
    let (catacomb, children) = catacomb();
    children.spawn("old", deaf)?;
    sleep(Duration::from_secs(3)).await;
    children.spawn("young", deaf)?;

    let report = serde_json::to_value(children.report())?;

    let expected = serde_json::json!({
        "is_stopping": false,
        "children": [{ "name": "old", "age": 3.0 }, { "name": "young", "age": 0.0 }],
    });
    assert_eq!(report, expected);
    drop(catacomb);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_child_logs_says_which_child_of_whom_it_is() -> TestResult {
    let mut events = Events::catch();
    let owner = tracing::info_span!("worker", path = "/agent/sessions");
    let (catacomb, children) = owner.in_scope(catacomb);
    children.spawn("ada", async |stop: Stop| {
        tracing::info!("hello");
        stop.wait().await;
        Ok(())
    })?;

    let hello = guarded(events.next("hello")).await;

    assert_eq!((hello.get("path"), hello.get("name")), ("/agent/sessions", "ada"));
    Ok(clean_kill(Bare::run(catacomb)).await?)
}

#[tokio::test(start_paused = true)]
async fn children_are_told_when_an_input_of_their_owner_is_lost() -> TestResult {
    let (catacomb, children) = catacomb();
    let (sender, mut lost) = mpsc::unbounded_channel();
    let child = |name: &'static str| {
        let sender = sender.clone();
        async move |stop: Stop| {
            stop.input_lost().await;
            sender.send((name, stop.is_input_lost(), stop.is_stopped()))?;
            stop.wait().await;
            Ok(())
        }
    };
    let (stopper, stop) = Stop::pair();
    children.spawn("early", child("early"))?;
    let told = async {
        sleep(Duration::from_secs(1)).await;
        owner::lose_input(&stopper);
        let early = lost.recv().await;
        children.spawn("late", child("late"))?;
        let late = lost.recv().await;
        stopper.stop();
        Ok::<_, CatacombEnded>([early, late])
    };

    let (ended, told) = guarded(async { tokio::join!(catacomb.run(stop), told) }).await;

    assert!(ended.is_ok());
    assert_eq!(told?, [Some(("early", true, false)), Some(("late", true, false))]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_is_woken_by_a_catacomb_may_ask_it() -> TestResult {
    let (catacomb, children) = catacomb();
    let asked = children.clone();
    let asking = Asking::new(move || drop(asked.report()));
    children.add("asks", asking.worker())?;
    let (stopper, stop) = Stop::pair();
    let test = async {
        tokio::task::yield_now().await;
        owner::lose_input(&stopper);
        tokio::task::yield_now().await;
        assert!(asking.take(), "a lost input wakes it");
        stopper.stop();
    };

    let (ended, ()) = tokio::join!(catacomb.run(stop), test);

    assert!(ended.is_ok());
    assert!(asking.take(), "a stop wakes it");
    Ok(())
}
