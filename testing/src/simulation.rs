mod alarms;
mod broken;
mod chaos;
mod excerpt;
mod faults;
mod judge;
mod met;
mod record;
mod run;
mod seeds;
mod setup;
mod starts;
mod trace;
mod view;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::EngineBuilder;
use crankcase_engine::owner;
use tokio::runtime::Builder;

pub use broken::Broken;
pub use faults::Faults;
pub use record::Notes;
pub use setup::Setup;
pub use trace::{Tally, Trace};
pub use view::View;

use alarms::Alarms;
use broken::Replay;
use faults::LONGEST;
use met::Met;
use run::{Baseline, Bounds, Found, Part, Run};
use seeds::Seeds;

/// Runs manifolds of your own among faults, again and again, each run as its seed decides.
///
/// A run has one thread and a paused clock. The [faults](Faults) strike the workers from outside:
/// starts that fail, panic, hang or are slow, workers that fail, panic, bounce or hang, stops that
/// are slow, ignored or end in a failure, inputs that come, go and change, calls by hand, manifolds
/// that are taken out or get one more input for a while, jumps of the clock, and a shuffled order of
/// tasks. All the while the engine's promises are judged from its events by a record of its own:
/// never two workers of one path, inputs there as declared, users stopped before what they use,
/// nobody stopped without a cause, waits as they should be, nobody left with what is not there any
/// more, reports that agree. So are your own [invariants](Setup::invariant).
///
/// - [`safety`](Self::safety): the faults go on to the end; nothing wrong may ever happen.
/// - [`liveness`](Self::liveness): the faults stop; then everyone must be up again within bounded time
///   who is up at the end of a run without faults, or was done in it. What calls by hand have left
///   behind is put back some time before the faults stop, and the inputs have their first values again.
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
/// A failure names its seed, and the same seed gives the same run, event by event. So that it does,
/// the manifolds must not be random by themselves: real input and output, threads, the wall clock,
/// the order of a `HashMap`, a `select!` that is not `biased`, and the order in which tokio wakes
/// several waiters of one `watch` are. Threads are also those of `spawn_blocking` and of blocking
/// workers. Put stubs in the place of the first, and seed what is random from [`Setup::seed`]. A failure
/// says if its seed does not replay.
///
/// `CRANKCASE_SIM_SEED=17` runs that seed alone, `CRANKCASE_SIM_RUNS=10000` as many seeds from the
/// first one on, both together as many from seed 17 on, and `CRANKCASE_SIM_LINES=500` shows as many
/// lines of a failure's trace (60 by default). One that is empty is as none; one that is no number
/// fails the simulation.
///
/// # Limits
///
/// The runtime has a clock and nothing else: what asks tokio for a socket, a process or a signal
/// panics there, and a worker that ends by it fails the simulation, since no run with them would
/// replay.
///
/// A worker that blocks the thread, and one that never yields, stops the simulation as a whole.
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation<'a> {
    build: Box<dyn Fn(&mut Setup) + 'a>,
    configure: Box<dyn Fn(EngineBuilder) -> EngineBuilder + 'a>,
    faults: Faults,
    bounds: Bounds,
}

/// Whether the faults of a run stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They go on to the end.
    Safety,
    /// They stop, and everyone must recover.
    Liveness,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safety => "safety",
            Self::Liveness => "liveness",
        })
    }
}

impl<'a> Simulation<'a> {
    /// Returns a simulation of what `build` installs, for every run anew.
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

    /// Sets up the engine, as for production. The simulation itself sets its seed, its event capacity
    /// and what is [wrapped](EngineBuilder::wrap) around its workers, in the place of any that is set
    /// here.
    ///
    /// A classifier that takes all errors for fatal ends the engine by the first fault, and fails the
    /// simulation: leave it out, or let [`Faults`] have no errors and panics.
    pub fn engine(self, configure: impl Fn(EngineBuilder) -> EngineBuilder + 'a) -> Self {
        Self { configure: Box::new(configure), ..self }
    }

    /// Sets how long the faults strike in each run, by the paused clock, and how long it is looked
    /// without faults at who is up. Default 5 min; a year at most.
    pub fn lasts(mut self, lasts: Duration) -> Self {
        self.bounds.lasts = lasts.min(LONGEST);
        self
    }

    /// Sets how long after the last fault everyone must have recovered. Default 1 h; a year at
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

    /// Runs all these seeds with faults that go on to the end; the environment may ask for others.
    ///
    /// # Errors
    ///
    /// The first failure; also if there is no seed, if a manifold has come up in no run that does not
    /// [rest](Setup::may_rest), and if a path was asked for that nobody had.
    ///
    /// # Panics
    ///
    /// On a tokio runtime: a simulation has its own.
    pub fn safety(&self, seeds: std::ops::Range<u64>) -> Result<Tally, Broken> {
        self.all(seeds, Mode::Safety)
    }

    /// Runs all these seeds with faults that stop; the environment may ask for others.
    ///
    /// Each seed is first run without faults, to see who is up at the end and who is done; so must
    /// they be again. In the run with faults, calls by hand and new values of inputs end at a random
    /// moment, and what they have left behind is put back: a bounce or a new value may put right what
    /// a worker has done wrong. All other faults go on for a quarter of the time at least. When they
    /// stop, who has failed more often than its intensity allows is unparked once.
    ///
    /// # Errors
    ///
    /// The first failure; also if there is no seed, if a manifold has come up in no run that does not
    /// [rest](Setup::may_rest), and if a path was asked for that nobody had.
    ///
    /// # Panics
    ///
    /// On a tokio runtime: a simulation has its own.
    pub fn liveness(&self, seeds: std::ops::Range<u64>) -> Result<Tally, Broken> {
        self.all(seeds, Mode::Liveness)
    }

