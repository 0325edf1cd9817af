use std::fmt::{self, Debug};
use std::time::Duration;

use crankcase_engine::{
    ChangeError, Detail, EndKind, Engine, Event, EventKind, Manifold, Name, WorkerReport,
    WorkerState,
};
use tokio::time::timeout;

use crate::engine::test_engine;
use crate::failure::Failure;
use crate::input::Input;
use crate::journal::Journal;
use crate::kill::clean_kill;
use crate::recorder::{EventRecorder, wait_for_state};
use crate::stubs::Stubs;

/// What the manifold under test is installed under.
const SUBJECT: Name<()> = Name::new("subject");
const PATH: &str = "/subject";

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
/// let mut port = harness.input(&PORT);
/// let mut limit = harness.input(&LIMIT);
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
    pub async fn new(manifold: Manifold) -> Result<Self, Failure> {
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
    pub async fn among(manifold: Manifold, stubs: Stubs) -> Result<Self, Failure> {
        let engine = test_engine().build().expect("the kit's own settings are right");
        let events = EventRecorder::new(&engine);
        let (journal, limit) = (Journal::new(), Duration::from_secs(600));
        let installed = engine.apply(stubs.change.install(SUBJECT, manifold)).await;
        installed.map_err(|error| Failure::new(text_of(&error)))?;
        Ok(Self { engine, events, journal, limit })
    }

    /// Sets how long an expectation waits by the clock. Default 10 min.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns an input that is driven by hand. It is absent until it [comes](Input::come).
    ///
    /// When it changes, another worker offers the new value.
    pub fn input<T>(&self, name: &Name<T>) -> Input<T>
    where
        T: Clone + Debug + Send + Sync + 'static,
    {
        Input::plain(name, self.engine.clone(), self.journal.clone())
    }

    /// Returns an input that is driven by hand and whose value is a changing output: when it
    /// changes, the same worker publishes the new value.
    pub fn changing<T>(&self, name: &Name<T>) -> Input<T>
    where
        T: Clone + Debug + PartialEq + Send + Sync + 'static,
    {
        Input::changing(name, self.engine.clone(), self.journal.clone())
    }

    /// Waits until the worker is up, and returns its generation.
    ///
    /// # Errors
    ///
    /// When it does not come up in time, or ends before it is up.
    pub async fn expect_start(&mut self) -> Result<u32, Failure> {
        let event = self.next("that it starts", |_| true).await?;
        let EventKind::Started { generation } = event.kind else {
            return Err(self.failure("that it starts", &happened(&event)).await);
        };
        Ok(generation)
    }

    /// Waits until the worker has ended because it was told to.
    ///
    /// # Errors
    ///
    /// When it does not end in time, or ends by itself.
    pub async fn expect_stop(&mut self) -> Result<(), Failure> {
        let event = self.next("that it stops", is_end).await?;
        match &event.kind {
            EventKind::Ended { end: EndKind::Stopped, .. } => Ok(()),
            _ => Err(self.failure("that it stops", &happened(&event)).await),
        }
    }

    /// Waits until the worker has stopped and another one is up; returns its generation.
    ///
    /// # Errors
    ///
    /// When it does not in time, or ends by itself.
    pub async fn expect_bounce(&mut self) -> Result<u32, Failure> {
        self.expect_stop().await?;
        self.expect_start().await
    }

    /// Waits until the worker has ended by itself, and returns how and with which error.
    ///
    /// # Errors
    ///
    /// When it does not end in time, or was told to.
    pub async fn expect_end(&mut self) -> Result<(EndKind, Option<String>), Failure> {
        let event = self.next("that it ends by itself", is_end).await?;
        match event.kind {
            EventKind::Ended { end, ref error, .. } if end != EndKind::Stopped => {
                Ok((end, error.clone()))
            }
            _ => Err(self.failure("that it ends by itself", &happened(&event)).await),
        }
    }

    /// Waits until the engine has settled, and demands that the worker has neither come up nor ended
    /// since the last expectation.
    ///
    /// # Errors
    ///
    /// When it has.
    pub async fn expect_quiet(&mut self) -> Result<(), Failure> {
        self.settled("that nothing happens to it").await?;
        let event = self.events.take_now(|event| event.path() == PATH && is_turn(event))?;
        match event {
            None => Ok(()),
            Some(event) => Err(self.failure("that nothing happens to it", &happened(&event)).await),
        }
    }

    /// Waits until the engine has settled, and demands that the worker does not run for this reason,
    /// as [`Engine::why`] says it.
    ///
    /// # Errors
    ///
    /// When it runs, or for another reason.
    pub async fn expect_waiting(&mut self, why: &str) -> Result<(), Failure> {
        let expected = format!("that {why}");
        self.settled(&expected).await?;
        let found = self.engine.why(SUBJECT.as_str()).await.map(|why| why.to_string());
        match found {
            Some(found) if found == why => Ok(()),
            Some(found) => Err(self.failure(&expected, &found).await),
            None => Err(self.failure(&expected, "it is not installed").await),
        }
    }

    /// Waits until the worker offers this value.
    ///
    /// # Errors
    ///
    /// When it does not in time, or its manifold does not offer the type.
    pub async fn expect_output<T>(&mut self, expected: T) -> Result<(), Failure>
    where
        T: Clone + Debug + PartialEq + Send + Sync + 'static,
    {
        let followed = self.engine.output(SUBJECT.output::<T>()).follow().await;
        let mut output = followed.map_err(|error| Failure::new(text_of(&error)))?;
        let mut last = output.get();
        let came = timeout(self.limit, async {
            while last.as_ref() != Some(&expected)
                && let Ok(next) = output.changed().await
            {
                last = next;
            }
        });
        if came.await.is_ok() && last.as_ref() == Some(&expected) {
            return Ok(());
        }
        let expected = format!("that it offers {expected:?}");
        let happened =
            last.map_or("it offers nothing".to_owned(), |last| format!("it is {last:?}"));
        Err(self.failure(&expected, &happened).await)
    }

    /// Demands that the worker has come up this many times in all.
    ///
    /// # Errors
    ///
    /// When it has not.
    pub async fn expect_starts(&mut self, starts: u32) -> Result<(), Failure> {
        let found = self.report().await?.generation;
        if found == starts {
            return Ok(());
        }
        let expected = format!("that it was started {starts} times");
        Err(self.failure(&expected, &format!("it was started {found} times")).await)
    }

    /// Waits until the worker is in a state that lasts.
    ///
    /// # Errors
    ///
    /// When it is not in time.
    pub async fn expect_state(&mut self, state: WorkerState) -> Result<(), Failure> {
        let expected = format!("that it is {state}");
        let engine = self.engine.clone();
        match timeout(self.limit, wait_for_state(&engine, "subject", state)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(self.failure(&expected, &failure.to_string()).await),
            Err(_) => Err(self.failure(&expected, "it is not").await),
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

    /// Stops everything, and demands that it ends well.
    ///
    /// # Errors
    ///
    /// When the engine has ended with an error, or something is left behind.
    pub async fn finish(self) -> Result<(), Failure> {
        clean_kill(self.engine.clone()).await
    }

    /// Waits for the worker's next turn of a kind: that it comes up, or ends.
    async fn next(
        &mut self,
        expected: &str,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Event, Failure> {
        let is_next = |event: &Event| event.path() == PATH && is_turn(event) && is_wanted(event);
        match timeout(self.limit, self.events.wait_for(is_next)).await {
            Ok(Ok(event)) => Ok(event),
            Ok(Err(_)) => Err(self.failure(expected, "the engine has ended").await),
            Err(_) => {
                let limit = self.limit;
                let why = self.engine.why(SUBJECT.as_str()).await;
                let why = why.map(|why| why.to_string()).unwrap_or_default();
                Err(self.failure(expected, &format!("nothing within {limit:?}; {why}")).await)
            }
        }
    }

    async fn settled(&mut self, expected: &str) -> Result<(), Failure> {
        match timeout(self.limit, self.engine.settled()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.failure(expected, "the engine has ended").await),
            Err(_) => Err(self.failure(expected, "the engine does not settle").await),
        }
    }

    /// Says what was expected, what happened in its place, and all that happened before.
    async fn failure(&mut self, expected: &str, happened: &str) -> Failure {
        // What came after the last look is told too.
        drop(self.events.take_now(|_| false));
        let mut text = format!("expected {expected}\nhappened: {happened}\n");
        text.push_str("the engine's events:");
        for line in self.events.lines() {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        text.push_str("\nthe journal:");
        for line in self.journal.lines() {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        text.push_str("\nthe report:");
        for line in self.engine.report().await.to_string().lines() {
            text.push_str("\n  ");
            text.push_str(line);
        }
        Failure::new(text)
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

/// Whether it tells that a worker is up, or has ended.
fn is_turn(event: &Event) -> bool {
    matches!(event.kind, EventKind::Started { .. }) || is_end(event)
}

fn is_end(event: &Event) -> bool {
    matches!(event.kind, EventKind::Ended { .. })
}

fn happened(event: &Event) -> String {
    format!("{} {}", event.path(), event.kind)
}

/// Returns a refusal with its cause.
fn text_of(error: &ChangeError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
