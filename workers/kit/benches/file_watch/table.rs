//! The table of measures that is printed.

use std::time::Duration;

use crate::rounds::{ROUNDS, Rounds, time};

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
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push((floor().await.as_secs_f64(), watcher().await.as_secs_f64()));
        }
        Rounds::new(rounds).print(name, bound, time);
    }
}
