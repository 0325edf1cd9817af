//! Rounds, medians and what is printed of them.

use std::time::Duration;

const ROUNDS: usize = 5;

/// What a child may cost at most, as a ratio to an engine's worker.
const BOUND: f64 = 2.0;

pub(crate) struct Table {
    wanted: String,
}

impl Table {
    pub(crate) fn new(wanted: String) -> Self {
        Self { wanted }
    }

    pub(crate) fn head(&self) {
        println!("| measure | engine | owner | ratio (lowest to highest) | at most | |");
        println!("| --- | --- | --- | --- | --- | --- |");
    }

    /// Measures engine and owner by turns, and prints the medians and their ratio.
    pub(crate) fn compare(
        &self,
        name: &str,
        mut engine: impl FnMut() -> Duration,
        mut owner: impl FnMut() -> Duration,
    ) {
        let (engine, owner) = (|| engine().as_secs_f64(), || owner().as_secs_f64());
        self.figures(name, time, engine, owner);
    }

    /// Measures figures of any kind by turns, as [`compare`](Self::compare) does.
    pub(crate) fn figures(
        &self,
        name: &str,
        show: impl Fn(f64) -> String,
        mut engine: impl FnMut() -> f64,
        mut owner: impl FnMut() -> f64,
    ) {
        if !name.contains(&self.wanted) {
            return;
        }
        let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (engine(), owner())).collect();
        let ratios: Vec<f64> = rounds.iter().map(|(engine, owner)| owner / engine).collect();
        let ratio = median(ratios.iter().copied());
        let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = ratios.iter().copied().fold(0.0, f64::max);
        println!(
            "| {name} | {} | {} | {ratio:.2} ({lowest:.2} to {highest:.2}) | {BOUND} | {} |",
            show(median(rounds.iter().map(|round| round.0))),
            show(median(rounds.iter().map(|round| round.1))),
            if ratio <= BOUND { "met" } else { "MISSED" },
        );
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.2} us", s * 1e6),
    }
}
