//! The settings of a simulation: its manifolds, its faults and the length of its runs.

use std::fmt;
use std::time::Duration;

use crankcase_engine::EngineBuilder;

use super::faults::{Faults, LONGEST};
use super::setup::Setup;

/// Runs manifolds of your own among faults, again and again. The seed of a run decides it.
///
/// A run has one thread and a paused clock. The [faults](Faults) strike the workers from outside:
/// starts that fail, panic, hang or are slow, workers that fail, panic, bounce or hang, stops that
/// are slow, ignored or end in a failure, inputs that come, go and change, calls by hand, manifolds
/// that are taken out or get one more input for a while, jumps of the clock, and a shuffled order
/// of tasks. Meanwhile a record of its own judges the engine's promises from the engine's events:
/// never two workers of one path, inputs there as declared, users stopped before their inputs, no
/// worker stopped without a cause, waits as they should be, no worker left with an input that is
/// gone, and reports that agree. Your own [invariants](Setup::invariant) are judged as well.
///
/// - [`safety`](Self::safety): the faults go on to the end; nothing wrong may ever happen.
/// - [`liveness`](Self::liveness): the faults stop. Every worker that is up at the end of a run without
///   faults, or was done in it, must then be up again within bounded time. Before the faults stop,
///   the effects of calls by hand are undone, and the inputs get their first values back.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use crankcase_engine::{Manifold, Name};
/// use crankcase_testing::Simulation;
/// use tokio::sync::Mutex;
///
/// const LIMIT: Name<u32> = Name::new("limit");
/// const STORE: Name<u32> = Name::new("store");
/// const WEB: Name<()> = Name::new("web");
///
/// /// Holds the lock of its file while it lives.
/// fn store(lock: Arc<Mutex<()>>) -> Manifold {
///     let builder = Manifold::builder().inputs(LIMIT).offers::<(u32,)>();
///     builder.run_with(lock, |lock, limit, up| async move {
///         let _held = lock.try_lock_owned()?;
///         up.ready((limit,)).wait().await;
///         Ok(())
///     })
/// }
///
/// fn web() -> Manifold {
///     Manifold::builder().inputs(STORE).run(|_store, up| async move {
///         up.ready(()).wait().await;
///         Ok(())
///     })
/// }
///
/// # fn main() -> Result<(), crankcase_testing::Broken> {
/// let simulation = Simulation::new(|setup| {
///     setup.input(LIMIT, vec![1, 2, 3]);
///     let lock = Arc::new(Mutex::new(()));
///     setup.install(STORE, store(Arc::clone(&lock)));
///     setup.install(WEB, web());
///     setup.invariant("only a live store holds the lock", move |view| {
///         lock.try_lock().is_ok() || view.is_live("/store")
///     });
/// });
/// simulation.safety(0..20)?;
/// simulation.liveness(0..20)?;
/// # Ok(()) }
/// ```
///
/// # Replay
///
/// A failure names its seed, and the same seed gives the same run, event by event. For this the
/// manifolds must not be random by themselves. Real input and output, threads, the wall clock, the
/// order of a `HashMap`, a `select!` that is not `biased`, and the order in which tokio wakes
/// several waiters of one `watch` make them random. Threads are also those of `spawn_blocking` and
/// of blocking workers. Put stubs in the place of real input and output, and seed random choices
/// from [`Setup::seed`]. A failure says if its seed does not replay.
///
/// `CRANKCASE_SIM_SEED=17` runs that seed alone. `CRANKCASE_SIM_RUNS=10000` runs this many seeds,
/// beginning with the first one, or with seed 17 if both are set. `CRANKCASE_SIM_LINES=500` shows
/// this many lines of a failure's trace (60 by default). An empty variable counts as none; a
/// variable that is no number fails the simulation.
///
/// # Limits
///
/// The runtime has a clock and nothing else. Code that asks tokio for a socket, a process or a
/// signal panics there. A worker that ends by this panic fails the simulation, because no run with
/// such code would replay.
///
/// A worker that blocks the thread, or never yields, stops the whole simulation.
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation<'a> {
    pub(super) build: Box<dyn Fn(&mut Setup) + 'a>,
    pub(super) configure: Box<dyn Fn(EngineBuilder) -> EngineBuilder + 'a>,
    pub(super) faults: Faults,
    pub(super) bounds: Bounds,
}

/// The bounds of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) lasts: Duration,
    pub(super) settles_within: Duration,
    pub(super) stops_within: Duration,
    pub(super) most_events: u64,
}

impl<'a> Simulation<'a> {
    /// Returns a simulation. `build` installs the manifolds anew for every run.
    ///
    /// It is called on a tokio runtime with a paused clock.
    pub fn new(build: impl Fn(&mut Setup) + 'a) -> Self {
        Self {
            build: Box::new(build),
            configure: Box::new(|builder| builder),
            faults: Faults::default(),
            bounds: Bounds {
                lasts: Duration::from_secs(300),
                settles_within: Duration::from_secs(3600),
                stops_within: Duration::from_secs(3600),
                most_events: 10_000_000,
            },
        }
    }

    /// Sets the faults. Default: all kinds, as [`Faults::default`] has them.
    pub fn faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// Sets up the engine, as for production. The simulation itself sets the seed, the event
    /// capacity and the [wrapper](EngineBuilder::wrap) of its workers, in place of any that are set
    /// here.
    ///
    /// A classifier that makes all errors fatal ends the engine by the first fault, and fails the
    /// simulation. Leave it out, or let [`Faults`] have no errors and panics.
    pub fn engine(self, configure: impl Fn(EngineBuilder) -> EngineBuilder + 'a) -> Self {
        Self { configure: Box::new(configure), ..self }
    }

    /// Sets how long each run lasts by the paused clock: the faults of a run with faults, and the
    /// whole of the run without faults that it is compared with. Default 5 min; a year at most.
    pub fn lasts(mut self, lasts: Duration) -> Self {
        self.bounds.lasts = lasts.min(LONGEST);
        self
    }

    /// Sets how long after the last fault all workers must have recovered. Default 1 h; a year at
    /// most.
    pub fn settles_within(mut self, limit: Duration) -> Self {
        self.bounds.settles_within = limit.min(LONGEST);
        self
    }

    /// Sets how long the end may take. Default 1 h; a year at most.
    pub fn stops_within(mut self, limit: Duration) -> Self {
        self.bounds.stops_within = limit.min(LONGEST);
        self
    }

    /// Sets how many events a run may have. Default 10,000,000.
    pub fn most_events(mut self, events: u64) -> Self {
        self.bounds.most_events = events;
        self
    }
}

impl fmt::Debug for Simulation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("faults", &self.faults)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}
