//! Random decisions, and the variables with their number.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Decides everything of one life, from its seed. Names the seed if the test fails.
#[derive(Debug)]
pub(super) struct Random {
    seed: u64,
    generator: SmallRng,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, generator: SmallRng::seed_from_u64(seed) }
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.generator.random_range(0..limit)
    }

    /// Returns true in this many of a hundred cases.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.generator.random_ratio(percent, 100)
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("replay with CRANKCASE_SEED={}", self.seed);
        }
    }
}

/// Returns the value of a variable of the environment, if it is a number.
pub(super) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}
