//! Runs of manifolds among faults. A seed decides each run.

mod alarms;
mod broken;
mod chaos;
mod excerpt;
mod faults;
mod finding;
mod judge;
mod met;
mod mode;
mod record;
mod run;
mod seeds;
mod settings;
mod setup;
mod starts;
mod trace;
mod view;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crankcase_engine::owner;
use tokio::runtime::Builder;

pub use broken::Broken;
pub use faults::Faults;
pub use mode::Mode;
pub use record::Notes;
pub use settings::Simulation;
pub use setup::Setup;
pub use trace::{Tally, Trace};
pub use view::View;

use alarms::Alarms;
use broken::Replay;
use finding::Found;
use met::Met;
use run::{Baseline, Part, Run};
use seeds::Seeds;

impl Simulation<'_> {
    /// Runs all these seeds with faults that go on to the end. The environment may ask for other
    /// seeds.
    ///
    /// # Errors
    ///
    /// The first failure. Also if there is no seed, if a manifold that may not
    /// [rest](Setup::may_rest) has come up in no run, and if an invariant asks for a path that no
    /// worker has.
    ///
    /// # Panics
    ///
    /// On a tokio runtime: a simulation has its own.
    pub fn safety(&self, seeds: std::ops::Range<u64>) -> Result<Tally, Broken> {
        self.all(seeds, Mode::Safety)
    }

    /// Runs all these seeds with faults that stop. The environment may ask for other seeds.
    ///
    /// Each seed is first run without faults, to see which workers are up at the end and which are
    /// done. After the faults these must be so again. In the run with faults, calls by hand and new
    /// values of inputs end at a random moment, and their effects are undone, because a bounce or a
    /// new value may put right what a worker has done wrong. All other faults go on for at least a
    /// quarter of the time. When they stop, each worker that has failed more often than its
    /// intensity allows is unparked once.
    ///
    /// # Errors
    ///
    /// The first failure. Also if there is no seed, if a manifold that may not
    /// [rest](Setup::may_rest) has come up in no run, and if an invariant asks for a path that no
    /// worker has.
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
        // Also for one seed: its run without faults fails again if it has failed before.
        let idle = self.idle(&met, mode)?;
        match unjudged(&tally, &met).or(idle) {
            // One seed alone shows nothing about all seeds.
            Some(what) if !seeds.is_one => Err(Broken::of_all(seeds.last, mode, what, trace)),
            _ => Ok(tally),
        }
    }

    /// Returns a message about a path that should have come up in some run, and did not.
    fn idle(&self, met: &Met, mode: Mode) -> Result<Option<String>, Broken> {
        for (path, seed) in met.idle() {
            // Too many faults may have kept it down. Without any it comes up, or the reason is of
            // use.
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

    /// Runs one part of a seed's run. After a baseline, returns the workers that were well.
    fn once(&self, seed: u64, mode: Mode, part: &Part) -> Result<(Baseline, Trace), Broken> {
        // Without the drivers of real I/O: each advance of the clock would make their system calls.
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

/// Returns a message if something that should be judged was not judged in any run.
fn unjudged(tally: &Tally, met: &Met) -> Option<String> {
    if tally.starts == 0 {
        return Some("nobody has come up in any run, so nothing was judged".to_owned());
    }
    let path = met.nobodys()?;
    Some(format!("{path:?} was asked for, and nobody has that path in any run"))
}

/// Repeats a failed run, to find out whether it replays.
fn replayed(mut broken: Broken, run: impl FnOnce() -> Result<Trace, Broken>) -> Broken {
    let is_same = |again: &Broken| again.what() == broken.what() && again.trace() == broken.trace();
    let is_same = run().err().as_ref().is_some_and(is_same);
    broken.replay = if is_same { Replay::Same } else { Replay::Other };
    broken
}
