//! One run: an engine, its faults, and who judges it, on one thread under a paused clock.
//!
//! Invariant: whatever is waited for, events are entered and judged meanwhile, by who looks at the
//! user's invariants whenever some have come, or, where there are none, by the workers' tasks.

mod calls;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{EndKind, Engine, EngineState, Events, Report};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Simulation;
use super::alarms::Alarms;
use super::chaos::{Around, Chaos};
use super::faults::{Faults, about};
use super::judge::{Phase, Seat};
use super::record::Notes;
use super::setup::{Invariant, Put, SendValue, Setup};
use super::view::View;
use calls::Asked;

/// How far a judge may be behind: more than an engine does at one moment, before it lets others run.
const CAPACITY: usize = 1 << 16;

/// How often it is looked at what comes to hold without an event.
const LOOK: Duration = Duration::from_secs(10);

/// For how long it is waited for a rest while faults strike.
const SETTLING: Duration = Duration::from_secs(2);

/// One of how many disturbances is followed by a look at the reports.
const COMPARED: u32 = 16;

/// What a run found: what does not hold.
pub(super) type Found<T = ()> = Result<T, String>;

/// The bounds of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) lasts: Duration,
    pub(super) settles_within: Duration,
    pub(super) stops_within: Duration,
    pub(super) most_events: u64,
}

/// What was so without faults: who was up, and who was done.
pub(super) type Baseline = Vec<(String, bool)>;

/// What is not yet as it should be after the faults have stopped.
enum Missing {
    Worker(String),
    Demand(String),
}

pub(super) struct Run {
    engine: Engine,
    /// Wakes when something has happened, for the invariants; nothing without any, and when the engine
    /// has ended and all its events were entered.
    woken: Option<Events>,
    chaos: Arc<Chaos>,
    notes: Notes,
    invariants: Vec<Invariant>,
    recovered: Vec<Invariant>,
    inputs: Vec<(String, SendValue)>,
    puts: Vec<(String, Put)>,
    bounds: Bounds,
    random: SmallRng,
    asked: Asked,
    /// The paths that were asked for, or spoken of, when nothing was known of them.
    unknown: BTreeSet<String>,
}

impl Run {
    /// Builds the engine and installs what the setup says.
    pub(super) async fn begin(
        simulation: &Simulation<'_>,
        seed: u64,
        faults: Faults,
        notes: Notes,
        alarms: Arc<Alarms>,
    ) -> Found<Self> {
        let mut setup = Setup::new(seed, notes.clone());
        (simulation.build)(&mut setup);
        let Setup { change, invariants, recovered, inputs, spared, policies, puts, .. } = setup;
        let unknown = spared.iter().chain(policies.iter().map(|(path, _)| path)).cloned().collect();
        notes.judge_waits(policies);
        notes.allow(simulation.bounds.most_events);
        let chaos = Chaos::new(seed, faults, spared, notes.clone(), alarms);
        let builder = (simulation.configure)(Engine::builder()).seed(seed).event_capacity(CAPACITY);
        let built = builder.wrap(Arc::new(Around(Arc::clone(&chaos)))).build();
        let engine = built.map_err(|error| format!("the engine cannot be built: {error}"))?;
        let events = engine.events();
        notes.follow(events, engine.report().await.at.0);
        let mut run = Self {
            engine: engine.clone(),
            // Who follows the events alone need not copy them.
            woken: (!invariants.is_empty()).then(|| engine.events()),
            chaos,
            notes,
            invariants,
            recovered,
            inputs,
            puts,
            bounds: simulation.bounds,
            random: SmallRng::seed_from_u64(seed),
            asked: Asked::default(),
            unknown,
        };
        let applied = run.drive(engine.apply(change)).await?;
        applied.map_err(|error| format!("the manifolds do not fit together: {error}"))?;
        Ok(run)
    }

