//! Rounds, medians and what is printed of them.

use std::time::Duration;

const ROUNDS: usize = 5;

pub(crate) struct Table {
    wanted: String,
}

impl Table {
    pub(crate) fn new(wanted: String) -> Self {
        Self { wanted }
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        name.contains(&self.wanted)
    }

    pub(crate) fn head(&self) {
        println!("| measure | floor | engine | ratio (lowest to highest) | at most | |");
        println!("| --- | --- | --- | --- | --- | --- |");
    }

    /// Measures floor and engine by turns, and prints the medians and their ratio.
    pub(crate) fn compare(
        &self,
        name: &str,
        bound: f64,
        mut floor: impl FnMut() -> Duration,
        mut engine: impl FnMut() -> Duration,
    ) {
        if !self.wants(name) {
            return;
        }
        let rounds: Vec<(f64, f64)> =
            (0..ROUNDS).map(|_| (floor().as_secs_f64(), engine().as_secs_f64())).collect();
        let ratios: Vec<f64> = rounds.iter().map(|(floor, engine)| engine / floor).collect();
        let floor = median(rounds.iter().map(|round| round.0));
        let engine = median(rounds.iter().map(|round| round.1));
        let ratio = median(ratios.iter().copied());
        let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = ratios.iter().copied().fold(0.0, f64::max);
        println!(
            "| {name} | {} | {} | {ratio:.2} ({lowest:.2} to {highest:.2}) | {bound} | {} |",
            time(floor),
            time(engine),
            verdict(ratio <= bound),
        );
    }

    /// Prints a figure that is not a ratio of times.
    pub(crate) fn figure(&self, name: &str, figure: &str, bound: &str, holds: bool) {
        println!("| {name} | | {figure} | | {bound} | {} |", verdict(holds));
    }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn verdict(holds: bool) -> &'static str {
    if holds { "met" } else { "MISSED" }
}

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.2} us", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}
