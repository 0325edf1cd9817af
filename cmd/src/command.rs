//! The commands, one module for each.

pub(crate) mod bounce;
pub(crate) mod events;
pub(crate) mod graph;
pub(crate) mod report;
pub(crate) mod why;

use anyhow::Context;
use crankcase_status::Client;
use tokio::runtime::{Builder, Runtime};

use crate::cli::{Cli, Command, Global};

/// Runs a command; returns the exit code.
pub(crate) fn run(cli: Cli) -> anyhow::Result<u8> {
    let Cli { global, command } = cli;
    match command {
        Command::Report(args) => runtime()?.block_on(report::run(&global, args)),
        Command::Why(args) => runtime()?.block_on(why::run(&global, args)),
        Command::Graph(args) => runtime()?.block_on(graph::run(&global, args)),
        Command::Events(args) => runtime()?.block_on(events::run(&global, args)),
        Command::Bounce(args) => runtime()?.block_on(bounce::run(&global, args)),
    }
}

/// Returns what a command that asks the agent runs on.
fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot begin to wait for an answer")
}

/// Connects to the agent of the state folder.
async fn connect(global: &Global) -> anyhow::Result<Client> {
    Ok(Client::connect(global.state_dir()?.path()).await?)
}
