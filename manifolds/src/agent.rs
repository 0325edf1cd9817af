//! The frame of an agent.
//!
//! Invariants:
//! 1. The engine's loop has the thread that [`AgentBuilder::run`] is called on; signals and the
//!    control socket have a thread of their own; workers share the others. Workers that never yield
//!    take only the latter.
//! 2. The state folder is held before anything is started, and until everything has ended.
//! 3. The control socket is served by an engine of its own, which is stopped last.
//! 4. An agent whose state folder was deleted runs on, because a person deleted it by mistake, and
//!    its programs do not need it. The agent still holds the folder, so no second agent begins at
//!    its path.

mod error;
mod journal;
mod run;
mod runtimes;
mod service;
mod signals;
mod state_folder;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Change, ConfigError, Engine, EngineBuilder, Exit, Manifold, Name, Nested};
use crankcase_status::{ControlConfig, StateDir, StateLock};
use crankcase_workers::{SignalHandle, printable_lines};

pub use error::{AgentError, Ended};

use crate::logging::Logging;

use self::runtimes::Runtimes;

/// How often each signal has come, for what reloads at SIGHUP: every agent offers it.
pub const SIGNALS: Name<SignalHandle> = Name::new("signals");

/// How long after the first signal a second one counts, by default: a person is slower, and who
/// signals both a process and its group is faster.
const SIGNALS_APART: Duration = Duration::from_millis(250);

/// The frame of an agent: a process that runs an engine until a signal asks it to end.
///
/// # Guarantees
///
/// - One agent runs for each state folder.
/// - The first SIGINT or SIGTERM stops all workers in order, within the stop deadline; a second one,
///   250 ms later or more, ends the agent as soon as their programs are killed, some seconds later at most.
/// - The control socket in the state folder answers from the start until all workers have ended,
///   also while every worker thread is taken by workers that never yield.
///
/// # Examples
///
/// ```no_run
/// // It runs until a signal comes.
/// use crankcase_engine::{Manifold, Name};
/// use crankcase_manifolds::{Agent, AgentError};
///
/// const HELLO: Name<()> = Name::new("hello");
///
/// fn main() -> Result<(), AgentError> {
///     let hello = Manifold::builder().run(|(), up| async move {
///         println!("hello");
///         up.ready(()).wait().await;
///         Ok(())
///     });
///     Agent::builder().install(HELLO, hello).run()?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Agent(());

impl Agent {
    /// Returns a builder for an agent of the name `agent`, in the user's state folder.
    pub fn builder() -> AgentBuilder {
        AgentBuilder {
            name: Name::new("agent"),
            state_dir: None,
            state_lock: None,
            change: Change::new(),
            engine: Engine::builder(),
            bounds: ControlConfig::default(),
            worker_threads: None,
            stop_deadline: Duration::from_secs(60),
            logging: None,
            exit_codes: Box::new(|_| None),
            signals: None,
            signals_apart: SIGNALS_APART,
            log_names: str::to_owned,
        }
    }
}

