//! Processes, their ends and their output.

mod adoption;
mod contained;
mod daemon;
mod ends;
mod group;
mod health;
mod job;
mod launch;
mod leftovers;
mod output;
mod ready;
mod reload;
mod room;

use crankcase_workers::ProcessConfig;

/// Returns a process that runs a shell script.
fn shell(script: &str) -> ProcessConfig {
    ProcessConfig::new("it", vec!["sh".into(), "-c".into(), script.into()])
}
