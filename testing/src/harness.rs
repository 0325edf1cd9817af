//! One manifold among inputs that the test drives, and waits for what it does.

mod expect;
mod failure;

use std::fmt::{self, Debug};
use std::time::Duration;

use crankcase_engine::manifold::Offers;
use crankcase_engine::testing::name_of;
use crankcase_engine::{
    Change, Detail, Engine, EngineBuilder, Manifold, Name, Nested, WorkerReport,
};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::input::{Input, Place};
use crate::journal::Journal;
use crate::kill::clean_kill;
use crate::recorder::EventRecorder;
use crate::stubs::Stubs;
use crate::subject::SUBJECT;
use crate::wait::LIMIT;

/// Runs one manifold among inputs that the test drives, and waits for what it does.
///
/// The manifold is installed as `subject`, in a real engine without jitter. Its inputs come, change,
/// go and fail as the test says with [`Input`]; what is no input is absent. Every expectation waits
/// for an event, for at most ten minutes by the clock, which take no time when that is paused. One
/// that is not met says what was expected, what happened in its place, and all that happened
/// before.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Manifold, Name};
/// use crankcase_testing::Harness;
///
/// const PORT: Name<u16> = Name::new("port");
/// const LIMIT: Name<u32> = Name::new("limit");
///
/// fn web() -> Manifold {
///     Manifold::builder().inputs((PORT, LIMIT.optional())).offers::<(String,)>().run(
///         |(port, limit), up| async move {
///             up.ready((format!("port {port}, limit {limit:?}"),)).wait().await;
///             Ok(())
///         },
///     )
/// }
///
/// // In a test: `#[tokio::test(start_paused = true)]`.
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut harness = Harness::new(web()).await?;
/// let mut port = harness.input(PORT);
/// let mut limit = harness.input(LIMIT);
/// harness.expect_waiting("/subject waits for /port, which is not installed").await?;
///
/// port.come(80).await?;
/// harness.expect_start().await?;
/// harness.expect_output("port 80, limit None".to_owned()).await?;
///
/// limit.come(10).await?;
/// harness.expect_bounce().await?;
/// harness.expect_output("port 80, limit Some(10)".to_owned()).await?;
///
/// port.fail("the port is taken").await?;
/// harness.expect_stop().await?;
/// harness.finish().await?;
/// # Ok(()) }
/// ```
#[must_use = "the worker is stopped when this is dropped"]
pub struct Harness {
    engine: Engine,
    events: EventRecorder,
    journal: Journal,
    limit: Duration,
}

