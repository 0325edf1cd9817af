use std::fmt;
use std::sync::Arc;

use crankcase_engine::{
    ChangeError, Detail, EndKind, Engine, Event, EventKind, Exit, Manifold, Name, Outcome,
    OutputWatch, Panicked,
};
use parking_lot::Mutex;

use crate::engine::test_engine;
use crate::failure::Failure;
use crate::recorder::EventRecorder;
use crate::stubs::Stubs;

/// What the manifold under test is installed under.
const SUBJECT: Name<()> = Name::new("subject");

/// Starts a manifold with stubs for its inputs, in an engine of its own.
///
/// The manifold is installed as `subject`, which its stubs must not be called. When its worker
/// ends, it is not started again.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Exit, Manifold, Name};
/// use crankcase_testing::{Stubs, StartError, start};
///
/// const PORT: Name<u16> = Name::new("port");
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let web = Manifold::builder().inputs(PORT).run(|port, up| async move {
///     if port < 1024 {
///         return Err("it is privileged".into());
///     }
///     up.ready(()).wait().await;
///     Ok(())
/// });
/// let failed = start(web.clone(), Stubs::new().value(&PORT, 80)).await;
/// assert!(matches!(failed, Err(StartError::Ended(Err(Exit::Failed(error))))
///     if error.to_string() == "it is privileged"));
///
/// let missing = start(web, Stubs::new().absent(&PORT)).await;
/// assert!(matches!(missing, Err(StartError::Waiting(why))
///     if why == "/subject waits for /port, which is not installed"));
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// When the manifold does not fit its stubs, its worker ends before it is up, or an input keeps it
/// from being started.
///
/// # Panics
///
/// Outside a tokio runtime with time enabled.
pub async fn start(manifold: Manifold, stubs: Stubs) -> Result<Started, StartError> {
    let exit = Arc::new(Mutex::new(None));
    let engine = test_engine().build().expect("the kit's own settings are right");
    let events = EventRecorder::new(&engine);
    let keep = Arc::clone(&exit);
    let manifold = manifold.filter(move |exit| {
        let text = exit.to_string();
        *keep.lock() = Some(exit);
        // Not a failure: it must not be started again.
        Err(Exit::Missing(text))
    });
    let mut started = Started { engine, events, exit };
    started.engine.apply(stubs.change.install(SUBJECT, manifold)).await?;
    started.wait_until_up().await?;
    Ok(started)
}

/// Why [`start`] gives no worker.
#[non_exhaustive]
pub enum StartError {
    /// The manifold and its stubs do not fit together.
    Refused(ChangeError),
    /// The worker ended before it was up.
    Ended(Outcome),
    /// An input is not there, so that the worker was not started; the text says why.
    Waiting(String),
    /// The engine ended.
    Lost(Failure),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(_) => f.write_str("the manifold and its stubs do not fit together"),
            Self::Ended(Ok(())) => f.write_str("the worker was done before it was up"),
            Self::Ended(Err(exit)) => write!(f, "the worker ended before it was up: {exit}"),
            Self::Waiting(why) => write!(f, "the worker was not started: {why}"),
            Self::Lost(failure) => fmt::Display::fmt(failure, f),
        }
    }
}

impl fmt::Debug for StartError {
    /// Writes the text with its cause: a test that fails prints this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "{self}: {error}"),
            _ => fmt::Display::fmt(self, f),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ChangeError> for StartError {
    fn from(error: ChangeError) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for StartError {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

/// A manifold's worker that is up; made by [`start`].
///
/// Dropping it kills its engine.
#[must_use = "the worker is stopped when this is dropped"]
pub struct Started {
    engine: Engine,
    events: EventRecorder,
    exit: Arc<Mutex<Option<Exit>>>,
}

impl Started {
    /// Returns an output of the worker.
    ///
    /// # Errors
    ///
    /// When the manifold does not offer the type, or the worker has ended.
    pub async fn output<T>(&self) -> Result<T, Failure>
    where
        T: Clone + Send + Sync + 'static,
    {
        let mut values = self.follow::<T>().await?;
        let kind = std::any::type_name::<T>();
        values.get().ok_or_else(|| Failure::new(format!("the manifold offers no {kind} now")))
    }

    /// Follows an output of the worker.
    ///
    /// # Errors
    ///
    /// When the engine has ended.
    pub async fn follow<T>(&self) -> Result<OutputWatch<T>, Failure>
    where
        T: Clone + Send + Sync + 'static,
    {
        let watch = self.engine.output(SUBJECT.output::<T>()).follow().await;
        watch.map_err(|error| Failure::new(error.to_string()))
    }

    /// Returns the worker's own report; `None` if it has none, or did not answer in time.
    pub async fn report(&self) -> Option<Detail> {
        let mut report = self.engine.report().await;
        report.workers.remove(SUBJECT.as_str())?.report
    }

    /// Returns the engine that the worker and its stubs run in, to change them.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Waits until the worker ends by itself, and returns how.
    ///
    /// # Errors
    ///
    /// When the engine ends first.
    pub async fn ended(&mut self) -> Result<Outcome, Failure> {
        let event = self.events.wait_for(is_end).await?;
        Ok(self.outcome(event))
    }

    /// Tells the worker to stop, waits for its end, and returns what it ended with.
    ///
    /// # Errors
    ///
    /// What the worker ends with, also when it had ended before.
    pub async fn stop(mut self) -> Outcome {
        self.engine.kill();
        match self.ended().await {
            Ok(outcome) => outcome,
            Err(_) => Ok(()),
        }
    }

    async fn wait_until_up(&mut self) -> Result<(), StartError> {
        let engine = self.engine.clone();
        let is_over = |event: &Event| {
            let is_up = matches!(event.kind, EventKind::Started { .. });
            event.path() == "/subject" && (is_up || is_end(event))
        };
        let event = tokio::select! {
            biased;
            event = self.events.wait_for(is_over) => event?,
            settled = engine.settled() => {
                settled?;
                let why = engine.why(SUBJECT.as_str()).await.map(|why| why.to_string()).unwrap_or_default();
                return Err(StartError::Waiting(why));
            }
        };
        if is_end(&event) { Err(StartError::Ended(self.outcome(event))) } else { Ok(()) }
    }

    fn outcome(&self, event: Event) -> Outcome {
        if let Some(exit) = self.exit.lock().take() {
            return Err(exit);
        }
        let EventKind::Ended { end, error, is_panic } = event.kind else { return Ok(()) };
        let error = error.unwrap_or_default();
        match end {
            EndKind::Missing => Err(Exit::Missing(error)),
            EndKind::Bounce => Err(Exit::Bounce),
            EndKind::Uninstall => Err(Exit::Uninstall),
            EndKind::Failed if is_panic => {
                Err(Exit::failed(Panicked::from_payload(Box::new(error))))
            }
            EndKind::Failed => Err(Exit::failed(error)),
            EndKind::Fatal => Err(Exit::fatal(error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.engine.kill();
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("events", &self.events).finish_non_exhaustive()
    }
}

fn is_end(event: &Event) -> bool {
    event.path() == "/subject" && matches!(event.kind, EventKind::Ended { .. })
}
