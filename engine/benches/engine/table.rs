//! The table of measures that is printed.

use std::time::Duration;

use crate::rounds::{time, verdict};
use crate::runtime::warm;
use crate::turns::by_turns;

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
    pub(crate) fn compare<F, E>(
        &self,
        name: &str,
        bound: f64,
        floor: impl Fn() -> F,
        engine: impl Fn() -> E,
    ) where
        F: Future<Output = Duration> + Send + 'static,
        E: Future<Output = Duration> + Send + 'static,
    {
        if self.wants(name) {
            by_turns(|| warm(&floor).as_secs_f64(), || warm(&engine).as_secs_f64())
                .print(name, bound, time);
        }
    }

    /// Prints a figure that is not a ratio of times.
    pub(crate) fn figure(&self, name: &str, figure: &str, bound: &str, holds: bool) {
        println!("| {name} | | {figure} | | {bound} | {} |", verdict(holds));
    }
}
