//! The table of measures that is printed.

use std::time::Duration;

use crate::rounds::time;
use crate::turns::by_turns;

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
        engine: impl FnMut() -> f64,
        owner: impl FnMut() -> f64,
    ) {
        if !name.contains(&self.wanted) {
            return;
        }
        by_turns(engine, owner).print(name, BOUND, show);
    }
}
