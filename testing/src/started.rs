//! Starts one manifold with stubs for its inputs, and follows its worker.

mod lives;

use std::fmt;

use crankcase_engine::owner;
use crankcase_engine::testing::name_of;
use crankcase_engine::{
    ChangeError, Detail, EndKind, Engine, Event, EventKind, Exit, Live, Manifold, Outcome,
};
use lives::Lives;
use tokio::time::timeout;

use crate::failure::{Failure, hint};
use crate::recorder::EventRecorder;
use crate::stubs::Stubs;
use crate::subject::{SUBJECT, is_about};
use crate::wait::{LIMIT, settled};

/// Starts a manifold with stubs for its inputs, in an engine of its own.
///
/// The manifold is installed as `subject`, which its stubs must not be called. When its worker ends
/// by itself, it is not started again; otherwise it is as in production, and bounced when its inputs
/// change.
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
/// let failed = start(web.clone(), Stubs::new().value(PORT, 80)).await;
/// assert!(matches!(failed, Err(StartError::Ended(Err(Exit::Failed(error))))
///     if error.to_string() == "it is privileged"));
///
/// let missing = start(web, Stubs::new().absent(PORT)).await;
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
pub async fn start(manifold: impl Into<Manifold>, stubs: Stubs) -> Result<Started, StartError> {
    let (engine, change) = stubs.into_parts();
    let engine = engine.build().map_err(|error| Failure::new(format!("no engine: {error}")))?;
    let events = EventRecorder::new(&engine);
    let lives = Lives::default();
    let manifold = lives.around(manifold.into());
    let mut started = Started { engine, events, lives, now: None, has_ended: false };
    started.engine.apply(change.install(SUBJECT, manifold)).await?;
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
    /// The engine has ended, or its settings are wrong.
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
            Self::Refused(error) => write!(f, "{self}: {error}{}", hint(error)),
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
    lives: Lives,
    /// The present worker, until its end has been seen.
    now: Option<Life>,
    has_ended: bool,
}

/// What is said of a worker that outlives its grace.
const DROPPED: &str = "it has not ended within its grace, and was dropped";

/// What the events have said of the present worker.
#[derive(Default)]
struct Life {
    generation: u32,
    is_told: bool,
    is_dropped: bool,
}

