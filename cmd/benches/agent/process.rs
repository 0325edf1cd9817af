//! A process from its start to its end, and what it took.

use std::path::Path;
use std::process::{Command, Stdio};

use tokio::time::Instant;
use wait4::Wait4 as _;

pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// What a process took: seconds and bytes.
#[derive(Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: f64,
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) peak: f64,
}

/// Returns the agent, in the folder that has all, and in an environment that says nothing.
pub(crate) fn agent(root: &Path, arguments: &[&str]) -> Command {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_crankcase"));
    agent.current_dir(root).env_clear().args(["--state-dir", "state"]).args(arguments);
    agent
}

/// Runs a process to its end, which has to be a good one.
pub(crate) fn run(mut command: Command) -> Took {
    let began = Instant::now();
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = quiet.spawn().unwrap().wait4().unwrap();
    let wall = began.elapsed().as_secs_f64();
    assert!(ended.status.success(), "{command:?}: {}", ended.status);
    let usage = ended.rusage;
    Took {
        wall,
        user: usage.utime.as_secs_f64(),
        system: usage.stime.as_secs_f64(),
        peak: usage.maxrss as f64,
    }
}

/// Returns a figure of the memory of a process in bytes.
pub(crate) fn status(pid: &str, figure: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}