    fn all(&self, seeds: std::ops::Range<u64>, mode: Mode) -> Result<Tally, Broken> {
        let first = seeds.start;
        let seeds =
            Seeds::read(seeds).map_err(|what| Broken::of_all(first, mode, what, Trace::new()))?;
        let (mut tally, mut met, mut trace) = (Tally::default(), Met::default(), Trace::new());
        for seed in seeds.first..=seeds.last {
            let run = || self.run(seed, mode);
            trace = run().map_err(|broken| replayed(broken, run))?;
            tally += trace.tally();
            met.add(seed, &trace.met);
        }
        // Also for one seed: what is found in its run without faults is found again.
        let idle = self.idle(&met, mode)?;
        match unjudged(&tally, &met).or(idle) {
            // One seed alone says nothing of all of them.
            Some(what) if !seeds.is_one => Err(Broken::of_all(seeds.last, mode, what, trace)),
            _ => Ok(tally),
        }
    }

    /// Returns what to say of a path that should have come up in some run, and did not.
    fn idle(&self, met: &Met, mode: Mode) -> Result<Option<String>, Broken> {
        for (path, seed) in met.idle() {
            // The faults may be too many. Without any it comes up, or the reason is of use.
            let run = || self.once(seed, mode, &Part::Baseline).map(|(_, trace)| trace);
            let calm = run().map_err(|broken| replayed(broken, run))?;
            if let Some(why) = calm.met.why_idle(path) {
                return Ok(Some(format!(
                    "{path:?} has not come up in any run, so nothing of it was judged; if that is \
                     right, say so with `Setup::may_rest`: {why}"
                )));
            }
        }
        Ok(None)
    }

    /// Runs one seed once, and returns what happened.
    ///
    /// # Errors
    ///
    /// When something does not hold, or the faults cannot be used.
    ///
    /// # Panics
    ///
    /// On a tokio runtime: a simulation has its own.
    pub fn run(&self, seed: u64, mode: Mode) -> Result<Trace, Broken> {
        let part = match mode {
            Mode::Safety => Part::Safety,
            Mode::Liveness => Part::Liveness(self.once(seed, mode, &Part::Baseline)?.0),
        };
        self.once(seed, mode, &part).map(|(_, trace)| trace)
    }

    /// Runs one part of a seed's run. Who is up is told after a baseline.
    fn once(&self, seed: u64, mode: Mode, part: &Part) -> Result<(Baseline, Trace), Broken> {
        // Without the drivers of real I/O, whose system calls each advance of the clock would make.
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without threads can be made");
        let entered = runtime.enter();
        let (notes, alarms) = (Notes::new(), Arc::new(Alarms::new()));
        drop(entered);
        let life = self.live(seed, notes.clone(), Arc::clone(&alarms), part);
        let lived = catch_unwind(AssertUnwindSafe(|| runtime.block_on(alarms.during(life))));
        let lived = lived.unwrap_or_else(|payload| {
            Err(format!("the simulation itself {}", owner::panic_of(payload)).into())
        });
        let entered = runtime.enter();
        let at = notes.elapsed();
        drop(entered);
        match lived {
            Ok(baseline) => Ok((baseline, notes.take_trace())),
            Err(found) => {
                let mut broken = Broken::new(seed, mode, at, found, notes.take_trace());
                broken.is_calm = matches!(part, Part::Baseline);
                Err(broken)
            }
        }
    }

    async fn live(
        &self,
        seed: u64,
        notes: Notes,
        alarms: Arc<Alarms>,
        part: &Part,
    ) -> Found<Baseline> {
        self.faults.validate().map_err(|error| format!("the faults cannot be used: {error}"))?;
        let faults = match part {
            Part::Baseline => Faults::none(),
            Part::Safety | Part::Liveness(_) => self.faults.clone(),
        };
        let mut run = Run::begin(self, seed, faults.clone(), notes, alarms).await?;
        let mut found = Baseline::new();
        match part {
            Part::Baseline => found = run.baseline().await?,
            Part::Safety => run.suffer(&faults, None).await?,
            Part::Liveness(baseline) => {
                let calls_end = run.calls_end();
                run.suffer(&faults, Some(calls_end)).await?;
                run.recover(baseline).await?;
            }
        }
        run.end().await?;
        Ok(found)
    }
}

/// Says what was not judged in any run, though it was to be.
fn unjudged(tally: &Tally, met: &Met) -> Option<String> {
    if tally.starts == 0 {
        return Some("nobody has come up in any run, so nothing was judged".to_owned());
    }
    let path = met.nobodys()?;
    Some(format!("{path:?} was asked for, and nobody has that path in any run"))
}

/// Makes a run that failed once more, to say whether it replays.
fn replayed(mut broken: Broken, run: impl FnOnce() -> Result<Trace, Broken>) -> Broken {
    let is_same = |again: &Broken| again.what() == broken.what() && again.trace() == broken.trace();
    let is_same = run().err().as_ref().is_some_and(is_same);
    broken.replay = if is_same { Replay::Same } else { Replay::Other };
    broken
}

impl fmt::Debug for Simulation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("faults", &self.faults)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}
