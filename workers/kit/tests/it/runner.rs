//! A set of named workers.

mod ends;
mod losses;
mod model;
mod own_end;
mod reports;
mod schedule;
mod seeds;

use std::time::Duration;

use crankcase_engine::owner::{self, Linger};
use crankcase_engine::{Backoff, Exit, Intensity, Outcome, Policy, Stop, Worker, WorkerState};
use crankcase_testing::{Bare, clean_kill};
use crankcase_workers::{
    ChildSpec, Ending, Restart, Runner, RunnerConfig, RunnerError, RunnerHandle,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::events::Events;
use crate::running::{TestResult, guarded};

/// A worker that waits for its stop.
struct Idle;

impl Worker for Idle {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

/// A worker that goes on when it is told to stop.
struct Deaf;

impl Worker for Deaf {
    async fn run(self, _stop: Stop) -> Outcome {
        std::future::pending().await
    }
}

fn policy() -> Policy {
    Policy::default().backoff(Backoff::default().jitter(0.0))
}

fn run() -> Result<(Bare, RunnerHandle), crankcase_engine::ConfigError> {
    let runner = Runner::new(RunnerConfig::default().policy(policy()))?;
    let handle = runner.handle();
    Ok((Bare::run(runner), handle))
}

fn idle() -> ChildSpec {
    ChildSpec::permanent(|_ctx| async { Ok(Idle) })
}

fn deaf() -> ChildSpec {
    ChildSpec::permanent(|_ctx| async { Ok(Deaf) })
}

/// A spec whose starts fail.
fn failing(restart: Restart) -> ChildSpec {
    ChildSpec::new(restart, |_ctx| async { Err::<Idle, _>("the disk is full".into()) })
}

async fn state(workers: &RunnerHandle, name: &str) -> Option<(WorkerState, u32, u32)> {
    let report = workers.report().await;
    let worker = report.workers.get(name)?;
    Some((worker.state, worker.generation, worker.failures))
}

#[tokio::test(start_paused = true)]
async fn a_failed_worker_waits_out_its_backoff_and_says_so() -> TestResult {
    let (runner, workers) = run()?;
    workers.start("a", failing(Restart::Permanent)).await?;
    sleep(Duration::from_secs(2)).await;

    let report = serde_json::to_value(workers.report().await)?;

    let expected = serde_json::json!({ "is_stopping": false, "workers": { "a": {
        "state": "backing_off",
        "restart": "permanent",
        "generation": 2,
        "failures": 2,
        "next_try_in": 1.0,
        "error": { "text": "the disk is full", "is_panic": false },
    }}});
    assert_eq!(report, expected);
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_backoff_and_nothing_comes_back() -> TestResult {
    let (runner, workers) = run()?;
    workers.start("a", failing(Restart::Permanent)).await?;
    sleep(Duration::from_millis(500)).await;
    let began = Instant::now();

    assert!(matches!(workers.stop("a").await?, Ending::Well));

    assert_eq!(began.elapsed(), Duration::ZERO);
    sleep(Duration::from_secs(600)).await;
    assert!(workers.names().is_empty());
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_spent_worker_stays_with_its_error_until_it_is_bounced_or_stopped() -> TestResult {
    let (runner, workers) = run()?;
    let intensity = Intensity::new(1, Duration::from_secs(60));
    workers.start("a", failing(Restart::Transient).intensity(intensity)).await?;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(state(&workers, "a").await, Some((WorkerState::Spent, 2, 2)));

    workers.bounce("a").await?;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(state(&workers, "a").await, Some((WorkerState::BackingOff, 3, 3)));
    workers.stop("a").await?;

    assert_eq!(state(&workers, "a").await, None);
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_or_bad_is_refused() -> TestResult {
    let (runner, workers) = run()?;
    workers.start("a", idle()).await?;

    let exists = workers.start("a", idle()).await.unwrap_err();
    let bad = workers.start("no/path", idle()).await.unwrap_err();
    let unknown = workers.stop("b").await.unwrap_err();

    assert_eq!(
        exists.to_string(),
        "cannot start worker \"a\": there is one already; stop it first, or replace it",
    );
    assert!(bad.to_string().starts_with("bad name \"no/path\""), "{bad}");
    assert_eq!(unknown.to_string(), "cannot stop worker \"b\": there is none");
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_setting_that_cannot_be_used_is_refused_with_its_field() -> TestResult {
    let wrong = Backoff::default().factor(0.5);
    let expected = "backoff.factor is 0.5; expected a number from 1";
    let config = RunnerConfig::default().policy(policy().backoff(wrong.clone()));
    assert_eq!(Runner::new(config).unwrap_err().to_string(), expected);

    let (runner, workers) = run()?;
    let refused = workers.start("a", idle().backoff(wrong)).await.unwrap_err();

    assert_eq!(format!("{refused:?}"), format!("cannot start worker \"a\": {expected}"));
    let RunnerError::BadSpec { source, .. } = refused else { return Err("another error".into()) };
    assert_eq!(source.to_string(), expected);
    assert!(workers.names().is_empty());
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_second_start_waits_until_the_first_is_gone_with_all_that_lingers() -> TestResult {
    struct Lingering(mpsc::UnboundedSender<Linger>);
    impl Worker for Lingering {
        async fn run(self, stop: Stop) -> Outcome {
            self.0.send(stop.linger())?;
            stop.wait().await;
            Ok(())
        }
    }
    let (runner, workers) = run()?;
    let (sender, mut held) = mpsc::unbounded_channel();
    let lingering = ChildSpec::permanent(move |_ctx| {
        let sender = sender.clone();
        async move { Ok(Lingering(sender)) }
    });
    workers.start("a", lingering).await?;
    workers.running("a").await?;
    let linger = held.recv().await;

    let (stopped, started, seen) = tokio::join!(
        workers.stop("a"),
        async {
            sleep(Duration::from_secs(1)).await;
            workers.start("a", idle()).await
        },
        async {
            sleep(Duration::from_secs(100)).await;
            let seen = state(&workers, "a").await;
            drop(linger);
            seen
        },
    );

    assert_eq!(seen, Some((WorkerState::Stuck, 1, 0)));
    assert!(matches!(stopped?, Ending::Well));
    started?;
    workers.running("a").await?;
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_only_stops_waiting() -> TestResult {
    let (runner, workers) = run()?;
    workers.start("a", deaf().grace(Duration::from_secs(3))).await?;
    workers.running("a").await?;

    tokio::select! {
        biased;
        _ = workers.replace("a", idle()) => return Err("it did not wait".into()),
        () = sleep(Duration::from_secs(1)) => {}
    }
    sleep(Duration::from_secs(3)).await;

    assert_eq!(state(&workers, "a").await, Some((WorkerState::Running, 1, 0)));
    assert!(workers.stop("a").await.is_ok_and(|ending| matches!(ending, Ending::Well)));
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn who_waits_when_the_runner_stops_is_answered() -> TestResult {
    let (runner, workers) = run()?;
    workers.start("a", deaf()).await?;
    workers.running("a").await?;
    let hanging = ChildSpec::permanent(|_ctx| std::future::pending::<Result<Idle, Exit>>());
    workers.start("b", hanging).await?;

    let (ended, replaced, running, killed) = tokio::join!(
        workers.wait("a"),
        workers.replace("a", idle()),
        workers.running("b"),
        async {
            sleep(Duration::from_secs(1)).await;
            clean_kill(runner).await
        },
    );

    killed?;
    assert!(matches!(ended?, Ending::Dropped));
    assert_eq!(replaced.err(), Some(RunnerError::Withdrawn { name: "a".to_owned() }));
    assert_eq!(running, Err(RunnerError::Left { name: "b".to_owned() }));
    let late = workers.start("c", idle()).await.unwrap_err();
    assert_eq!(late.to_string(), "cannot start worker \"c\": the runner stops");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_logs_says_which_worker_of_whom_it_is() -> TestResult {
    let mut events = Events::catch();
    let owner = tracing::info_span!("worker", path = "/agent/tenants");
    let (runner, workers) = owner.in_scope(run)?;
    let spec = ChildSpec::permanent(|_ctx| async {
        tracing::info!("hello");
        Ok(Idle)
    });
    workers.start("ada", spec.clone()).await?;
    workers.running("ada").await?;
    // Whoever asks for it, and whoever is gone before it.
    let other = tracing::info_span!("worker", path = "/agent/other");
    tracing::Instrument::instrument(workers.replace("ada", spec), other).await?;

    for _ in 0..2 {
        let hello = guarded(events.next("hello")).await;
        assert_eq!((hello.get("path"), hello.get("name")), ("/agent/tenants", "ada"));
    }
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn workers_are_told_when_an_input_of_their_runner_is_lost() -> TestResult {
    struct Listening(mpsc::UnboundedSender<(u32, bool)>, u32);
    impl Worker for Listening {
        async fn run(self, stop: Stop) -> Outcome {
            stop.input_lost().await;
            self.0.send((self.1, stop.is_stopped()))?;
            stop.wait().await;
            Ok(())
        }
    }
    let runner = Runner::new(RunnerConfig::default().policy(policy()))?;
    let (workers, (stopper, stop)) = (runner.handle(), Stop::pair());
    let (sender, mut lost) = mpsc::unbounded_channel();
    let spec = ChildSpec::permanent(move |ctx| {
        std::future::ready(Ok(Listening(sender.clone(), ctx.generation())))
    });
    workers.start("a", spec).await?;
    let told = async {
        workers.running("a").await?;
        owner::lose_input(&stopper);
        let first = lost.recv().await;
        workers.bounce("a").await?;
        let second = lost.recv().await;
        stopper.stop();
        Ok::<_, RunnerError>([first, second])
    };

    let (ended, told) = guarded(async { tokio::join!(runner.run(stop), told) }).await;

    assert!(ended.is_ok());
    assert_eq!(told?, [Some((1, false)), Some((2, false))]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_no_clock_can_express_is_a_long_one() -> TestResult {
    let (runner, workers) = run()?;
    let ever = Backoff::default().initial(Duration::MAX).max(Duration::MAX).jitter(0.0);
    workers.start("a", failing(Restart::Permanent).backoff(ever)).await?;
    sleep(Duration::from_secs(3600)).await;

    assert_eq!(state(&workers, "a").await, Some((WorkerState::BackingOff, 1, 1)));
    Ok(clean_kill(runner).await?)
}
