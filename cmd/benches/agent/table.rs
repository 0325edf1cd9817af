//! The tables of measures that are printed.

use std::cell::Cell;

use crate::process::{MIB, Took, status};
use crate::rounds::{Rounds, median, time, verdict};

/// The head of the table of processes that end.
const ONCE: &str = "\
| measure | bare | agent | ratio (lowest to highest) | at most | | user + system (bare) \
| peak memory (bare) | at most | |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

/// The head of the table of agents that run on.
const RUNNING: &str = "\
| measure | bare | agent | ratio (lowest to highest) | at most | | longest (bare) |
| --- | --- | --- | --- | --- | --- | --- |";

/// What is promised of a measure.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    None,
    /// A ratio to what is compared with.
    Ratio(f64),
    /// Seconds.
    Time(f64),
    /// Seconds more than what is compared with.
    More(f64),
}

pub(crate) struct Table {
    wanted: String,
    /// The head of the table that is being printed.
    head: Cell<&'static str>,
}

impl Table {
    pub(crate) fn new(wanted: String) -> Self {
        Self { wanted, head: Cell::new("") }
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        name.contains(&self.wanted)
    }

    /// Prints what two processes took that ran by turns; `memory` is a bound in bytes.
    pub(crate) fn once(
        &self,
        name: &str,
        bound: Bound,
        memory: Option<f64>,
        rounds: &[(Took, Took)],
    ) {
        let of = |pick: fn(&Took) -> f64| {
            let bare = median(rounds.iter().map(|round| pick(&round.0)));
            (bare, median(rounds.iter().map(|round| pick(&round.1))))
        };
        let times = times(bound, rounds.iter().map(|round| (round.0.wall, round.1.wall)));
        let (user, system, peak) =
            (of(|took| took.user), of(|took| took.system), of(|took| took.peak));
        // Until it executes another program a process has the memory of the one that has started it.
        assert!(peak.1 > status("self", "VmHWM"), "this program is larger than the agent");
        let busy = format!(
            "{} + {} ({} + {})",
            time(user.1),
            time(system.1),
            time(user.0),
            time(system.0)
        );
        let memory = bounded(peak.1, memory, |bytes| format!("{:.0} MiB", bytes / MIB));
        let peak = format!("{:.1} MiB ({:.1})", peak.1 / MIB, peak.0 / MIB);
        let row = format!("| {name} | {times} | {busy} | {peak} | {memory} |");
        self.row(ONCE, &row);
    }

    /// Prints that a row is missing, and why.
    pub(crate) fn missing(&self, name: &str, why: &str) {
        self.row(ONCE, &format!("| {name} | {why} | | | | | | | | |"));
    }

    /// Prints the medians of pairs of seconds that were measured by turns, and the longest of each.
    pub(crate) fn running(&self, name: &str, bound: Bound, pairs: &[(f64, f64)]) {
        let longest = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).fold(0.0, f64::max);
        let (bare, agent) = (longest(|pair| pair.0), longest(|pair| pair.1));
        let times = times(bound, pairs.iter().copied());
        self.row(RUNNING, &format!("| {name} | {times} | {} ({}) |", time(agent), time(bare)));
    }

    /// Prints a figure of an agent that runs, and its bound.
    pub(crate) fn figure(
        &self,
        name: &str,
        figure: f64,
        bound: Option<f64>,
        show: fn(f64) -> String,
    ) {
        let bound = bounded(figure, bound, show);
        self.row(RUNNING, &format!("| {name} | | {} | | {bound} | |", show(figure)));
    }

    /// Prints a row, after the head of its table if that is another one than before.
    fn row(&self, head: &'static str, row: &str) {
        if self.head.replace(head) != head {
            println!("\n{head}");
        }
        println!("{row}");
    }
}

/// Returns the columns of times, of their ratio, and of its bound.
fn times(bound: Bound, pairs: impl Iterator<Item = (f64, f64)> + Clone) -> String {
    let columns = Rounds::new(pairs.clone()).columns(time);
    let bound = match bound {
        Bound::None => bounded(0.0, None, time),
        Bound::Ratio(bound) => {
            let ratio = median(pairs.map(|(bare, agent)| agent / bare));
            bounded(ratio, Some(bound), |ratio| ratio.to_string())
        }
        Bound::Time(bound) => bounded(median(pairs.map(|pair| pair.1)), Some(bound), time),
        Bound::More(bound) => {
            let more = median(pairs.map(|(bare, agent)| agent - bare));
            bounded(more, Some(bound), |seconds| format!("{} more", time(seconds)))
        }
    };
    format!("{columns} | {bound}")
}

/// Returns the columns of a bound and of whether it is met.
fn bounded(figure: f64, bound: Option<f64>, show: fn(f64) -> String) -> String {
    let bound = bound.map(|bound| format!("{} | {}", show(bound), verdict(figure <= bound)));
    bound.unwrap_or_else(|| "|".into())
}
