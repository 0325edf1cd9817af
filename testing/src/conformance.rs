use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crankcase_engine::{Exit, Outcome, Stop, Worker};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::bare::Bare;
use crate::failure::Failure;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Reporter = Box<dyn Fn() -> Boxed<()> + Send + Sync>;
type MakeReporter<W> = Box<dyn Fn(&W) -> Reporter + Send + Sync>;
type Released = Box<dyn Fn() -> Boxed<Result<(), String>> + Send + Sync>;

/// Checks that a worker is as an engine needs it, whatever it does.
///
/// Each claim is checked with a fresh worker, which is started as its manifold would start it:
///
/// - it starts, and goes on until it is told to stop;
/// - told to stop, it ends well within its grace; told twice, it is as if it were told once;
/// - told before it was run, or when an input is lost, it ends as well;
/// - it can be dropped before it is run and while it runs, and in the middle of its start, at every
///   await;
/// - it reports while it runs, if it does at all;
/// - after each of these it can be started again, and nothing of it is left.
///
/// Workers with real input and output are checked on a clock that runs, others on a paused one.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use crankcase_engine::{Outcome, Stop, Worker};
/// use crankcase_testing::Conformance;
///
/// struct Poller;
///
/// impl Worker for Poller {
///     async fn run(self, stop: Stop) -> Outcome {
///         stop.wait().await;
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), crankcase_testing::Failure> {
/// Conformance::new(|| async { Ok(Poller) }).grace(Duration::from_secs(1)).check().await
/// # }
/// ```
#[must_use = "nothing is checked until `check`"]
pub struct Conformance<S, W> {
    start: S,
    start_timeout: Duration,
    grace: Duration,
    report_deadline: Duration,
    reporter: Option<MakeReporter<W>>,
    released: Option<Released>,
    ends_by_itself: bool,
}

/// How often a start is dropped, each time one await later, before it is taken for endless.
const MOST_AWAITS: usize = 1_000;

impl<S, F, W> Conformance<S, W>
where
    S: Fn() -> F,
    F: Future<Output = Result<W, Exit>>,
    W: Worker,
{
    /// Returns the checks of the workers that `start` makes.
    pub fn new(start: S) -> Self {
        Self {
            start,
            start_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            report_deadline: Duration::from_secs(1),
            reporter: None,
            released: None,
            ends_by_itself: false,
        }
    }

    /// Sets how long a start may take. Default 10 s.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Sets how long a worker that was told to stop may take to end. Default 10 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how long a report may take. Default 1 s.
    pub fn report_deadline(mut self, deadline: Duration) -> Self {
        self.report_deadline = deadline;
        self
    }

    /// Checks its reporter too, made as for
    /// [`StagedBuilder::report`](crankcase_engine::StagedBuilder::report).
    pub fn report<P, R, D>(mut self, reporter: impl Fn(&W) -> P + Send + Sync + 'static) -> Self
    where
        P: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = D> + Send + 'static,
        D: Send + 'static,
    {
        self.reporter = Some(Box::new(move |worker| {
            let report = reporter(worker);
            Box::new(move || {
                let answer = report();
                Box::pin(async move { drop(answer.await) })
            })
        }));
        self
    }

    /// Checks after each worker's end that nothing of it is left: processes, files, sockets. It may
    /// wait; what is left is the error.
    pub fn released<R>(mut self, released: impl Fn() -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.released = Some(Box::new(move || Box::pin(released())));
        self
    }

    /// Says that the worker may end by itself, well or not, before it is told to stop.
    pub fn ends_by_itself(mut self) -> Self {
        self.ends_by_itself = true;
        self
    }

    /// Checks all claims.
    ///
    /// # Errors
    ///
    /// The first claim that does not hold, and what happened instead.
    pub async fn check(&self) -> Result<(), Failure> {
        self.claim("it starts and runs until it is told to stop", self.runs()).await?;
        self.claim("told twice is told once", self.told_twice()).await?;
        self.claim("told before it is run, it ends", self.told_before()).await?;
        self.claim("it ends when it has lost an input and is told to stop", self.loses()).await?;
        self.claim("it can be dropped before it is run", self.dropped_before()).await?;
        self.claim("it can be dropped while it runs", self.dropped_amid()).await?;
        self.claim("its start can be dropped at every await", self.dropped_in_start()).await?;
        if let Some(reporter) = &self.reporter {
            self.claim("it reports while it runs", self.reports(reporter)).await?;
        }
        Ok(())
    }

    /// Checks one claim, and that nothing is left afterwards.
    async fn claim(
        &self,
        claim: &str,
        check: impl Future<Output = Result<(), String>>,
    ) -> Result<(), Failure> {
        let failed = |what: String| Failure::new(format!("expected: {claim}\nhappened: {what}"));
        check.await.map_err(failed)?;
        let Some(released) = &self.released else { return Ok(()) };
        released().await.map_err(|left| failed(format!("afterwards {left}")))
    }

    async fn start(&self) -> Result<W, String> {
        match timeout(self.start_timeout, (self.start)()).await {
            Ok(Ok(worker)) => Ok(worker),
            Ok(Err(exit)) => Err(format!("its start ended: {exit}")),
            Err(_) => Err(format!("its start took longer than {:?}", self.start_timeout)),
        }
    }

    /// Starts a worker and lets it go as far as it gets at once.
    async fn run(&self) -> Result<Bare, String> {
        let mut worker = Bare::run(self.start().await?);
        for _ in 0..100 {
            yield_now().await;
        }
        if worker.has_ended() && !self.ends_by_itself {
            return Err(format!("it ended by itself: {}", text(&worker.ended().await)));
        }
        Ok(worker)
    }

    /// Waits for the end of a worker that was told to stop.
    async fn ends(&self, mut worker: Bare) -> Result<(), String> {
        match timeout(self.grace, worker.ended()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) if self.ends_by_itself => Ok(()),
            Ok(Err(exit)) => Err(format!("told to stop, it ended: {exit}")),
            Err(_) => Err(format!("told to stop, it has not ended within {:?}", self.grace)),
        }
    }

    async fn runs(&self) -> Result<(), String> {
        let worker = self.run().await?;
        worker.stopper().stop();
        self.ends(worker).await
    }

    async fn told_twice(&self) -> Result<(), String> {
        let worker = self.run().await?;
        worker.stopper().stop();
        yield_now().await;
        worker.stopper().stop();
        self.ends(worker).await
    }

    async fn told_before(&self) -> Result<(), String> {
        let (stopper, stop) = Stop::pair();
        stopper.stop();
        let run = self.start().await?.run(stop);
        match timeout(self.grace, run).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) if self.ends_by_itself => Ok(()),
            Ok(Err(exit)) => Err(format!("it ended: {exit}")),
            Err(_) => Err(format!("it has not ended within {:?}", self.grace)),
        }
    }

    async fn loses(&self) -> Result<(), String> {
        let worker = self.run().await?;
        worker.stopper().lose_input();
        yield_now().await;
        worker.stopper().stop();
        let mut worker = worker;
        // How it ends then is its own affair.
        let ended = timeout(self.grace, worker.ended()).await;
        ended.map(drop).map_err(|_| format!("it has not ended within {:?}", self.grace))
    }

    async fn dropped_before(&self) -> Result<(), String> {
        drop(self.start().await?);
        self.runs().await.map_err(|what| format!("the next one: {what}"))
    }

    /// Drops workers after one, two, four ... turns, so that they are at other places.
    async fn dropped_amid(&self) -> Result<(), String> {
        for turns in [1, 2, 4, 8, 100] {
            let mut worker = Bare::run(self.start().await?);
            for _ in 0..turns {
                yield_now().await;
            }
            worker.abort();
            let dropped = timeout(self.grace, worker.ended()).await;
            match dropped {
                Err(_) => return Err(format!("dropped, it is not gone within {:?}", self.grace)),
                Ok(Err(exit)) if exit.is_panic() => return Err(format!("dropped, it {exit}")),
                Ok(_) => {}
            }
        }
        self.runs().await.map_err(|what| format!("the next one: {what}"))
    }

    async fn dropped_in_start(&self) -> Result<(), String> {
        for awaits in 1..=MOST_AWAITS {
            let start = polled((self.start)(), awaits);
            match timeout(self.start_timeout, start).await {
                Ok(None) => {}
                Ok(Some(Ok(worker))) => {
                    drop(worker);
                    return self.runs().await.map_err(|what| format!("the next one: {what}"));
                }
                Ok(Some(Err(exit))) => {
                    return Err(format!("after {} were dropped: {exit}", awaits - 1));
                }
                Err(_) => return Err(format!("it took longer than {:?}", self.start_timeout)),
            }
        }
        Err(format!("its start has more than {MOST_AWAITS} awaits"))
    }

    async fn reports(&self, reporter: &MakeReporter<W>) -> Result<(), String> {
        let worker = self.start().await?;
        let report = Arc::new(reporter(&worker));
        let late = || format!("it did not report within {:?}", self.report_deadline);
        let worker = Bare::run(worker);
        for _ in 0..100 {
            yield_now().await;
        }
        timeout(self.report_deadline, report()).await.map_err(|_| late())?;
        worker.stopper().stop();
        // One that is asked while the worker ends may have nothing to say, but must not panic.
        drop(timeout(self.report_deadline, report()).await);
        self.ends(worker).await
    }
}

impl<S, W> fmt::Debug for Conformance<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conformance")
            .field("start_timeout", &self.start_timeout)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

/// Polls a future that often at most, and drops it if it is not ready then.
async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls >= times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn text(outcome: &Outcome) -> String {
    outcome.as_ref().map_or_else(Exit::to_string, |()| "done".to_owned())
}
