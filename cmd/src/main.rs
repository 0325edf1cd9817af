//! Keeps a machine as its manifest declares, and says why anything is not.

mod calls;
mod cli;
mod command;
mod completion;
mod ending;
mod exit;
mod external_args;
mod facts_given;
mod facts_store;
mod failure;
mod global;
mod interrupts;
mod logging;
mod metrics;
mod observing;
mod paths;
mod plan_file;
mod print;
mod saved_plan;
mod secrets;
mod site_args;
mod site_graph;
mod take_over_file;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use crate::cli::Cli;

/// The environment variable that a shell sets to ask for completions. The process prints them and ends.
const ASKED: &str = "CRANKCASE_COMPLETE";

fn main() -> ExitCode {
    crankcase_workers::launch();
    CompleteEnv::with_factory(Cli::command).var(ASKED).complete();
    let Cli { global, command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::after_parsing(error),
    };
    let format = global.output;
    let begun = match command.has_log() {
        true => logging::begin(&global, command.usual_log()),
        false => Ok(()),
    };
    let ended = begun.map_err(anyhow::Error::from).and_then(|()| command.run(&global));
    ending::end_calls(&global);
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) if print::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(ending::tell_failure(format, error)),
    }
}
