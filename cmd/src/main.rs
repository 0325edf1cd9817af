//! Keeps a machine as its manifest declares, and says why anything is not.

mod cli;
mod command;
mod exit;
mod logging;
mod print;
mod saved_plan;
mod site_args;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::after_parsing(&error),
    };
    let begun = logging::begin(&cli.global, cli.command.usual_log());
    match begun.map_err(anyhow::Error::from).and_then(|()| command::run(cli)) {
        Ok(code) => ExitCode::from(code),
        Err(error) if exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody can be told when stderr is closed.
            drop(writeln!(anstream::stderr(), "{}", exit::text_of(&error)));
            ExitCode::from(exit::code_of(&error))
        }
    }
}
