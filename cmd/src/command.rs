//! The commands, one module for each.

pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod events;
pub(crate) mod graph;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod why;

use anyhow::Context;
use crankcase_status::Client;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use self::control::Act;
use crate::cli::{Cli, Command, Global};

/// Runs a command; returns the exit code.
pub(crate) fn run(cli: Cli) -> anyhow::Result<u8> {
    let Cli { global, command } = cli;
    match command {
        Command::Run(args) => run::run(&global, &args),
        Command::Check(args) => check::run(&global, &args),
        Command::Plan(args) => workers()?.block_on(plan::run(&global, args)),
        Command::Apply(args) => workers()?.block_on(apply::run(&global, args)),
        Command::Report(args) => runtime()?.block_on(report::run(&global, args)),
        Command::Why(args) => runtime()?.block_on(why::run(&global, args)),
        Command::Graph(args) => runtime()?.block_on(graph::run(&global, args)),
        Command::Events(args) => runtime()?.block_on(events::run(&global, args)),
        Command::Bounce(args) => runtime()?.block_on(control::run(&global, Act::Bounce, args)),
        Command::Park(args) => runtime()?.block_on(control::run(&global, Act::Park, args)),
        Command::Unpark(args) => runtime()?.block_on(control::run(&global, Act::Unpark, args)),
    }
}

/// Returns what a command that asks the agent runs on.
fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot begin to wait for an answer")
}

/// Returns what a command that works on resources runs on.
fn workers() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build().context("cannot make the threads for the work")
}

/// Returns what waits until SIGINT or SIGTERM asks the process to end.
fn interrupted() -> anyhow::Result<impl Future<Output = ()>> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Connects to the agent of the state folder.
async fn connect(global: &Global) -> anyhow::Result<Client> {
    Ok(Client::connect(global.state_dir()?.path()).await?)
}
