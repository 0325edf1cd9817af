//! The settings of an engine, and how it begins.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep;

use super::Engine;
use super::nested::NestedEngine;
use super::owned::Owned;
use crate::seen::log::Log;
use crate::supervisor::inbox::Inbox;
use crate::supervisor::job::Caller;
use crate::supervisor::last_report::LastReport;
use crate::supervisor::life::Life;
use crate::supervisor::turns::LoopTask;
use crate::supervisor::watchdog::watch;
use crate::supervisor::{Beginning, EventLoop, Shared};
use crate::vocabulary::clock::Clock;
use crate::vocabulary::error::ConfigError;
use crate::vocabulary::exit::{Exit, Outcome};
use crate::vocabulary::name::Name;
use crate::vocabulary::policy::Policy;
use crate::vocabulary::settings::{Classifier, Filter, Severity, no_classifier};
use crate::worker::context::Context;
use crate::worker::host::Environment;
use crate::worker::metrics::Metrics;
use crate::worker::selections::Selections;
use crate::worker::stop::Stop;
use crate::worker::wrap::{Wrap, erase};

/// Builds an [`Engine`].
#[must_use = "a builder does nothing until `build`"]
pub struct EngineBuilder {
    name: Option<Name<()>>,
    outer: Option<Outer>,
    policy: Policy,
    filter: Option<Filter>,
    classifier: Classifier,
    metrics: Option<Arc<dyn Metrics>>,
    wrap: Option<Arc<dyn Wrap>>,
    workers: Option<Handle>,
    seed: Option<u64>,
    event_capacity: Option<usize>,
    kill_deadline: Option<Duration>,
    shows_carriers: bool,
}

/// By default, a subscriber may be this many events behind.
const EVENT_CAPACITY: usize = 4096;

/// The outer engine, and the worker there that the new engine is.
struct Outer {
    shared: Arc<Shared>,
    ctx: Context,
}

impl Default for EngineBuilder {
    fn default() -> Self {
        Self {
            name: None,
            outer: None,
            policy: Policy::default(),
            filter: None,
            classifier: Arc::new(no_classifier),
            metrics: None,
            wrap: None,
            workers: None,
            seed: None,
            event_capacity: None,
            kill_deadline: None,
            shows_carriers: false,
        }
    }
}

impl Engine {
    /// Returns a builder with the defaults of [`Policy`](crate::Policy).
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }
}

