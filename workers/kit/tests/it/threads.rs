//! Owners whose children come from several threads at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crankcase_engine::{Outcome, Stop, Worker};
use crankcase_testing::{Bare, clean_kill};
use crankcase_workers::{Catacomb, CatacombConfig, ChildSpec, Runner, RunnerConfig, RunnerError};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::running::{TestResult, guarded};

/// Counts what lives, and how many did at most.
#[derive(Default)]
struct Count {
    live: AtomicUsize,
    most: AtomicUsize,
}

/// A worker that is counted until it is dropped.
struct Counted(Arc<Count>);

impl Counted {
    fn new(count: &Arc<Count>) -> Self {
        let live = count.live.fetch_add(1, Ordering::AcqRel) + 1;
        count.most.fetch_max(live, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Worker for Counted {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_catacomb_outlives_every_child_that_it_took_also_while_it_is_killed() -> TestResult {
    for _ in 0..50 {
        let catacomb = Catacomb::new(CatacombConfig::default());
        let (children, count) = (catacomb.handle(), Arc::<Count>::default());
        let running = Bare::run(catacomb);
        let (mut adders, begin) = (JoinSet::new(), Arc::new(Barrier::new(5)));
        for _ in 0..4 {
            let (children, count) = (children.clone(), Arc::clone(&count));
            let begin = Arc::clone(&begin);
            adders.spawn(async move {
                begin.wait().await;
                for _ in 0..200 {
                    // An error says that the child was dropped instead.
                    let _ended = children.add("child", Counted::new(&count));
                    tokio::task::yield_now().await;
                }
            });
        }
        begin.wait().await;

        guarded(clean_kill(running)).await?;
        guarded(adders.join_all()).await;

        assert_eq!(count.live.load(Ordering::Acquire), 0, "a child outlived the catacomb");
        assert_eq!(children.count(), 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_runner_never_has_two_of_a_name_whoever_asks_and_leaves_none() -> TestResult {
    for round in 0..50 {
        let runner = Runner::new(RunnerConfig::default())?;
        let (workers, count) = (runner.handle(), Arc::<Count>::default());
        let running = Bare::run(runner);
        let mut askers = JoinSet::new();
        for asker in 0..4 {
            let (workers, count) = (workers.clone(), Arc::clone(&count));
            askers.spawn(async move {
                for turn in 0..1000 {
                    let count = Arc::clone(&count);
                    let spec = ChildSpec::permanent(move |_ctx| {
                        let counted = Counted::new(&count);
                        async move { Ok(counted) }
                    });
                    let asked = match (asker + turn + round) % 4 {
                        0 => workers.start("a", spec).await.map(drop),
                        1 => workers.replace("a", spec).await.map(drop),
                        2 => workers.stop("a").await.map(drop),
                        _ => workers.bounce("a").await,
                    };
                    if let Err(RunnerError::Stopping { .. }) = asked {
                        return;
                    }
                }
            });
        }
        // Any moment will do.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }

        guarded(clean_kill(running)).await?;
        guarded(askers.join_all()).await;

        assert_eq!(count.live.load(Ordering::Acquire), 0, "a worker outlived the runner");
        assert!(count.most.load(Ordering::Acquire) <= 1, "there were two of one name");
        assert!(workers.names().is_empty());
    }
    Ok(())
}