/// Says which exit code an error stands for.
type ExitCodes = Box<dyn Fn(&(dyn std::error::Error + 'static)) -> Option<u8> + Send>;

/// Builds and runs an [`Agent`].
#[must_use = "a builder does nothing until `run`"]
pub struct AgentBuilder {
    name: Name<()>,
    state_dir: Option<StateDir>,
    state_lock: Option<Arc<StateLock>>,
    change: Change,
    engine: EngineBuilder,
    bounds: ControlConfig,
    worker_threads: Option<usize>,
    stop_deadline: Duration,
    logging: Option<Logging>,
    exit_codes: ExitCodes,
    signals: Option<SignalHandle>,
    signals_apart: Duration,
    log_names: fn(&str) -> String,
}

impl AgentBuilder {
    /// Sets the first segment of all paths. Default `agent`.
    pub fn name(mut self, name: Name<()>) -> Self {
        self.name = name;
        self
    }

    /// Sets the state folder. Default: the user's, see [`StateDir::of_user`].
    pub fn state_dir(mut self, state_dir: StateDir) -> Self {
        self.state_dir = Some(state_dir);
        self
    }

    /// Sets the lock of the state folder, for a caller that uses the folder before or after the agent runs: no other
    /// process holds the folder in between. The lock is given back when the agent has ended and the caller has dropped
    /// its own reference. The folder is that of the lock, whatever [`state_dir`](Self::state_dir) says. Default: the
    /// agent takes the lock itself, in [`run`](Self::run), and gives it back at its end.
    pub fn state_lock(mut self, state_lock: Arc<StateLock>) -> Self {
        self.state_lock = Some(state_lock);
        self
    }

    /// Installs a manifold at the start.
    pub fn install<T>(mut self, name: Name<T>, manifold: impl Into<Manifold>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.change = self.change.install(name, manifold);
        self
    }

    /// Installs a nested engine at the start.
    pub fn install_nested<T>(mut self, name: Name<T>, nested: Nested) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.change = self.change.install_nested(name, nested);
        self
    }

    /// Changes how the engine treats its workers. The frame itself sets the engine's name, where
    /// its workers run, and its kill deadline.
    pub fn engine(mut self, set: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Self {
        self.engine = set(self.engine);
        self
    }

    /// Bounds what clients of the control socket may cost.
    pub fn control(mut self, bounds: ControlConfig) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets how many threads the workers share, at least 1. Default: as many as there are
    /// processors.
    pub fn worker_threads(mut self, threads: usize) -> Self {
        self.worker_threads = Some(threads);
        self
    }

    /// Sets how long the ordered stop may take in all; what runs still is then left behind.
    /// Default 60 s.
    pub fn stop_deadline(mut self, deadline: Duration) -> Self {
        self.stop_deadline = deadline;
        self
    }

    /// Begins to log before anything else. Default: the log is left to you.
    pub fn logging(mut self, logging: Logging) -> Self {
        self.logging = Some(logging);
        self
    }

    /// Sets how the log of the engine's events names a worker, by its path. Default: the path.
    pub fn log_names(mut self, name: fn(&str) -> String) -> Self {
        self.log_names = name;
        self
    }

    /// Sets the exit code of [`main`](Self::main) after fatal errors of workers; of several, the
    /// worst one counts. It is given the error and its causes, one after the other, until it returns
    /// a code. Default 1 for all.
    pub fn exit_codes(
        mut self,
        code: impl Fn(&(dyn std::error::Error + 'static)) -> Option<u8> + Send + 'static,
    ) -> Self {
        self.exit_codes = Box::new(code);
        self
    }

    /// Runs the agent to its end, on this thread, says in the log why it failed if it did, and
    /// returns the exit code of the process.
    ///
    /// It is 0 after an ordered end, 130 after a second signal, 65 if the manifolds do not fit or a
    /// setting cannot be used, 75 if the state folder is held, what
    /// [`exit_codes`](Self::exit_codes) says of a fatal error, and else 1.
    ///
    /// # Panics
    ///
    /// Inside a tokio runtime.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// // It runs until a signal comes.
    /// use std::process::ExitCode;
    /// use crankcase_engine::{Manifold, Name};
    /// use crankcase_manifolds::{Agent, Logging};
    ///
    /// fn main() -> ExitCode {
    ///     let hello = Manifold::builder().run(|(), up| async move {
    ///         tracing::info!("hello");
    ///         up.ready(()).wait().await;
    ///         Ok(())
    ///     });
    ///     Agent::builder().logging(Logging::from_env()).install(Name::<()>::new("hello"), hello).main()
    /// }
    /// ```
    pub fn main(mut self) -> ExitCode {
        let exit_codes = std::mem::replace(&mut self.exit_codes, Box::new(|_| None));
        let error = match self.run() {
            Ok(ended) => return ended.exit_code(),
            Err(error) => error,
        };
        let code = error.fatal().and_then(|error| {
            let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
            std::iter::from_fn(|| {
                let error = cause.take()?;
                cause = error.source();
                Some(error)
            })
            .find_map(&exit_codes)
        });
        let exit_code = code.map_or_else(|| error.exit_code(), ExitCode::from);
        failed(error);
        exit_code
    }

    /// Takes signals that the caller listens for already, so that none is lost that came before
    /// [`run`](Self::run). The caller keeps listening until `run` returns. Default: the agent listens
    /// itself, from `run` on.
    pub fn signals(mut self, signals: SignalHandle) -> Self {
        self.signals = Some(signals);
        self
    }

    /// Sets how long after the first signal a second one must come to end the agent at once; what
    /// comes sooner counts as part of the first. Default 250 ms.
    ///
    /// Some who end a process signal it twice at the same moment, as its own and as one of its
    /// group: GNU `timeout` does.
    pub fn signals_apart(mut self, apart: Duration) -> Self {
        self.signals_apart = apart;
        self
    }

    /// Runs the agent to its end, on this thread.
    ///
    /// If a service manager has started this process (`NOTIFY_SOCKET`, as systemd does with
    /// `Type=notify`), it is told `READY=1` when all that was installed has settled for the first
    /// time, `STOPPING=1` when the ordered stop begins, and as `STATUS` how many workers run. With
    /// `WATCHDOG_USEC` it is told twice in that time that the engine's own task gets its turn, for as
    /// long as it does.
    ///
    /// # Errors
    ///
    /// When a setting cannot be used, when the state folder is held or cannot be used, when the
    /// manifolds do not fit each other, and the worst error that ended the agent.
    ///
    /// # Panics
    ///
    /// Inside a tokio runtime.
    pub fn run(mut self) -> Result<Ended, AgentError> {
        if let Some(logging) = &self.logging {
            logging.begin()?;
        }
        self.validate()?;
        let lock = match self.state_lock.take() {
            Some(lock) => lock,
            None => Arc::new(self.state_dir.take().map_or_else(StateDir::of_user, Ok)?.lock()?),
        };
        let runtimes = Runtimes::new(self.worker_threads)?;
        let mut may_run_on = false;
        let ended = runtimes.driver.block_on(self.run_on(&runtimes, &lock, &mut may_run_on));
        runtimes.end();
        if may_run_on {
            // The folder is theirs until this process ends.
            std::mem::forget(lock);
        }
        ended
    }

    /// Checks what would else show only later, or never.
    fn validate(&self) -> Result<(), AgentError> {
        if self.worker_threads == Some(0) {
            return Err(ConfigError::new("worker_threads", 0, "at least 1").into());
        }
        Ok(self.bounds.validate()?)
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("name", &self.name)
            .field("state_dir", &self.state_dir)
            .field("state_lock", &self.state_lock)
            .field("change", &self.change)
            .finish_non_exhaustive()
    }
}

/// Says why the agent has failed: in the log, and without one on stderr.
fn failed(error: AgentError) {
    let is_said = !matches!(error, AgentError::Logging(_));
    let text = Exit::failed(error).to_string();
    if is_said && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{text}");
    } else {
        // Nobody can be told when stderr is closed.
        #[expect(clippy::disallowed_methods, reason = "the text is printable")]
        drop(writeln!(std::io::stderr(), "{}", printable_lines(&text)));
    }
}
