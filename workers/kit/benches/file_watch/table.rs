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

    pub(crate) fn head(&self) {
        println!("| measure | floor | watcher | ratio (lowest to highest) | at most | |");
        println!("| --- | --- | --- | --- | --- | --- |");
    }

    /// Measures floor and watcher by turns, and prints the medians and their ratio.
    pub(crate) async fn compare(
        &self,
        name: &str,
        bound: f64,
        mut floor: impl AsyncFnMut() -> Duration,
        mut watcher: impl AsyncFnMut() -> Duration,
    ) {
        if !name.contains(&self.wanted) {
            return;
        }
        // What is measured first warms up.
        let _warm = (floor().await, watcher().await);
        let mut rounds: Vec<(f64, f64)> = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push((floor().await.as_secs_f64(), watcher().await.as_secs_f64()));
        }
        let ratios: Vec<f64> = rounds.iter().map(|(floor, watcher)| watcher / floor).collect();
        let floor = median(rounds.iter().map(|round| round.0));
        let watcher = median(rounds.iter().map(|round| round.1));
        let ratio = median(ratios.iter().copied());
        let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = ratios.iter().copied().fold(0.0, f64::max);
        println!(
            "| {name} | {} | {} | {ratio:.2} ({lowest:.2} to {highest:.2}) | {bound} | {} |",
            time(floor),
            time(watcher),
            verdict(ratio <= bound),
        );
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn verdict(holds: bool) -> &'static str {
    if holds { "met" } else { "MISSED" }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.2} us", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}