impl Harness {
    /// Installs a manifold whose inputs are all absent.
    ///
    /// # Errors
    ///
    /// When the manifold cannot be installed.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    pub async fn new(manifold: impl Into<Manifold>) -> Result<Self, Failure> {
        Self::among(manifold, Stubs::new()).await
    }

    /// Installs a manifold among stubs, which stay as they are.
    ///
    /// # Errors
    ///
    /// When the manifold and its stubs do not fit together.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    pub async fn among(manifold: impl Into<Manifold>, stubs: Stubs) -> Result<Self, Failure> {
        let (engine, change) = stubs.into_parts();
        Self::of(engine, change.install(SUBJECT, manifold)).await
    }

    /// Installs a nested engine, with its imports and exports, among stubs. Its workers' paths begin
    /// with `/subject/`.
    ///
    /// # Errors
    ///
    /// When the nested engine and its stubs do not fit together.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    pub async fn of_nested(nested: Nested, stubs: Stubs) -> Result<Self, Failure> {
        let (engine, change) = stubs.into_parts();
        Self::of(engine, change.install_nested(SUBJECT, nested)).await
    }

    async fn of(engine: EngineBuilder, change: Change) -> Result<Self, Failure> {
        let engine = engine.build().map_err(|error| Failure::new(format!("no engine: {error}")))?;
        let events = EventRecorder::new(&engine);
        engine.apply(change).await?;
        Ok(Self { engine, events, journal: Journal::new(), limit: LIMIT })
    }

    /// Sets how long an expectation waits by the clock, and each call of an input that is made from
    /// now on. Default 10 min.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns an input that is driven by hand. It is absent until it [comes](Input::come).
    ///
    /// When it changes, another worker offers the new value.
    pub fn input<T>(&self, name: Name<T>) -> Input<T>
    where
        T: Clone + Debug + Send + Sync + 'static,
    {
        Input::plain(name, self.place())
    }

    /// Returns an input that is driven by hand and whose value is a changing output: when it
    /// changes, the same worker publishes the new value.
    pub fn changing<T>(&self, name: Name<T>) -> Input<T>
    where
        T: Clone + Debug + PartialEq + Send + Sync + 'static,
    {
        Input::changing(name, self.place())
    }

    /// Returns an input that is driven by hand and offers several values, a tuple of up to eight,
    /// each of another type; or a single one that is not `Debug`. The journal tells of it without
    /// its values.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use crankcase_engine::{Manifold, Name};
    /// use crankcase_testing::Harness;
    ///
    /// type Render = Arc<dyn Fn(u32) -> String + Send + Sync>;
    ///
    /// const PAGE: Name<Render> = Name::new("page");
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let inputs = (PAGE, PAGE.output::<u32>());
    /// let web = Manifold::builder().inputs(inputs).offers::<(String,)>().run(
    ///     |(render, pages), up| async move {
    ///         up.ready((render(pages),)).wait().await;
    ///         Ok(())
    ///     },
    /// );
    /// let mut harness = Harness::new(web).await?;
    /// let mut page = harness.inputs::<(Render, u32), _>(PAGE);
    /// page.come((Arc::new(|pages| format!("{pages} pages")), 7)).await?;
    /// assert_eq!(harness.output::<String>().await?, "7 pages");
    /// harness.finish().await?;
    /// # Ok(()) }
    /// ```
    pub fn inputs<O, T>(&self, name: Name<T>) -> Input<O>
    where
        O: Offers + Clone + Sync,
    {
        Input::several(name, self.place())
    }

    fn place(&self) -> Place {
        let (engine, journal) = (self.engine.clone(), self.journal.clone());
        Place { engine, journal, limit: self.limit }
    }

    /// Waits until the worker is up, and returns one of its outputs.
    ///
    /// # Errors
    ///
    /// When it does not come up in time, or its manifold does not offer the type.
    pub async fn output<T>(&mut self) -> Result<T, Failure>
    where
        T: Clone + Send + Sync + 'static,
    {
        let request = self.engine.output(SUBJECT.output::<T>()).into_future();
        match timeout(self.limit, request).await {
            Ok(output) => Ok(output?),
            Err(_) => {
                let expected = format!("that it offers its {}", name_of::<T>());
                let happened = self.nothing().await;
                Err(self.failure(&expected, &happened).await)
            }
        }
    }

    /// Returns the engine's report of the worker.
    ///
    /// # Errors
    ///
    /// When the engine has ended and the worker is gone.
    pub async fn report(&self) -> Result<WorkerReport, Failure> {
        let mut report = self.engine.report().await;
        let worker = report.workers.remove(SUBJECT.as_str());
        worker.ok_or_else(|| Failure::new("the manifold is not installed any more"))
    }

    /// Returns the worker's own report; `None` if it has none, or did not answer in time.
    ///
    /// # Errors
    ///
    /// As [`report`](Self::report).
    pub async fn own_report(&self) -> Result<Option<Detail>, Failure> {
        Ok(self.report().await?.report)
    }

    /// Returns the journal in which the inputs write, for doubles of the test's own.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the engine, to change what the harness does not.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Stops everything, and demands that it ends well: every worker that is told to stop ends in
    /// its grace and without an error, as [`clean_kill`] has it.
    ///
    /// # Errors
    ///
    /// When the engine has ended with an error, a worker does not end well, or something is left
    /// behind.
    pub async fn finish(mut self) -> Result<(), Failure> {
        match clean_kill(self.engine.clone()).await {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.failure("that it ends well", &failure.to_string()).await),
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.engine.kill();
    }
}

impl Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("events", &self.events)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}
