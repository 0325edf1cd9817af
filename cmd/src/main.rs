//! Keeps a machine as its manifest declares, and says why anything is not.

mod cli;
mod command;
mod exit;
mod logging;
mod paths;
mod print;
mod saved_plan;
mod site_args;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use crankcase_manifest::ManifestError;

use crate::cli::{Cli, Format};
use crate::print::Checked;
use crate::saved_plan::IsSavedPlan;

fn main() -> ExitCode {
    crankcase_workers::launch();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::after_parsing(&error),
    };
    let format = cli.global.output;
    let begun = logging::begin(&cli.global, cli.command.usual_log());
    match begun.map_err(anyhow::Error::from).and_then(|()| command::run(cli)) {
        Ok(code) => ExitCode::from(code),
        Err(error) if exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody can be told when the stream is closed.
            drop(tell(format, &error));
            ExitCode::from(exit::code_of(&error))
        }
    }
}

/// Says what went wrong: what is wrong with a manifest is data, where data is asked for. Where that
/// cannot be written, it is said in words.
fn tell(format: Format, error: &anyhow::Error) -> io::Result<()> {
    let checked = error.downcast_ref::<ManifestError>().map(Checked::from);
    let checked = checked.or_else(|| error.downcast_ref::<IsSavedPlan>().map(Checked::from));
    if let Some(checked) = checked.filter(|_| format != Format::Human)
        && print::data(format, &checked, |_, _| Ok(())).is_ok()
    {
        return Ok(());
    }
    writeln!(anstream::stderr(), "{}", exit::text_of(error))
}
