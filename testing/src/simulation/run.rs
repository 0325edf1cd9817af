//! One run: an engine, its faults, and its judge, on one thread under a paused clock.
//!
//! Invariant: whatever the run waits for, events are entered and judged meanwhile. If the user has
//! set invariants, the run's own task does that: it wakes for each event and then looks at the
//! invariants. If not, that task does not wake: the workers' tasks enter the events, whenever a
//! worker begins and after a number of steps. For example, while the run sleeps until its next
//! fault, a worker that is started too early is found by that worker's own task.

mod asked;
mod baseline;
mod calls;
mod looks;
mod recover;
mod suffer;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use crankcase_engine::{Engine, EngineError, Events, Report};
use rand::SeedableRng;
use tokio::time::timeout;

use super::alarms::Alarms;
use super::chaos::{Around, Chaos};
use super::faults::{Faults, Random};
use super::finding::Found;
use super::judge::Phase;
use super::met::Met;
use super::record::Notes;
use super::settings::{Bounds, Simulation};
use super::setup::{Invariant, Put, SendValue, Setup};
use super::view::View;
use asked::Asked;

pub(super) use baseline::Baseline;

/// The most events that a judge may be behind: more than an engine makes at one moment, before
/// other tasks run.
const CAPACITY: usize = 1 << 16;

/// The purpose of a run.
pub(super) enum Part {
    /// To see which workers are up without faults.
    Baseline,
    /// Faults to the end.
    Safety,
    /// Faults that stop. After that, all workers must be as they were without faults.
    Liveness(Baseline),
}

pub(super) struct Run {
    engine: Engine,
    /// Wakes for each event, for the invariants. None if there are no invariants, or the engine has
    /// ended and all its events were entered.
    woken: Option<Events>,
    chaos: Arc<Chaos>,
    notes: Notes,
    invariants: Vec<Invariant>,
    recovered: Vec<Invariant>,
    inputs: Vec<(String, SendValue)>,
    puts: Vec<Put>,
    bounds: Bounds,
    random: Random,
    asked: Asked,
    /// The paths that need not come up.
    resting: Vec<String>,
    /// The paths that were asked for or named before anything was known of them.
    unknown: BTreeSet<String>,
}

impl Run {
    /// Builds the engine and installs the manifolds of the setup.
    pub(super) async fn begin(
        simulation: &Simulation<'_>,
        seed: u64,
        faults: Faults,
        notes: Notes,
        alarms: Arc<Alarms>,
    ) -> Found<Self> {
        let mut setup = Setup::new(seed, notes.clone());
        (simulation.build)(&mut setup);
        let Setup {
            change,
            invariants,
            recovered,
            inputs,
            mut spared,
            resting,
            policies,
            puts,
            ..
        } = setup;
        let policed = policies.iter().map(|(path, _)| path);
        let unknown = spared.iter().chain(&resting).chain(policed).cloned().collect();
        notes.judge_waits(policies);
        notes.allow(simulation.bounds.most_events);
        if faults.are_none() {
            notes.calm();
        }
        let chaos = Chaos::new(seed, faults, notes.clone(), alarms);
        // The judge sees the users of a border through the workers of the border.
        let builder = (simulation.configure)(Engine::builder()).show_carriers();
        let builder = builder.seed(seed).event_capacity(CAPACITY);
        let built = builder.wrap(Arc::new(Around(Arc::clone(&chaos)))).build();
        let engine = built.map_err(|error| format!("the engine cannot be built: {error}"))?;
        let nested = puts.iter().filter(|put| put.is_nested);
        spared.extend(nested.map(|put| path_in(&engine, &put.name)));
        chaos.spare(spared);
        let events = engine.events();
        notes.follow(events, engine.report().await.at.0);
        let mut run = Self {
            engine: engine.clone(),
            // A judge that follows only the events needs no copy of them.
            woken: (!invariants.is_empty()).then(|| engine.events()),
            chaos,
            notes,
            invariants,
            recovered,
            inputs,
            puts,
            bounds: simulation.bounds,
            random: Random::seed_from_u64(seed),
            asked: Asked::default(),
            resting,
            unknown,
        };
        let applied = run.drive(engine.apply(change)).await?;
        applied.map_err(|error| format!("the manifolds do not fit together: {error}"))?;
        Ok(run)
    }

