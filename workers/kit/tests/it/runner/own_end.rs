//! What a worker cannot ask of its own runner.

use crankcase_engine::{Exit, Outcome, Stop, Worker};
use crankcase_testing::{Bare, clean_kill};
use crankcase_workers::{ChildContext, ChildSpec, Runner, RunnerConfig, RunnerError, RunnerHandle};
use tokio::sync::mpsc;

use super::{Idle, idle, policy, run};
use crate::running::{TestResult, guarded};

fn own_end(action: &'static str) -> RunnerError {
    RunnerError::OwnEnd { action, name: "a".to_owned() }
}

/// Asks for all that would end its own worker, or waits for it.
async fn ask_all(workers: &RunnerHandle) -> Vec<Option<RunnerError>> {
    vec![
        workers.stop("a").await.err(),
        workers.replace("a", idle()).await.err(),
        workers.bounce("a").await.err(),
        workers.wait("a").await.err(),
        workers.running("a").await.err(),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_start_that_would_wait_for_its_own_worker_is_told_so() -> TestResult {
    let (runner, workers) = run()?;
    let (sender, mut answers) = mpsc::unbounded_channel();
    let asked = workers.clone();
    let spec = ChildSpec::permanent(move |_ctx| {
        let (workers, sender) = (asked.clone(), sender.clone());
        async move {
            sender.send(ask_all(&workers).await)?;
            Ok(Idle)
        }
    });
    workers.start("a", spec).await?;

    let answers = guarded(answers.recv()).await.ok_or("no answer")?;

    let expected = ["stop", "replace", "bounce", "wait for", "wait for"];
    assert_eq!(answers, expected.map(|action| Some(own_end(action))));
    Ok(clean_kill(runner).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_told_to_stop_cannot_wait_for_its_successor() -> TestResult {
    struct Heir {
        workers: RunnerHandle,
        answers: mpsc::UnboundedSender<[Option<RunnerError>; 3]>,
    }
    impl Worker for Heir {
        async fn run(self, stop: Stop) -> Outcome {
            let up = self.workers.running("a").await.err();
            stop.wait().await;
            let started = self.workers.start("a", idle()).await.err();
            let running = self.workers.running("a").await.err();
            self.answers.send([up, started, running])?;
            Ok(())
        }
    }
    let (runner, workers) = run()?;
    let (sender, mut answers) = mpsc::unbounded_channel();
    let asked = workers.clone();
    let spec = ChildSpec::permanent(move |_ctx| {
        let heir = Heir { workers: asked.clone(), answers: sender.clone() };
        async move { Ok(heir) }
    });
    workers.start("a", spec).await?;
    workers.running("a").await?;
    let began = tokio::time::Instant::now();

    guarded(workers.stop("a")).await?;

    assert_eq!(began.elapsed(), std::time::Duration::ZERO);
    let expected = [None, Some(own_end("start")), Some(own_end("wait for"))];
    assert_eq!(answers.recv().await, Some(expected));
    assert!(workers.names().is_empty());
    Ok(clean_kill(runner).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_knows_itself_from_its_first_moment() -> TestResult {
    let runner = Runner::new(RunnerConfig::default().policy(policy()))?;
    let workers = runner.handle();
    let runner = Bare::run(runner);
    let asked = workers.clone();
    let spec = ChildSpec::temporary(move |ctx: ChildContext| {
        let workers = asked.clone();
        async move {
            match workers.stop(ctx.name()).await {
                Err(RunnerError::OwnEnd { .. }) => Ok(Idle),
                answer => Err(Exit::failed(format!("{answer:?}"))),
            }
        }
    });
    for round in 0..2000 {
        let name = format!("a{round}");
        workers.start(&name, spec.clone()).await?;
        guarded(workers.running(&name)).await?;
        guarded(workers.stop(&name)).await?;
    }
    Ok(clean_kill(runner).await?)
}
