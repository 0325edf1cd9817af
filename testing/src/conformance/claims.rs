//! What is claimed of workers, and how it is checked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};

use crankcase_engine::owner;
use crankcase_engine::{Exit, Outcome, Stop, Stopper, Worker};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::Conformance;
use crate::bare::{Bare, gone};
use crate::failure::Failure;
use crate::wait::{all_turns, within};

/// How often a start is dropped, each time one await later, before it is taken for endless.
const MOST_AWAITS: usize = 1_000;

/// What is claimed of a worker.
#[derive(Clone, Copy)]
enum Claim {
    Runs,
    EndsUnrun,
    EndsWithoutInput,
    LosesInStop,
    DropsUnrun,
    Drops,
    DropsInStop,
    DropsInStart,
    Reports,
}

impl Claim {
    /// All, in the order in which they are checked: the plain ones first.
    const ALL: [Self; 9] = [
        Self::Runs,
        Self::EndsUnrun,
        Self::EndsWithoutInput,
        Self::LosesInStop,
        Self::DropsUnrun,
        Self::Drops,
        Self::DropsInStop,
        Self::DropsInStart,
        Self::Reports,
    ];

    fn text(self) -> &'static str {
        match self {
            Self::Runs => "it starts and runs until it is told to stop",
            Self::EndsUnrun => "told before it is run, it ends",
            Self::EndsWithoutInput => "it ends when it has lost an input and is told to stop",
            Self::LosesInStop => "it ends when it loses an input while it stops",
            Self::DropsUnrun => "it can be dropped before it is run",
            Self::Drops => "it can be dropped while it runs",
            Self::DropsInStop => "it can be dropped while it stops",
            Self::DropsInStart => "its start can be dropped at every await",
            Self::Reports => "it reports while it runs",
        }
    }
}

/// A worker that was started and is to be run.
struct Started<W> {
    worker: W,
    stopper: Stopper,
    stop: Stop,
}

impl<W: Worker> Started<W> {
    fn run(self) -> Bare {
        Bare::run_with(self.stopper, self.stop, self.worker)
    }
}

