//! The commands, one module for each.

pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod events;
pub(crate) mod graph;
mod interrupts;
pub(crate) mod plan;
mod progress;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod types;
pub(crate) mod why;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use crankcase_status::{Client, StateDir};
use tokio::runtime::{Builder, Runtime};

use self::control::Act;
use self::interrupts::Interrupts;
use self::progress::told;
use crate::cli::{Cli, Command, Global};

/// How long what still blocks a thread may hold up the end of the program.
const LAST: Duration = Duration::from_secs(1);

/// How many threads look at files and change them. Each reserves 64 MiB of addresses for what it
/// allocates: with more of them, 10,000 files would not fit into `ulimit -v 400000`.
const THREADS: usize = 4;

/// Runs a command; returns the exit code.
pub(crate) fn run(cli: Cli) -> anyhow::Result<u8> {
    let Cli { global, command } = cli;
    match command {
        Command::Run(args) => run::run(&global, &args),
        Command::Check(args) => check::run(&global, &args),
        Command::Plan(args) => work(plan::run(&global, args)),
        Command::Apply(args) => work(apply::run(&global, args)),
        Command::Report(args) => runtime()?.block_on(report::run(&global, args)),
        Command::Why(args) => runtime()?.block_on(why::run(&global, args)),
        Command::Types(args) => types::run(&global, args),
        Command::Graph(args) => runtime()?.block_on(graph::run(&global, args)),
        Command::Events(args) => runtime()?.block_on(events::run(&global, args)),
        Command::Bounce(args) => runtime()?.block_on(control::run(&global, Act::Bounce, args)),
        Command::Park(args) => runtime()?.block_on(control::run(&global, Act::Park, args)),
        Command::Unpark(args) => runtime()?.block_on(control::run(&global, Act::Unpark, args)),
    }
}

/// Returns where what runs is on record, by which the next one finds what a killed one has left.
fn ledger(state_dir: &StateDir) -> PathBuf {
    state_dir.path().join("processes")
}

/// Returns what a command that asks the agent runs on.
fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot begin to wait for an answer")
}

/// Runs a command that works on resources.
fn work(command: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    require_threads()?;
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(THREADS).build();
    let runtime = runtime.context("cannot begin to work")?;
    let ended = runtime.block_on(command);
    // After an interrupt a thread may still look at a file, of a dead server for instance.
    runtime.shutdown_timeout(LAST);
    ended
}

/// Looks whether a thread can be made: a runtime panics where it cannot make its first one.
fn require_threads() -> anyhow::Result<()> {
    let made = std::thread::Builder::new().spawn(|| {}).context("cannot make a thread")?;
    made.join().map_err(|_| anyhow::anyhow!("a thread that does nothing has failed"))
}

/// Connects to the agent of the state folder.
async fn connect(global: &Global) -> anyhow::Result<Client> {
    Ok(Client::connect(global.state_dir()?.path()).await?)
}