impl EngineBuilder {
    /// Sets the engine's name. Its path is `/name`, and its workers' paths begin with it. Default:
    /// no name.
    pub fn name(mut self, name: Name<()>) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the policy for all manifolds that do not set their own.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use crankcase_engine::{Engine, Policy};
    ///
    /// let policy = Policy::default().grace(Duration::from_secs(5));
    /// let builder = Engine::builder().policy(policy);
    /// ```
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Maps the errors of all workers to what they mean. Runs after a manifold's own filter.
    pub fn filter(mut self, filter: impl Fn(Exit) -> Outcome + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Sets which errors stop the engine. Default: [`Exit::Fatal`] only.
    ///
    /// Called for errors only, in the task of the worker that failed.
    pub fn classifier(
        mut self,
        classify: impl Fn(&Exit) -> Severity + Send + Sync + 'static,
    ) -> Self {
        self.classifier = Arc::new(classify);
        self
    }

    /// Sets the metrics for the workers. Default: none.
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Sets a hook around all workers, also those of nested engines. Tests use it to observe and
    /// disturb workers. Default: none. Needs the feature `testing`.
    #[cfg(feature = "testing")]
    pub fn wrap(mut self, wrap: Arc<dyn Wrap>) -> Self {
        self.wrap = Some(wrap);
        self
    }

    /// Runs the workers on another runtime than the engine's own loop. Default: the runtime on
    /// which `build` is called.
    ///
    /// Then the engine can still name its workers and end while workers block threads, even all of
    /// their runtime. On a shared runtime, one that blocks its thread may be enough to hold the
    /// loop up.
    pub fn workers_on(mut self, runtime: Handle) -> Self {
        self.workers = Some(runtime);
        self
    }

    /// Sets the seed for the order of starts and the jitter, to make them repeatable. Default: a
    /// random seed, so that engines that lost the same thing do not all retry it at the same
    /// moment. The default of a nested engine comes from the outer engine's seed, the nested
    /// engine's name and its generation.
    ///
    /// Each engine logs its seed at level debug, and [`Engine::seed`] returns it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how many events a subscriber may be behind before it misses some. Default: 4096. Must
    /// be above zero.
    pub fn event_capacity(mut self, events: usize) -> Self {
        self.event_capacity = Some(events);
        self
    }

    /// Sets how long a kill may take. A worker that has not stopped by then is left behind, and
    /// [`Engine::wait`] names it. Default: no limit except each worker's own graces.
    pub fn kill_deadline(mut self, deadline: Duration) -> Self {
        self.kill_deadline = Some(deadline);
        self
    }

    /// Shows the workers that pass values across the borders of nested engines, like all other
    /// workers. Also for all engines in this one. Default: reports, events, metrics, spans,
    /// previews and graphs leave them out.
    ///
    /// Use it to look for a fault at a border. Such a worker is shown in any case when it is stuck.
    pub fn show_carriers(mut self) -> Self {
        self.shows_carriers = true;
        self
    }

    /// Starts an engine on the current runtime.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used. The error names the setting and its value.
    ///
    /// # Panics
    ///
    /// If called outside a tokio runtime with time enabled.
    pub fn build(self) -> Result<Engine, ConfigError> {
        self.policy.validate()?;
        let event_capacity = self.event_capacity.unwrap_or(EVENT_CAPACITY);
        if event_capacity == 0 {
            return Err(ConfigError::new("event_capacity", 0, "a number above zero"));
        }
        let (life, life_receiver) = watch::channel(Life::Running);
        let current = || {
            // Panics here if the runtime has no timers. Otherwise the loop's task would panic
            // later.
            drop(sleep(Duration::ZERO));
            Handle::current()
        };
        let Self { outer, name, workers, wrap, metrics, .. } = self;
        let around = outer.as_ref().map(|outer| &outer.shared.environment);
        let prefix = outer.as_ref().map_or_else(String::new, |outer| outer.ctx.path());
        let clock = Clock::new(around.map(|around| &around.clock));
        let new_log = || Arc::new(Log::new(event_capacity, clock.wall));
        let environment = Arc::new(Environment {
            path: name.map_or(prefix.clone(), |name| format!("{prefix}/{name}")).into(),
            policy: Arc::new(self.policy),
            seed: self
                .seed
                .or_else(|| outer.as_ref().map(|outer| outer.ctx.seed()))
                .unwrap_or_else(any_seed),
            filter: self.filter,
            classifier: self.classifier,
            metrics: metrics.or_else(|| around?.metrics.clone()),
            wrap: wrap.map(erase).or_else(|| around?.wrap.clone()),
            workers: workers
                .or_else(|| around.map(|around| around.workers.clone()))
                .unwrap_or_else(Handle::current),
            driver: around.map_or_else(current, |around| around.driver.clone()),
            log: around.map_or_else(new_log, |around| Arc::clone(&around.log)),
            clock,
            selections: Selections::default(),
            shows_carriers: self.shows_carriers
                || around.is_some_and(|around| around.shows_carriers),
        });
        let shared = Arc::new(Shared {
            inbox: Inbox::default(),
            environment,
            tree: outer.as_ref().map_or_else(Arc::default, |o| Arc::clone(&o.shared.tree)),
            life: life_receiver,
            outer: outer.map(|outer| outer.ctx.stop().clone()),
            left_behind: OnceLock::new(),
            last_report: LastReport::default(),
        });
        shared.tree.enter(&shared);
        tracing::debug!(parent: None, engine = shared.environment.own_path(), seed = shared.environment.seed, "an engine begins");
        let beginning = Beginning {
            shared: Arc::clone(&shared),
            life,
            kill_deadline: self.kill_deadline,
            linger: shared.outer.as_ref().map(Stop::linger),
        };
        let task = LoopTask::new(EventLoop::new(beginning));
        drop(shared.environment.driver.spawn(task.run()));
        watch(&shared);
        let is_outermost = shared.outer.is_none();
        let owned = is_outermost.then(|| Arc::new(Owned::new(Arc::clone(&shared))));
        Ok(Engine { shared, caller: Caller::default(), owned })
    }

    /// Starts an engine that is a worker of another engine. The new engine has that worker's path.
    /// It shares the outer engine's events and the runtime of its loop.
    ///
    /// Prefer [`Nested`](crate::Nested). This function is for workers that build their engine by
    /// hand.
    ///
    /// The workers' runtime, the metrics and the test hook are the outer engine's unless they are
    /// set. The default seed comes from the outer engine's seed. The policy, filter, classifier and
    /// kill deadline are the new engine's own, with the usual defaults.
    ///
    /// # Errors
    ///
    /// The same as for [`build`](Self::build). Also if a name or an event capacity is set, because
    /// the path comes from the worker and the events belong to the outer engine. Also if the worker
    /// already has an engine.
    pub fn build_nested(mut self, ctx: &Context) -> Result<NestedEngine, ConfigError> {
        if let Some(capacity) = self.event_capacity {
            let expected = "none for a nested engine, whose events are the outer one's";
            return Err(ConfigError::new("event_capacity", capacity, expected));
        }
        if let Some(name) = &self.name {
            let expected = "none for a nested engine, whose path is that of its worker";
            return Err(ConfigError::new("name", name.as_str(), expected));
        }
        let shared = Shared::of(ctx.identity());
        let path = ctx.path();
        if shared.tree.find(&path).is_some() {
            let expected = "one that no engine has: a worker is one engine at most";
            return Err(ConfigError::new("path", path, expected));
        }
        self.outer = Some(Outer { shared, ctx: ctx.clone() });
        self.build().map(NestedEngine::new)
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("name", &self.name)
            .field("policy", &self.policy)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// Returns a random seed.
fn any_seed() -> u64 {
    RandomState::new().hash_one(0)
}