    /// Waits for something, and judges all that happens meanwhile.
    async fn drive<T>(&mut self, work: impl Future<Output = T>) -> Found<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.notes.is_broken() => self.catch_up()?,
                is_over = next(&mut self.woken), if self.woken.is_some() => {
                    self.catch_up()?;
                    // What has come so far is entered, and need not wake this again.
                    self.woken = (!is_over).then(|| self.engine.events());
                }
                done = &mut work => {
                    self.catch_up()?;
                    return Ok(done);
                }
            }
        }
    }

    /// Enters what has happened, then looks at the invariants.
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

    /// Lets the faults strike for as long as the run lasts.
    pub(super) async fn suffer(&mut self, faults: &Faults) -> Found {
        let end = Instant::now() + self.bounds.lasts;
        let has_inputs = !self.inputs.is_empty();
        let values_every = if has_inputs { faults.values_every } else { Duration::ZERO };
        let mut next = [faults.calls_every, values_every, faults.jumps_every]
            .map(|mean| about(&mut self.random, mean).map(|after| Instant::now() + after));
        loop {
            let first = next.iter().enumerate().filter_map(|(kind, at)| Some(((*at)?, kind))).min();
            let Some((at, kind)) = first.filter(|(at, _)| *at < end) else {
                return self.drive(sleep_until(end)).await;
            };
            self.drive(sleep_until(at)).await?;
            let mean = match kind {
                0 => {
                    self.call().await?;
                    faults.calls_every
                }
                1 => {
                    self.send_value();
                    faults.values_every
                }
                _ => {
                    self.jump(faults.jump).await?;
                    faults.jumps_every
                }
            };
            next[kind] = about(&mut self.random, mean).map(|after| Instant::now() + after);
            if self.random.random_range(0..COMPARED) == 0 {
                self.compare().await?;
                self.settle().await?;
            }
        }
    }

    fn strikes(&self, path: &str, text: &'static str) {
        self.notes.fault(path, text);
    }

    fn send_value(&mut self) {
        let count = self.inputs.len();
        if count > 0 {
            let (index, number) = (self.random.random_range(0..count), self.random.random());
            let engine = self.engine.path().trim_end_matches('/');
            let path = format!("{engine}/{}", self.inputs[index].0);
            self.strikes(&path, "gets another value");
            (self.inputs[index].1)(number);
        }
    }

    async fn jump(&mut self, most: Duration) -> Found {
        let by = most.mul_f64(self.random.random());
        self.strikes("the clock", "jumps");
        let mut advance = pin!(tokio::time::advance(by));
        // The clock jumps when this is first polled; what is due then comes before anything else.
        let notes = self.notes.clone();
        self.drive(std::future::poll_fn(move |cx| {
            let polled = advance.as_mut().poll(cx);
            notes.jumped();
            polled
        }))
        .await
    }

    fn count(&self) -> u64 {
        self.notes.enter();
        self.notes.look(|judge| judge.count)
    }

    fn judge(&self, report: &Report, is_at_rest: bool) -> Found {
        self.notes.look(|judge| judge.report(report, is_at_rest))
    }

    /// Compares the engines' reports with what is known, if nothing happens while they are taken.
    async fn compare(&mut self) -> Found {
        for engine in self.engine.engines() {
            let before = self.count();
            let report = self.drive(engine.report()).await?;
            // An engine that has ended meanwhile may have a successor at its path.
            if self.count() == before && report.state != EngineState::Stopped {
                self.judge(&report, false)?;
            }
        }
        Ok(())
    }

    /// Waits a little for rest, and judges whether it is one.
    async fn settle(&mut self) -> Found {
        let engine = self.engine.clone();
        if self.drive(timeout(SETTLING, engine.settled())).await?.is_err() {
            return Ok(());
        }
        let at = self.notes.elapsed();
        let path = engine.path().trim_end_matches('/');
        self.notes.look(|judge| judge.judge_settled(path, at))
    }

    /// Waits until nothing will happen without a further cause, and judges whether that is right.
    async fn rest(&mut self) -> Found {
        let (engine, limit) = (self.engine.clone(), self.bounds.settles_within);
        let settled = self.drive(timeout(limit, engine.settled())).await?;
        if settled.is_err() {
            return Err(format!("P5: it has not settled within {limit:?}"));
        }
        for engine in self.engine.engines() {
            if self.drive(timeout(limit, engine.settled())).await?.is_err() {
                return Err(format!("P5: {} has not settled within {limit:?}", engine.path()));
            }
            let before = self.count();
            let report = self.drive(engine.report()).await?;
            if self.count() == before && report.state != EngineState::Stopped {
                self.judge(&report, true)?;
                self.judge_names(&engine).await?;
            }
        }
        self.notes.look(super::judge::Judge::judge_owed)
    }

    /// Runs without faults until rest, and returns who is up then, and who is done.
    pub(super) async fn baseline(&mut self) -> Found<Baseline> {
        self.notes.calm();
        self.rest().await?;
        let known = |seat: &Seat| {
            (seat.is_up() || seat.is_done()).then(|| (seat.path.to_string(), seat.is_up()))
        };
        Ok(self.notes.look(|judge| judge.seats.iter().filter_map(known).collect()))
    }

    /// Stops the faults, and waits until all is as it is without any.
    pub(super) async fn recover(&mut self, baseline: &Baseline) -> Found {
        self.notes.note("the faults stop");
        self.notes.calm();
        self.chaos.calm();
        self.put_back();
        let end = Instant::now() + self.bounds.settles_within;
        let mut woken = self.engine.events();
        loop {
            self.catch_up()?;
            while let Some(missing) = self.missing(baseline) {
                if Instant::now() >= end {
                    return Err(self.not_recovered(missing).await);
                }
                let is_over = tokio::select! {
                    biased;
                    notice = woken.next() => notice.is_none(),
                    // What the simulation's own stubs do is no event.
                    () = sleep(LOOK) => false,
                };
                self.catch_up()?;
                woken = self.engine.events();
                if is_over {
                    return Err("P5: the engine has ended after the faults have stopped".to_owned());
                }
            }
            self.rest().await?;
            if self.missing(baseline).is_none() {
                self.notes.is_at_rest();
                return Ok(());
            }
        }
    }

    /// Returns who is not yet as it was without faults, or what does not hold yet.
    fn missing(&mut self, baseline: &Baseline) -> Option<Missing> {
        let at = self.notes.elapsed();
        let (recovered, unknown) = (&mut self.recovered, &mut self.unknown);
        let (top, puts) = (self.engine.path().trim_end_matches('/'), &self.puts);
        let is_put = |path: &str| {
            let name = path.strip_prefix(top).and_then(|rest| rest.strip_prefix('/'));
            name.is_some_and(|name| puts.iter().any(|(put, _)| put == name))
        };
        self.notes.look(|judge| {
            let is_as_it_was = |seat: &Seat, was_up: bool| {
                // Who has taken itself out is not missed, nor is one that another engine lacks now.
                let is_absent = !seat.is_installed()
                    && (seat.end == Some(EndKind::Uninstall) || !is_put(&seat.path));
                is_absent || seat.is_up() || (!was_up && seat.is_done())
            };
            let is_missing = |(path, was_up): &&(String, bool)| {
                // Nor who was never there, because an engine began with other manifolds.
                judge.seat(path).is_some_and(|seat| !is_as_it_was(seat, *was_up))
            };
            let missing = baseline.iter().find(is_missing);
            let missing = missing.map(|(path, _)| Missing::Worker(path.clone()));
            missing.or_else(|| {
                let view = View::new(judge, at);
                let unmet = recovered
                    .iter_mut()
                    .find_map(|demand| (!(demand.holds)(&view)).then(|| demand.text.clone()));
                unknown.extend(view.unknown());
                unmet.map(Missing::Demand)
            })
        })
    }

    async fn not_recovered(&self, missing: Missing) -> String {
        let limit = self.bounds.settles_within;
        let path = match missing {
            Missing::Worker(path) => path,
            Missing::Demand(text) => {
                return format!("not within {limit:?} after the faults have stopped: {text}");
            }
        };
        let (engine, name) = path.rsplit_once('/').unwrap_or_default();
        let why = match self.engine.engine_at(engine) {
            Some(engine) => engine.why(name).await.map(|why| why.to_string()),
            None => None,
        };
        let why = why.unwrap_or_else(|| "nothing is there".to_owned());
        format!("P5: {path} is not up within {limit:?} after the faults have stopped: {why}")
    }

    /// Kills the engine and judges its end.
    pub(super) async fn end(&mut self) -> Found {
        let (engine, limit) = (self.engine.clone(), self.bounds.stops_within);
        engine.kill();
        let ended = self.drive(timeout(limit, engine.wait())).await?;
        let Ok(ended) = ended else {
            let live: Vec<_> = self.notes.look(|judge| {
                let live = judge.seats.iter().filter(|seat| seat.phase != Phase::Idle);
                live.map(|seat| seat.path.to_string()).collect()
            });
            return Err(format!("P6: it has not ended within {limit:?}: {}", live.join(", ")));
        };
        ended.map_err(|error| format!("the engine ended with an error: {error}"))?;
        let report = engine.report().await;
        self.catch_up()?;
        self.notes.leave_unknown(std::mem::take(&mut self.unknown));
        self.judge(&report, false)
    }
}

/// Waits for the next event; returns whether none will come.
async fn next(events: &mut Option<Events>) -> bool {
    match events {
        Some(events) => events.next().await.is_none(),
        None => std::future::pending().await,
    }
}
