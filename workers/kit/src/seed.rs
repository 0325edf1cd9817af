//! What tells one process, and one worker of it, from another.

use std::hash::{BuildHasher, RandomState};

/// Returns a number that is another one each time, in each process.
pub(crate) fn any_seed() -> u64 {
    RandomState::new().hash_one(0)
}
