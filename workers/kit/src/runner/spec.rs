//! How a runner gets a worker, and when that worker is started again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::owner::Reporter;
use crankcase_engine::{Backoff, ConfigError, Detail, Exit, Intensity, Policy, Stop, Worker};

use super::body::Recipe;
use super::restart::Restart;
use super::stay::Stay;

/// How to get a worker of a [`Runner`](super::Runner), and when it is started again.
///
/// It is cheap to clone, and may be started under several names.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use crankcase_engine::{Backoff, Intensity, Outcome, Stop, Worker};
/// use crankcase_workers::ChildSpec;
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
/// let spec = ChildSpec::transient(|_ctx| async { Ok(Poller) })
///     .backoff(Backoff::default().initial(Duration::from_millis(200)))
///     .intensity(Intensity::new(5, Duration::from_secs(60)))
///     .grace(Duration::from_secs(5));
/// # drop(spec);
/// ```
#[derive(Clone)]
pub struct ChildSpec {
    restart: Restart,
    recipe: Arc<dyn Recipe>,
    settings: Option<Arc<Settings>>,
}

/// What a spec sets for itself.
#[derive(Clone, Default)]
struct Settings {
    backoff: Option<Backoff>,
    intensity: Option<Intensity>,
    bounce_delay: Option<Duration>,
    start_timeout: Option<Duration>,
    grace: Option<Duration>,
    abort_grace: Option<Duration>,
}

impl ChildSpec {
    /// Returns the spec of a worker that is started again whatever it ends with, but for
    /// [`Exit::Uninstall`] and [`Exit::Fatal`].
    ///
    /// `start` is called for each generation. Its future is dropped when the worker is to stop, and
    /// has failed when the start timeout is over.
    pub fn permanent<S, F, W>(start: S) -> Self
    where
        S: Fn(ChildContext) -> F + Send + Sync + 'static,
        F: Future<Output = Result<W, Exit>> + Send + 'static,
        W: Worker,
    {
        Self::new(Restart::Permanent, start)
    }

    /// Returns the spec of a worker that is started again unless it ended well.
    pub fn transient<S, F, W>(start: S) -> Self
    where
        S: Fn(ChildContext) -> F + Send + Sync + 'static,
        F: Future<Output = Result<W, Exit>> + Send + 'static,
        W: Worker,
    {
        Self::new(Restart::Transient, start)
    }

    /// Returns the spec of a worker that is started once.
    pub fn temporary<S, F, W>(start: S) -> Self
    where
        S: Fn(ChildContext) -> F + Send + Sync + 'static,
        F: Future<Output = Result<W, Exit>> + Send + 'static,
        W: Worker,
    {
        Self::new(Restart::Temporary, start)
    }

    /// Returns the spec of a worker that is started again as `restart` says.
    pub fn new<S, F, W>(restart: Restart, start: S) -> Self
    where
        S: Fn(ChildContext) -> F + Send + Sync + 'static,
        F: Future<Output = Result<W, Exit>> + Send + 'static,
        W: Worker,
    {
        Self { restart, recipe: Arc::new(start), settings: None }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(self.settings.get_or_insert_default()));
        self
    }

    /// Sets the wait after a failure. Default: the runner's.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|settings| settings.backoff = Some(backoff))
    }

    /// Sets how many failures are borne. Default: the runner's.
    #[must_use]
    pub fn intensity(self, intensity: Intensity) -> Self {
        self.set(|settings| settings.intensity = Some(intensity))
    }

    /// Sets the wait before a restart that is no failure. Default: the runner's.
    #[must_use]
    pub fn bounce_delay(self, delay: Duration) -> Self {
        self.set(|settings| settings.bounce_delay = Some(delay))
    }

    /// Sets how long a start may take. Default: the runner's.
    #[must_use]
    pub fn start_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.start_timeout = Some(timeout))
    }

    /// Sets how long a worker that was told to stop has before it is dropped. Default: the runner's.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        self.set(|settings| settings.grace = Some(grace))
    }

    /// Sets how long a worker whose future is to be dropped is waited for. Default: the runner's.
    #[must_use]
    pub fn abort_grace(self, grace: Duration) -> Self {
        self.set(|settings| settings.abort_grace = Some(grace))
    }

    pub(super) fn restart(&self) -> Restart {
        self.restart
    }

    /// Returns the runner's policy with the spec's own settings in it.
    pub(super) fn policy(&self, runner: &Arc<Policy>) -> Result<Arc<Policy>, ConfigError> {
        let Some(settings) = &self.settings else { return Ok(Arc::clone(runner)) };
        let mut policy = Policy::clone(runner);
        policy.backoff = settings.backoff.clone().unwrap_or(policy.backoff);
        policy.bounce_delay = settings.bounce_delay.unwrap_or(policy.bounce_delay);
        policy.start_timeout = settings.start_timeout.unwrap_or(policy.start_timeout);
        policy.grace = settings.grace.unwrap_or(policy.grace);
        policy.abort_grace = settings.abort_grace.unwrap_or(policy.abort_grace);
        policy.intensity = settings.intensity.or(policy.intensity);
        policy.validate()?;
        Ok(Arc::new(policy))
    }

    /// Returns how to get and run its workers.
    pub(super) fn into_recipe(self) -> Arc<dyn Recipe> {
        self.recipe
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec").field("restart", &self.restart).finish_non_exhaustive()
    }
}

/// What a start is told of the worker it makes.
#[derive(Clone)]
pub struct ChildContext {
    pub(super) stay: Arc<Stay>,
    pub(super) generation: u32,
    pub(super) stop: Stop,
}

impl ChildContext {
    /// Returns the name that the worker is started under.
    pub fn name(&self) -> &str {
        self.stay.name()
    }

    /// Returns how many workers this spec has had under the name, this one included.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the worker's view of the request to stop.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Takes the worker's own report from an asynchronous function, until the worker has ended.
    ///
    /// One that does not answer within the report deadline of the runner's policy is named, and is
    /// not asked again before it has answered.
    pub fn report<P, F, D>(&self, reporter: P)
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = D> + Send + 'static,
        D: Into<Detail>,
    {
        self.stay.set_reporter(self.generation, |stopper| Reporter::new(reporter, stopper));
    }
}

impl fmt::Debug for ChildContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildContext")
            .field("name", &self.name())
            .field("generation", &self.generation)
            .field("stop", &self.stop)
            .finish()
    }
}