impl<S, F, W> Conformance<S, W>
where
    S: Fn(Stop) -> F,
    F: Future<Output = Result<W, Exit>>,
    W: Worker,
{
    /// Checks all claims.
    ///
    /// # Errors
    ///
    /// The first claim that does not hold, and what happened instead.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    pub async fn check(&self) -> Result<(), Failure> {
        for claim in Claim::ALL {
            let held = self.holds(claim).await;
            let text = |what| format!("expected: {}\nhappened: {what}", claim.text());
            held.map_err(|what| Failure::new(text(what)))?;
        }
        Ok(())
    }

    /// Checks a claim; the error says what happened instead.
    async fn holds(&self, claim: Claim) -> Result<(), String> {
        match claim {
            Claim::Runs => self.runs().await,
            Claim::EndsUnrun => self.ends_unrun().await,
            Claim::EndsWithoutInput => self.ends_without_input().await,
            Claim::LosesInStop => self.loses_in_stop().await,
            Claim::DropsUnrun => self.drops_unrun().await,
            Claim::Drops => self.drops().await,
            Claim::DropsInStop => self.drops_in_stop().await,
            Claim::DropsInStart => self.drops_in_start().await,
            Claim::Reports => self.reports().await,
        }
    }

    async fn runs(&self) -> Result<(), String> {
        let mut worker = self.start().await?.run();
        // Nothing happens between the moment that this is over and the stop.
        match timeout(self.runs_for, worker.outcome()).await {
            Ok(_) if self.ends_by_itself => {}
            Ok(outcome) => return Err(format!("it ended by itself: {}", text(&outcome))),
            Err(_) => {}
        }
        worker.stopper().stop();
        // A second time means nothing more.
        worker.stopper().stop();
        self.ends(worker).await
    }

    async fn ends_unrun(&self) -> Result<(), String> {
        let started = self.start().await?;
        started.stopper.stop();
        self.ends(started.run()).await
    }

    async fn ends_without_input(&self) -> Result<(), String> {
        let mut worker = self.run().await?;
        owner::lose_input(worker.stopper());
        yield_now().await;
        worker.stopper().stop();
        self.ends_somehow(&mut worker, "without an input").await
    }

    async fn loses_in_stop(&self) -> Result<(), String> {
        let mut worker = self.run().await?;
        worker.stopper().stop();
        yield_now().await;
        owner::lose_input(worker.stopper());
        self.ends_somehow(&mut worker, "without an input").await
    }

    async fn drops_unrun(&self) -> Result<(), String> {
        let Started { worker, stop, .. } = self.start().await?;
        drop(worker);
        self.gone(gone(&stop)).await?;
        self.runs_again().await
    }

    /// Drops workers after one, two, four ... turns, so that they are at other places.
    async fn drops(&self) -> Result<(), String> {
        for turns in [1, 2, 4, 8, 100] {
            let mut worker = self.start().await?.run();
            for _ in 0..turns {
                yield_now().await;
            }
            worker.abort();
            self.ends_somehow(&mut worker, "dropped").await?;
        }
        self.runs_again().await
    }

    /// Drops workers as an engine does whose grace is over: after some turns of their end.
    async fn drops_in_stop(&self) -> Result<(), String> {
        for turns in [0, 1, 2, 4, 8, 100] {
            let mut worker = self.run().await?;
            worker.stopper().stop();
            for _ in 0..turns {
                yield_now().await;
            }
            worker.abort();
            self.ends_somehow(&mut worker, "dropped while it stopped").await?;
        }
        self.runs_again().await
    }

    async fn drops_in_start(&self) -> Result<(), String> {
        for awaits in 1..=MOST_AWAITS {
            let (stopper, stop) = Stop::pair();
            // As an engine does it: told first.
            let told = || stopper.stop();
            let started = caught(polled((self.start)(stop.clone()), awaits, told));
            match timeout(self.start_timeout, started).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(Ok(worker)))) => {
                    drop(worker);
                    self.gone(gone(&stop)).await?;
                    return self.runs_again().await;
                }
                Ok(Ok(Some(Err(exit))) | Err(exit)) => {
                    return Err(format!("after {} were dropped: {exit}", awaits - 1));
                }
                Err(_) => return Err(format!("it took longer than {:?}", self.start_timeout)),
            }
            self.gone(gone(&stop)).await?;
        }
        Err(format!("its start has more than {MOST_AWAITS} awaits"))
    }

    async fn reports(&self) -> Result<(), String> {
        let Some(reporter) = &self.reporter else { return Ok(()) };
        let started = self.start().await?;
        let report = reporter(&started.worker);
        let report = || timeout(self.report_deadline, caught(async { report().await }));
        let worker = started.run();
        all_turns().await;
        match report().await {
            Ok(reported) => reported.map_err(|exit| format!("its reporter {exit}"))?,
            Err(_) => return Err(format!("it did not report within {:?}", self.report_deadline)),
        }
        worker.stopper().stop();
        // One that is asked while the worker ends may have nothing to say, but must not panic.
        if let Ok(Err(exit)) = report().await {
            return Err(format!("while the worker ended, its reporter {exit}"));
        }
        self.ends(worker).await
    }

    async fn start(&self) -> Result<Started<W>, String> {
        let (stopper, stop) = Stop::pair();
        let started = caught((self.start)(stop.clone()));
        match timeout(self.start_timeout, started).await {
            Ok(Ok(Ok(worker))) => Ok(Started { worker, stopper, stop }),
            Ok(Ok(Err(exit)) | Err(exit)) => Err(format!("its start ended: {exit}")),
            Err(_) => Err(format!("its start took longer than {:?}", self.start_timeout)),
        }
    }

    /// Starts a worker and lets it go as far as it gets at once.
    async fn run(&self) -> Result<Bare, String> {
        let mut worker = self.start().await?.run();
        all_turns().await;
        if worker.has_ended() && !self.ends_by_itself {
            return Err(format!("it ended by itself: {}", text(&worker.outcome().await)));
        }
        Ok(worker)
    }

    /// Waits for the end of a worker that was told to stop.
    async fn ends(&self, mut worker: Bare) -> Result<(), String> {
        match self.gone(end_of(&mut worker)).await? {
            Err(exit) if exit.is_panic() || !self.ends_by_itself => {
                Err(format!("told to stop, it ended: {exit}"))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the end of a worker that may end as it likes, but does not panic.
    async fn ends_somehow(&self, worker: &mut Bare, how: &str) -> Result<(), String> {
        match self.gone(end_of(worker)).await? {
            Err(exit) if exit.is_panic() => Err(format!("{how}, it {exit}")),
            _ => Ok(()),
        }
    }

    async fn runs_again(&self) -> Result<(), String> {
        let again = async {
            let worker = self.run().await?;
            worker.stopper().stop();
            self.ends(worker).await
        };
        again.await.map_err(|what: String| format!("the next one: {what}"))
    }

    /// Waits for the end of a worker that is to end now, and that nothing of it is left.
    async fn gone<T>(&self, end: impl Future<Output = T>) -> Result<T, String> {
        let ended = timeout(self.grace, end).await;
        let ended = ended.map_err(|_| format!("it has not ended within {:?}", self.grace))?;
        if let Some(released) = &self.released {
            let looked = within(|| "it was not said what is left".to_owned(), released()).await;
            let left = looked.map_err(|late| late.to_string())?;
            left.map_err(|left| format!("afterwards {left}"))?;
        }
        Ok(ended)
    }
}

/// Waits until a worker has ended and nothing of it lingers.
async fn end_of(worker: &mut Bare) -> Outcome {
    let outcome = worker.outcome().await;
    worker.gone().await;
    outcome
}

/// Polls a future that often at most, and drops it if it is not ready then.
async fn polled<F: Future>(future: F, times: usize, before_drop: impl Fn()) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls >= times => {
                before_drop();
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Makes a panic of a future that runs in the test's own task a failure, as it is to an engine.
async fn caught<F: Future>(future: F) -> Result<F::Output, Exit> {
    let mut future = pin!(future);
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(payload) => Poll::Ready(Err(Exit::failed(owner::panic_of(payload)))),
        }
    })
    .await
}

fn text(outcome: &Outcome) -> String {
    outcome.as_ref().map_or_else(Exit::to_string, |()| "done".to_owned())
}
