//! How children and their runner end, and who is told.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use crankcase_engine::owner::{self, Linger};
use crankcase_engine::{Exit, Manifold, Name, Outcome, Stop, Worker};
use crankcase_testing::{check_alive, clean_kill, dirty_kill, test_engine};
use crankcase_workers::{ChildSpec, Ending, Runner, RunnerConfig, RunnerError, RunnerHandle};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{Idle, deaf, idle, policy, run};
use crate::asking::Asking;
use crate::owning::check_held;
use crate::running::{TestResult, guarded};

#[tokio::test(start_paused = true)]
async fn a_fatal_end_stops_all_and_is_the_runners_own() -> TestResult {
    let (mut runner, workers) = run()?;
    workers.start("a", idle()).await?;
    let fatal = |_ctx| async { Err::<Idle, _>(Exit::fatal("the database is of another version")) };

    workers.start("b", ChildSpec::temporary(fatal)).await?;
    let ended = runner.ended().await?.unwrap_err();

    assert!(matches!(&ended, Exit::Fatal(_)));
    assert_eq!(ended.to_string(), "the database is of another version");
    assert!(workers.names().is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_start_or_run_is_a_failure_with_its_message() -> TestResult {
    struct Falls;
    impl Worker for Falls {
        async fn run(self, _stop: Stop) -> Outcome {
            panic!("in its run")
        }
    }
    let (runner, workers) = run()?;
    let begun = |_ctx| -> std::future::Ready<Result<Idle, Exit>> { panic!("in its start") };
    let first = workers.start("a", ChildSpec::temporary(begun)).await?;
    let second = workers.start("b", ChildSpec::temporary(|_ctx| async { Ok(Falls) })).await?;

    for (watch, expected) in [(first, "panicked: in its start"), (second, "panicked: in its run")] {
        let Ending::Failed(exit) = watch.ended().await else {
            return Err("it did not fail".into());
        };
        assert!(exit.is_panic());
        assert_eq!(exit.to_string(), expected);
    }
    check_alive(&runner).await?;
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_too_long_has_failed() -> TestResult {
    let (runner, workers) = run()?;
    let hanging = ChildSpec::temporary(|_ctx| std::future::pending::<Result<Idle, Exit>>());
    workers.start("a", hanging.start_timeout(Duration::from_secs(5))).await?;

    let Ending::Failed(exit) = workers.wait("a").await? else { return Err("no failure".into()) };

    assert_eq!(exit.to_string(), "its start took longer than 5s");
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn its_workers_are_dropped_with_it_and_who_waits_is_told() -> TestResult {
    let (runner, workers) = run()?;
    workers.start("a", deaf()).await?;
    workers.running("a").await?;

    let (ended, ()) = tokio::join!(workers.wait("a"), async {
        sleep(Duration::from_secs(1)).await;
        drop(runner);
    });

    assert!(matches!(ended?, Ending::Dropped));
    assert!(workers.names().is_empty());
    assert!(matches!(workers.start("b", idle()).await, Err(RunnerError::Stopping { .. })));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn its_workers_have_no_grace_when_it_is_dropped() -> TestResult {
    let (runner, workers) = run()?;
    let running = workers.start("a", deaf()).await?;
    running.running().await?;
    let stopped = workers.start("b", deaf()).await?;
    stopped.running().await?;
    let mut stop = Box::pin(workers.stop("b"));
    tokio::select! {
        biased;
        _ = &mut stop => return Err("it ended, though it is deaf".into()),
        () = sleep(Duration::from_secs(1)) => {}
    }
    let began = Instant::now();

    drop(runner);

    assert!(matches!(running.ended().await, Ending::Dropped));
    assert!(matches!(stopped.ended().await, Ending::Dropped));
    assert_eq!(began.elapsed(), Duration::ZERO);
    Ok(())
}

/// Lingers after its end until what it sends is dropped.
struct Stubborn(mpsc::UnboundedSender<Linger>);

impl Worker for Stubborn {
    async fn run(self, stop: Stop) -> Outcome {
        self.0.send(stop.linger())?;
        stop.wait().await;
        Ok(())
    }
}

fn stubborn(sender: mpsc::UnboundedSender<Linger>) -> ChildSpec {
    ChildSpec::permanent(move |_ctx| std::future::ready(Ok(Stubborn(sender.clone()))))
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_stopped_half_way_has_not_ended_before_its_workers_are_gone() -> TestResult
{
    const OWNER: Name<()> = Name::new("owner");
    let (sender, mut held) = mpsc::unbounded_channel();
    let owner = Manifold::builder().start_with(sender, |sender, (), ctx| async move {
        let config = RunnerConfig::default().policy(policy());
        let runner = Runner::new_for(ctx.stop(), config)?;
        runner.handle().start("a", stubborn(sender)).await?;
        std::future::pending::<()>().await;
        Ok(runner)
    });
    let engine = test_engine().build()?;
    engine.install(OWNER, owner.build()).await?;
    check_held(&engine, &OWNER, &mut held).await?;

    assert!(held.recv().await.is_some(), "the next begins then");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_in_no_way_is_named_and_holds_its_engine() -> TestResult {
    const RUNNER: Name<RunnerHandle> = Name::new("runner");
    let manifold = Manifold::builder()
        .start(|(), _ctx| async { Ok(Runner::new(RunnerConfig::default().policy(policy()))?) })
        .output(Runner::handle)
        .build()
        .grace(Duration::from_secs(60));
    let engine = test_engine().build()?;
    engine.install(RUNNER, manifold).await?;
    let workers = engine.output(RUNNER).await?;
    let (sender, mut held) = mpsc::unbounded_channel();
    workers.start("a", stubborn(sender)).await?;
    check_held(&engine, &RUNNER, &mut held).await?;

    assert!(workers.names().is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_runner_says_who_was_left_behind() -> TestResult {
    let (runner, workers) = run()?;
    let (sender, mut held) = mpsc::unbounded_channel();
    let spec = ChildSpec::permanent(move |ctx| {
        let sender = sender.clone();
        async move {
            sender.send(ctx.stop().linger())?;
            Ok(Idle)
        }
    });
    workers.start("a", spec).await?;
    let linger = held.recv().await;

    let exit = dirty_kill(runner).await?;

    assert_eq!(exit.to_string(), "children were left behind: \"a\"");
    drop(linger);
    Ok(())
}

/// Notes when it is dropped, and panics then if it is told to.
struct Noting {
    journal: Arc<Mutex<Vec<&'static str>>>,
    name: &'static str,
    falls: bool,
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.journal.lock().push(self.name);
        assert!(!self.falls, "in its drop");
    }
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_panics_when_it_is_dropped_keeps_no_caller_waiting() -> TestResult {
    let (runner, workers) = run()?;
    let journal = Arc::new(Mutex::new(Vec::new()));
    let falling = || {
        let noting = Noting { journal: Arc::clone(&journal), name: "spec", falls: true };
        ChildSpec::permanent(move |_ctx| {
            let _held = &noting;
            async { Ok(Idle) }
        })
    };
    let first = workers.start("a", deaf()).await?;
    let second = workers.start("b", deaf()).await?;
    first.running().await?;
    second.running().await?;

    let (third, fourth, ()) = tokio::join!(
        guarded(workers.replace("a", falling())),
        guarded(workers.replace("b", falling())),
        async {
            sleep(Duration::from_secs(1)).await;
            drop(runner);
        }
    );

    assert!(third.is_err() && fourth.is_err());
    assert_eq!(*journal.lock(), ["spec", "spec"]);
    assert!(matches!(first.ended().await, Ending::Dropped));
    assert!(matches!(second.ended().await, Ending::Dropped));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_dropped_before_what_its_start_holds() -> TestResult {
    struct Holding(#[expect(dead_code, reason = "it is held to be dropped")] Noting);
    impl Worker for Holding {
        async fn run(self, _stop: Stop) -> Outcome {
            std::future::pending().await
        }
    }
    let (runner, workers) = run()?;
    let journal = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let journal = Arc::clone(&journal);
        move |name| Noting { journal: Arc::clone(&journal), name, falls: false }
    };
    let held = noting("start");
    let spec = ChildSpec::permanent(move |_ctx| {
        let _held = &held;
        let worker = Holding(noting("worker"));
        async { Ok(worker) }
    });
    let watch = workers.start("a", spec).await?;
    watch.running().await?;

    drop(runner);

    assert!(matches!(watch.ended().await, Ending::Dropped));
    assert_eq!(*journal.lock(), ["worker", "start"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stopping_is_told_of_a_lost_input() -> TestResult {
    struct GivesUp;
    impl Worker for GivesUp {
        async fn run(self, stop: Stop) -> Outcome {
            stop.wait().await;
            while !stop.is_input_lost() {
                sleep(Duration::from_millis(100)).await;
            }
            Ok(())
        }
    }
    let runner = Runner::new(RunnerConfig::default().policy(policy()))?;
    let workers = runner.handle();
    let (stopper, stop) = Stop::pair();
    let test = async {
        workers.start("a", ChildSpec::permanent(|_ctx| async { Ok(GivesUp) })).await?;
        workers.running("a").await?;
        let (ended, ()) = tokio::join!(workers.stop("a"), async {
            sleep(Duration::from_secs(1)).await;
            owner::lose_input(&stopper);
        });
        stopper.stop();
        ended
    };

    let (ended, stopped) = tokio::join!(runner.run(stop), test);

    assert!(ended.is_ok());
    assert!(matches!(stopped?, Ending::Well), "it is not dropped after its grace");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_is_woken_by_a_runner_may_ask_it() -> TestResult {
    let runner = Runner::new(RunnerConfig::default().policy(policy()))?;
    let workers = runner.handle();
    let asked = workers.clone();
    let asking = Asking::new(move || {
        let ask = pin!(asked.running("a"));
        drop(ask.poll(&mut Context::from_waker(Waker::noop())));
    });
    let (stopper, stop) = Stop::pair();
    let child = asking.clone();
    let spec = ChildSpec::permanent(move |_ctx| std::future::ready(Ok(child.worker())));
    let test = async {
        workers.start("a", spec).await?;
        workers.running("a").await?;
        workers.bounce("a").await?;
        workers.running("a").await?;
        assert!(asking.take(), "a bounce wakes it");
        owner::lose_input(&stopper);
        tokio::task::yield_now().await;
        assert!(asking.take(), "a lost input wakes it");
        workers.stop("a").await?;
        assert!(asking.take(), "a stop wakes it");
        stopper.stop();
        Ok::<_, RunnerError>(())
    };

    let (ended, tested) = tokio::join!(runner.run(stop), test);

    assert!(ended.is_ok());
    Ok(tested?)
}
