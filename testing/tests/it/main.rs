//! The kit's own tests: that it tells the truth, above all of what fails.

#[path = "../../../engine/tests/it/examples.rs"]
mod examples;
mod kills;
mod starts;
mod waits;

use crankcase_engine::Name;

type TestResult = Result<(), Box<dyn std::error::Error>>;

const A: Name<u32> = Name::new("a");
const B: Name<u32> = Name::new("b");
