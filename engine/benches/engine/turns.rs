//! Measures two things by turns. The benchmarks of other crates use it too.

use std::time::Duration;

use tokio::time::Instant;

use crate::rounds::{ROUNDS, Rounds};

/// How long a round takes at least: what is over sooner is measured again, and the mean is taken.
const ROUND: Duration = Duration::from_millis(100);

/// Measures the floor and what is compared with it by turns, in rounds.
pub(crate) fn by_turns(mut floor: impl FnMut() -> f64, mut other: impl FnMut() -> f64) -> Rounds {
    let mut round = || {
        let (began, mut sums, mut times) = (Instant::now(), (0.0, 0.0), 0);
        while times == 0 || began.elapsed() < ROUND {
            sums = (sums.0 + floor(), sums.1 + other());
            times += 1;
        }
        (sums.0 / f64::from(times), sums.1 / f64::from(times))
    };
    Rounds::new((0..ROUNDS).map(|_| round()))
}
