//! The workers that are up without faults, and must all be up again when the faults have stopped.

use std::time::Duration;

use crankcase_engine::EndKind;
use tokio::time::{Instant, sleep};

use super::Run;
use super::baseline::{Baseline, Was};
use crate::simulation::finding::{Finding, Found};
use crate::simulation::judge::Seat;
use crate::simulation::view::View;

/// The time between two looks for changes that come without an event.
const LOOK: Duration = Duration::from_secs(10);

/// Something that is not yet right after the faults have stopped.
enum Missing {
    Worker(String),
    /// The end of an engine that stops.
    End(String),
    Demand(String),
}

impl Run {
    /// Runs without faults for as long as they would strike, and returns the workers that are up at
    /// the end, and those that are done.
    pub(in crate::simulation) async fn baseline(&mut self) -> Found<Baseline> {
        let lasts = self.bounds.lasts;
        self.drive(sleep(lasts)).await?;
        // A worker that waits after a failure is tried once more.
        let end = Instant::now() + lasts;
        while Instant::now() < end && self.backs_off() {
            self.drive(sleep(LOOK)).await?;
        }
        self.rest().await?;
        let at = self.notes.elapsed();
        let known = |seat: &Seat| Some((seat.path.to_string(), Was::of(seat, at)?));
        Ok(self.notes.look(|judge| judge.seats.iter().filter_map(known).collect()))
    }

    fn backs_off(&self) -> bool {
        self.notes.look(|judge| judge.seats.iter().any(Seat::backs_off))
    }

    /// Stops the faults, and waits until all workers are as they are without faults.
    pub(in crate::simulation) async fn recover(&mut self, baseline: &Baseline) -> Found {
        self.notes.note("the faults stop");
        self.notes.calm();
        self.chaos.calm();
        self.free_spent();
        let end = Instant::now() + self.bounds.settles_within;
        let mut woken = self.engine.events();
        self.catch_up()?;
        while let Some(missing) = self.missing_at_rest(baseline).await? {
            if Instant::now() >= end {
                return Err(self.not_recovered(missing).await);
            }
            let is_over = tokio::select! {
                biased;
                notice = woken.next() => notice.is_none(),
                // The simulation's own stubs act without an event.
                () = sleep(LOOK) => false,
            };
            self.catch_up()?;
            woken = self.engine.events();
            if is_over {
                // An engine that ends by itself may do so when all workers have recovered.
                return match self.missing(baseline) {
                    None => Ok(()),
                    Some(_) => Err("P5: the engine has ended after the faults have stopped"
                        .to_owned()
                        .into()),
                };
            }
        }
        self.notes.is_at_rest();
        Ok(())
    }

    /// Returns what is missing now. If nothing is, waits for rest and looks again.
    async fn missing_at_rest(&mut self, baseline: &Baseline) -> Found<Option<Missing>> {
        if let Some(missing) = self.missing(baseline) {
            return Ok(Some(missing));
        }
        let stopping = self.rest().await?;
        Ok(self.missing(baseline).or(stopping.map(Missing::End)))
    }

    /// Returns a worker that is not yet as it was without faults, or a demand that does not hold
    /// yet.
    fn missing(&mut self, baseline: &Baseline) -> Option<Missing> {
        let at = self.notes.elapsed();
        let (recovered, unknown) = (&mut self.recovered, &mut self.unknown);
        let (top, puts) = (self.engine.path().trim_end_matches('/'), &self.puts);
        let is_put = |path: &str| {
            let name = path.strip_prefix(top).and_then(|rest| rest.strip_prefix('/'));
            name.is_some_and(|name| puts.iter().any(|put| put.name == name))
        };
        self.notes.look(|judge| {
            // A worker that has taken itself out need not come back. Nor need one of a nested engine
            // that is not installed there now: such an engine may begin with other manifolds.
            let may_lack = |seat: &Seat| {
                let took_itself_out = seat.end == Some(EndKind::Uninstall);
                !seat.is_installed() && (took_itself_out || !is_put(&seat.path))
            };
            let is_missing = |(path, was): &&(String, Was)| {
                // Without a seat, the worker was not installed in this run at all.
                judge.seat(path).is_some_and(|seat| !was.is_now(seat) && !may_lack(seat))
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

    async fn not_recovered(&self, missing: Missing) -> Finding {
        let limit = self.bounds.settles_within;
        let path = match missing {
            Missing::Worker(path) => path,
            Missing::End(path) => {
                let what = format!(
                    "P5: {path} stops, and has not ended within {limit:?} after the faults have stopped"
                );
                return what.into();
            }
            Missing::Demand(text) => {
                return format!("not within {limit:?} after the faults have stopped: {text}")
                    .into();
            }
        };
        let (engine, name) = path.rsplit_once('/').unwrap_or_default();
        let why = match self.engine.engine_at(engine) {
            Some(engine) => engine.why(name).await.map(|why| why.to_string()),
            None => None,
        };
        let why = why.unwrap_or_else(|| "nothing is there".to_owned());
        let what =
            format!("P5: {path} is not up within {limit:?} after the faults have stopped: {why}");
        let inputs = self.notes.look(|judge| judge.inputs_of(&path));
        Finding { what, about: std::iter::once(path).chain(inputs).collect() }
    }
}
