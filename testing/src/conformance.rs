//! Checks that a worker is as an engine needs it, whatever it does.

mod claims;
mod installed;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use crankcase_engine::{Exit, Manifold, Stop, Worker};
pub use installed::Installed;

use crate::stubs::Stubs;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Reporter = Box<dyn Fn() -> Boxed<()> + Send + Sync>;
type MakeReporter<W> = Box<dyn Fn(&W) -> Reporter + Send + Sync>;
type Released = Box<dyn Fn() -> Boxed<Result<(), String>> + Send + Sync>;

/// Checks that a worker is as an engine needs it, whatever it does.
///
/// Each claim is checked with a fresh worker, which is started as its manifold would start it:
///
/// - it starts, and goes on until it is told to stop: for a minute by the clock, or for as long as
///   [`runs_for`](Self::runs_for) says;
/// - told to stop, once or twice, it ends well within its grace;
/// - told before it was run, or when an input is lost before or after it is told, it ends as well;
/// - it can be dropped before it is run, while it runs and while it stops, and in the middle of its
///   start, at every await;
/// - it reports while it runs, if it does at all;
/// - after each end and drop, as soon as nothing [lingers](Stop::linger), it can be started again,
///   and nothing of it is left.
///
/// Workers with real input and output are checked on a clock that runs, others on a paused one. With
/// a clock that runs say by [`runs_for`](Self::runs_for) how long is worth waiting.
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
/// Conformance::new(|_stop| async { Ok(Poller) }).grace(Duration::from_secs(1)).check().await
/// # }
/// ```
#[must_use = "nothing is checked until `check`"]
pub struct Conformance<S, W> {
    start: S,
    start_timeout: Duration,
    runs_for: Duration,
    grace: Duration,
    report_deadline: Duration,
    reporter: Option<MakeReporter<W>>,
    released: Option<Released>,
    ends_by_itself: bool,
}

impl Conformance<(), ()> {
    /// Returns the checks of the workers of a manifold, which may be closures. Each is started among
    /// stubs of its own, in an engine of its own.
    ///
    /// A drop drops the worker's future. In the middle of its start it is told to stop, as a worker
    /// is whose engine is killed. The stubs stay as they are, so that no input is lost; and the
    /// [wrap](crankcase_engine::EngineBuilder::wrap) of their engine is set by the checks. Workers that
    /// block their threads cannot be dropped, and are to be checked by a test of their own; so is the
    /// manifold's reporter, which is not asked.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::{Manifold, Name};
    /// use crankcase_testing::{Conformance, Stubs};
    ///
    /// const PORT: Name<u16> = Name::new("port");
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), crankcase_testing::Failure> {
    /// let web = Manifold::builder().inputs(PORT).run(|_port, up| async move {
    ///     up.ready(()).wait().await;
    ///     Ok(())
    /// });
    /// Conformance::of(web, || Stubs::new().value(PORT, 80)).check().await
    /// # }
    /// ```
    pub fn of(
        manifold: impl Into<Manifold>,
        stubs: impl Fn() -> Stubs,
    ) -> Conformance<impl Fn(Stop) -> Boxed<Result<Installed, Exit>>, Installed> {
        let manifold = manifold.into();
        Conformance::new(move |stop| -> Boxed<Result<Installed, Exit>> {
            Box::pin(Installed::start(manifold.clone(), stubs(), stop))
        })
    }
}

impl<S, F, W> Conformance<S, W>
where
    S: Fn(Stop) -> F,
    F: Future<Output = Result<W, Exit>>,
    W: Worker,
{
    /// Returns the checks of the workers that `start` makes. It is given the stop that the worker will
    /// be run with, as [`Context::stop`](crankcase_engine::Context::stop) gives it in an engine.
    pub fn new(start: S) -> Self {
        Self {
            start,
            start_timeout: Duration::from_secs(10),
            runs_for: Duration::from_secs(60),
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

    /// Sets for how long by the clock a worker must run that is told nothing. Default 1 min.
    pub fn runs_for(mut self, duration: Duration) -> Self {
        self.runs_for = duration;
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
    /// [`StagedBuilder::report`](crankcase_engine::manifold::StagedBuilder::report).
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

    /// Checks after each worker's end or drop that nothing of it is left: processes, files, sockets. It may
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
}

impl<S, W> fmt::Debug for Conformance<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conformance")
            .field("start_timeout", &self.start_timeout)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
