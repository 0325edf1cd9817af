//! Checks of kinds, for those who write them; with the feature `testing`.

mod beside;
mod configs;
mod conformance;
mod cuts;
mod giver;
mod runs;
mod sample;
mod world;

pub use self::conformance::{Conformance, Violations};
pub use self::sample::Sample;
