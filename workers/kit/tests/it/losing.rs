//! Inputs that are lost while their worker stops: who it owns is told of them until the end.

use std::time::Duration;

use crankcase_engine::owner;
use crankcase_engine::{Outcome, Stop, Worker};
use crankcase_testing::{Bare, Journal};
use crankcase_workers::{Catacomb, CatacombConfig, ChildSpec, Fortress, Runner, RunnerConfig};
use tokio::time::sleep;

use crate::running::{TestResult, guarded};

/// Finishes its work when it is told to stop, and gives it up when its input is lost.
struct Finishing(Journal);

impl Worker for Finishing {
    async fn run(self, stop: Stop) -> Outcome {
        let Self(journal) = self;
        stop.wait().await;
        journal.note("finishes");
        owner::only_input_lost(&stop).await;
        journal.note("gives up");
        Ok(())
    }
}

/// Runs the owner of one that finishes its work, and loses its input while that stops.
async fn given_up(owner: impl Worker, journal: Journal) -> TestResult {
    let mut owner = Bare::run(owner);
    sleep(Duration::from_secs(1)).await;
    owner.stopper().stop();
    sleep(Duration::from_secs(1)).await;
    let before = journal.lines();

    owner::lose_input(owner.stopper());
    guarded(owner.ended()).await?.map_err(|exit| exit.to_string())?;

    assert_eq!(before, ["finishes"]);
    assert_eq!(journal.lines(), ["finishes", "gives up"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_children_of_a_stopping_catacomb_are_told() -> TestResult {
    let journal = Journal::new();
    let catacomb = Catacomb::new(CatacombConfig::default());
    catacomb.handle().add("finishing", Finishing(journal.clone()))?;

    given_up(catacomb, journal).await
}

#[tokio::test(start_paused = true)]
async fn the_workers_of_a_stopping_runner_are_told() -> TestResult {
    let journal = Journal::new();
    let runner = Runner::new(RunnerConfig::default())?;
    let worker = journal.clone();
    let spec = ChildSpec::permanent(move |_ctx| std::future::ready(Ok(Finishing(worker.clone()))));
    runner.handle().start("finishing", spec).await?;

    given_up(runner, journal).await
}

#[tokio::test(start_paused = true)]
async fn a_stopping_occupier_is_told() -> TestResult {
    let journal = Journal::new();
    let fortress = Fortress::new();
    fortress.guard().unlock();
    let worker = journal.clone();
    let occupied = fortress.guest().occupy(|| async { Ok(Finishing(worker)) });

    given_up(occupied, journal).await
}