    /// Waits for something, and judges all events meanwhile.
    async fn drive<T>(&mut self, work: impl Future<Output = T>) -> Found<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.notes.is_broken() => self.catch_up()?,
                is_over = next(&mut self.woken), if self.woken.is_some() => {
                    self.catch_up()?;
                    // The events so far are entered, and need not wake this task again.
                    self.woken = (!is_over).then(|| self.engine.events());
                }
                done = &mut work => {
                    self.catch_up()?;
                    return Ok(done);
                }
            }
        }
    }

    /// Enters the new events, then looks at the invariants.
    fn catch_up(&mut self) -> Found {
        self.notes.catch_up()?;
        if self.invariants.is_empty() {
            return Ok(());
        }
        let (at, invariants) = (self.notes.elapsed(), &mut self.invariants);
        let unknown = self.notes.look(|judge| {
            let view = View::new(judge, at);
            let mut all = invariants.iter_mut();
            all.try_for_each(|invariant| match (invariant.holds)(&view) {
                true => Ok(()),
                false => Err(format!("invariant: {}", invariant.text)),
            })?;
            Ok::<_, String>(view.unknown())
        })?;
        self.unknown.extend(unknown);
        Ok(())
    }

    fn strikes(&self, path: &str, text: &'static str) {
        self.notes.fault(path, text.into());
    }

    fn count(&self) -> u64 {
        self.notes.enter();
        self.notes.look(|judge| judge.count)
    }

    fn judge(&self, report: &Report, is_at_rest: bool) -> Found {
        let at = self.notes.elapsed();
        Ok(self.notes.look(|judge| judge.report(report, at, is_at_rest))?)
    }

    /// Kills the engine and judges its end.
    pub(super) async fn end(&mut self) -> Found {
        let (engine, limit) = (self.engine.clone(), self.bounds.stops_within);
        let idle = self.idle().await?;
        engine.kill();
        let ended = self.drive(timeout(limit, engine.wait())).await?;
        let Ok(ended) = ended else {
            let live: Vec<_> = self.notes.look(|judge| {
                let live = judge.seats.iter().filter(|seat| seat.phase != Phase::Idle);
                live.map(|seat| seat.path.to_string()).collect()
            });
            return Err(
                format!("P6: it has not ended within {limit:?}: {}", live.join(", ")).into()
            );
        };
        let left_behind = match ended {
            Ok(()) => Vec::new(),
            Err(EngineError::LeftBehind { workers, .. }) => workers,
            Err(error) => return Err(format!("the engine ended with an error: {error}").into()),
        };
        let report = engine.report().await;
        self.catch_up()?;
        self.notes.look(|judge| judge.left_behind(&left_behind))?;
        self.leave(idle);
        self.judge(&report, false)
    }

    fn path_of(&self, name: &str) -> String {
        path_in(&self.engine, name)
    }

    /// Returns the paths of the setup's own manifolds.
    fn paths(&self) -> impl Iterator<Item = String> {
        self.puts.iter().map(|put| self.path_of(&put.name))
    }

    /// Returns the reasons why paths that should have come up have not.
    async fn idle(&mut self) -> Found<BTreeMap<String, (String, u64)>> {
        let idle: Vec<_> = self.notes.look(|judge| {
            let is_idle = |path: &String| judge.seat(path).is_none_or(|seat| seat.starts == 0);
            let should = |path: &String| !self.resting.contains(path);
            self.paths().filter(is_idle).filter(should).collect()
        });
        let (mut whys, engine) = (BTreeMap::new(), self.engine.clone());
        for path in idle {
            let why = self.drive(engine.why(&path)).await?;
            let why = why.map_or_else(|| "nothing is there".to_owned(), |why| why.to_string());
            whys.insert(path, (why, 0));
        }
        Ok(whys)
    }

    /// Leaves in the trace the paths that were met.
    fn leave(&mut self, idle: BTreeMap<String, (String, u64)>) {
        let mut unknown = std::mem::take(&mut self.unknown);
        let met = self.notes.look(|judge| {
            unknown.retain(|path| judge.seat(path).is_none());
            let known = judge.seats.iter().filter(|seat| seat.was_installed);
            let is_up = |path: &String| judge.seat(path).is_some_and(|seat| seat.starts > 0);
            let up = self.paths().filter(is_up).collect();
            Met { known: known.map(|seat| seat.path.to_string()).collect(), unknown, up, idle }
        });
        self.notes.leave(met);
    }
}

/// Returns the path of a name in an engine.
fn path_in(engine: &Engine, name: &str) -> String {
    format!("{}/{name}", engine.path().trim_end_matches('/'))
}

/// Waits for the next event; returns whether none will come.
async fn next(events: &mut Option<Events>) -> bool {
    match events {
        Some(events) => events.next().await.is_none(),
        None => std::future::pending().await,
    }
}