/// How one worker has ended.
struct End {
    was_told: bool,
    outcome: Outcome,
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
        let values = self.follow::<T>().await?;
        let kind = name_of::<T>();
        values.get().ok_or_else(|| Failure::new(format!("the manifold offers no {kind} now")))
    }

    /// Follows an output of the worker.
    ///
    /// # Errors
    ///
    /// When the manifold does not offer the type, or the engine has ended.
    pub async fn follow<T>(&self) -> Result<Live<T>, Failure>
    where
        T: Clone + Send + Sync + 'static,
    {
        Ok(self.engine.output(SUBJECT.output::<T>()).follow().await?)
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

    /// Waits until the worker ends by itself, and returns how. A bounce is no such end.
    ///
    /// # Errors
    ///
    /// When the engine ends first, the worker does not end within ten minutes by the clock, or its end
    /// was returned before.
    pub async fn ended(&mut self) -> Result<Outcome, Failure> {
        if self.has_ended {
            return Err(Failure::new("the worker has ended, and how was asked for before"));
        }
        // In all: what a worker tells on the way prolongs nothing.
        match timeout(LIMIT, self.next_own_end()).await {
            Ok(ended) => ended,
            Err(_) => {
                let text = format!("the worker has not ended within {LIMIT:?}");
                Err(Failure::with_seen(&text, &self.events.all_lines()))
            }
        }
    }

    async fn next_own_end(&mut self) -> Result<Outcome, Failure> {
        loop {
            let end = self.next_end().await?;
            if !end.was_told {
                self.has_ended = true;
                return Ok(end.outcome);
            }
        }
    }

    /// Tells the worker to stop, waits for its end, and returns what it ended with.
    ///
    /// # Errors
    ///
    /// What the worker ends with, also when it had ended before, unless [`ended`](Self::ended) has
    /// returned that; a failure when it has not ended within
    /// its grace, and was dropped or left behind.
    pub async fn stop(mut self) -> Outcome {
        self.engine.kill();
        let mut last: Option<End> = None;
        loop {
            match self.next_end().await {
                // After an end of its own nothing has run.
                Ok(_) if self.has_ended => {}
                Ok(end) => {
                    self.has_ended = !end.was_told;
                    last = Some(end);
                }
                Err(_) if self.events.is_over() => {
                    // What is stuck does not even end then.
                    return match (&self.now, last) {
                        (Some(_), _) => Err("it has not ended, and was left behind".into()),
                        (None, Some(end)) => end.outcome,
                        (None, None) => Ok(()),
                    };
                }
                Err(failure) => return Err(Exit::failed(failure)),
            }
        }
    }

    /// Waits until the worker ends by itself, for as long as it takes.
    pub(crate) async fn own_end(&mut self) -> Outcome {
        loop {
            match self.ended().await {
                Ok(outcome) => return outcome,
                Err(failure) if self.events.is_over() => return Err(Exit::failed(failure)),
                Err(_) => {}
            }
        }
    }

    async fn wait_until_up(&mut self) -> Result<(), StartError> {
        let engine = self.engine.clone();
        let is_subjects = |event: &Event| is_about(event, &engine, &SUBJECT);
        loop {
            let event = tokio::select! {
                biased;
                event = self.events.wait_for(is_subjects) => event?,
                settled = settled(&engine) => {
                    let text = "the engine ended before the worker was up";
                    settled.map_err(|_| Failure::with_seen(text, &self.events.all_lines()))?;
                    // What came from another thread since the look at the events is among them.
                    match self.events.take_now(is_subjects)? {
                        Some(event) => event,
                        None => return Err(StartError::Waiting(self.why().await)),
                    }
                }
            };
            if let Some(end) = self.see(&event) {
                return Err(StartError::Ended(end.outcome));
            }
            if matches!(event.kind, EventKind::Started { .. }) {
                return Ok(());
            }
        }
    }

    async fn why(&self) -> String {
        let why = self.engine.why(SUBJECT.as_str()).await;
        why.map(|why| why.to_string()).unwrap_or_default()
    }

    /// Waits for the next end of a worker.
    async fn next_end(&mut self) -> Result<End, Failure> {
        let engine = self.engine.clone();
        loop {
            let event = self.events.wait_for(|event| is_about(event, &engine, &SUBJECT)).await?;
            if let Some(end) = self.see(&event) {
                return Ok(end);
            }
        }
    }

    /// Enters an event of the worker; returns how it has ended if it has.
    fn see(&mut self, event: &Event) -> Option<End> {
        match event.kind {
            EventKind::Starting { generation } => {
                self.now = Some(Life { generation, ..Life::default() });
            }
            EventKind::Stopping => self.now.get_or_insert_default().is_told = true,
            EventKind::Aborted => {
                let life = self.now.get_or_insert_default();
                life.is_dropped = life.is_told;
            }
            EventKind::Ended { end, ref error, is_panic } => {
                let life = self.now.take().unwrap_or_default();
                let outcome = match self.lives.take(life.generation) {
                    Some(exit) => Err(exit),
                    None if life.is_dropped => Err(DROPPED.into()),
                    None => outcome(end, error.clone().unwrap_or_default(), is_panic),
                };
                return Some(End { was_told: life.is_told, outcome });
            }
            _ => {}
        }
        None
    }
}

/// Returns what a worker has ended with that no filter was asked about.
fn outcome(end: EndKind, error: String, is_panic: bool) -> Outcome {
    match end {
        EndKind::Missing => Err(Exit::Missing(error)),
        EndKind::Bounce => Err(Exit::Bounce),
        EndKind::Uninstall => Err(Exit::Uninstall),
        EndKind::Failed if is_panic => Err(Exit::failed(owner::panic_of(Box::new(error)))),
        EndKind::Failed => Err(Exit::failed(error)),
        EndKind::Fatal => Err(Exit::fatal(error)),
        _ => Ok(()),
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
