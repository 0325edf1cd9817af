//! What the delays of a runner's workers are drawn from.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{Manifold, Name, Outcome, Stop, Worker};
use crankcase_testing::{Bare, Journal, clean_kill, test_engine};
use crankcase_workers::{ChildContext, ChildSpec, Runner, RunnerConfig};
use tokio::time::{Instant, sleep};

use super::Idle;
use crate::running::TestResult;

/// A worker that makes a runner when it runs, and gives it a worker that fails.
struct Owner(Journal);

impl Worker for Owner {
    async fn run(self, stop: Stop) -> Outcome {
        let (runner, began) = (Runner::new(RunnerConfig::default())?, Instant::now());
        let workers = runner.handle();
        let failing = ChildSpec::permanent(move |_ctx: ChildContext| {
            self.0.note(format!("{:?}", began.elapsed()));
            std::future::ready(Err::<Idle, _>("the disk is full".into()))
        });
        let (outcome, started) = tokio::join!(runner.run(stop), workers.start("a", failing));
        started?;
        outcome
    }
}

/// Returns when the failing worker is started by an owner in an engine with this seed.
async fn starts_in(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    const OWNER: Name<()> = Name::new("owner");
    let (engine, journal) = (test_engine().seed(seed).build()?, Journal::new());
    let owner = Manifold::builder()
        .start_with(journal.clone(), |journal, (), _ctx| async move { Ok(Owner(journal)) });
    engine.install(OWNER, owner.build()).await?;
    sleep(Duration::from_secs(30)).await;
    clean_kill(engine).await?;
    Ok(journal.take())
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_a_worker_makes_draws_from_the_seed_of_the_engine() -> TestResult {
    let first = starts_in(7).await?;

    let (again, other) = (starts_in(7).await?, starts_in(8).await?);

    assert!(first.len() > 3, "{first:?}");
    assert_eq!(first, again);
    assert_ne!(first, other);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn runners_without_an_engine_do_not_wait_in_step() -> TestResult {
    let journals = [Journal::new(), Journal::new()];
    let owners = journals.clone().map(|journal| Bare::run(Owner(journal)));
    sleep(Duration::from_secs(30)).await;

    let [one, other] = journals.map(|journal| journal.take());

    assert!(one.len() > 3, "{one:?}");
    assert_ne!(one, other);
    for owner in owners {
        clean_kill(owner).await?;
    }
    Ok(())
}

/// Notes that it was told to stop, and that it was dropped.
struct Noting(Journal, String);

impl Worker for Noting {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        self.0.note(format!("stop {}", self.1));
        std::future::pending().await
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.0.note(format!("drop {}", self.1));
    }
}

/// Returns in which order workers, some of which have come and gone before, are told to stop, and
/// dropped.
async fn ends() -> Result<Vec<String>, Box<dyn Error>> {
    let (runner, journal) = (Runner::new(RunnerConfig::default())?, Journal::new());
    let workers = runner.handle();
    let runner = Bare::run(runner);
    for number in 0..20 {
        let noted = journal.clone();
        let noting = ChildSpec::permanent(move |ctx: ChildContext| {
            std::future::ready(Ok(Noting(noted.clone(), ctx.name().to_owned())))
        });
        workers.start(&format!("worker-{number}"), noting.clone()).await?.running().await?;
        if number % 3 == 2 {
            workers.stop(&format!("worker-{}", number - 2)).await?;
            workers.replace(&format!("worker-{}", number - 1), noting).await?;
        }
    }
    journal.take();
    clean_kill(runner).await?;
    Ok(journal.take())
}

#[tokio::test(start_paused = true)]
async fn a_runner_stops_its_workers_in_the_order_in_which_their_names_came() -> TestResult {
    let names = (0..20).filter(|number| number % 3 > 0 || *number == 18);
    let names: Vec<_> = names.map(|number| format!("worker-{number}")).collect();
    let told = names.iter().map(|name| format!("stop {name}"));
    let dropped = names.iter().map(|name| format!("drop {name}"));

    let expected: Vec<_> = told.chain(dropped).collect();

    assert_eq!(ends().await?, expected);
    Ok(())
}
