//! The kit's own tests: that it tells the truth, above all of what fails.

mod conformance;
#[path = "../../../engine/tests/it/examples.rs"]
mod examples;
mod harness;
mod kills;
mod simulation;
mod starts;
mod waits;
mod watchers;

use crankcase_engine::Name;

type TestResult = Result<(), Box<dyn std::error::Error>>;

const A: Name<u32> = Name::new("a");
const B: Name<u32> = Name::new("b");
