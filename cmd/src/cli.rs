//! What the command line says.

use clap::Parser;

use crate::command::Command;
use crate::global::Global;

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  something failed, is in trouble (report --exit-status), or has no such name
    2  with --detailed-exitcode only: done, and something changed or would change
   64  wrong usage
   65  invalid input: nothing was executed
   69  no agent is reachable
   75  conflict: another process holds the state folder, a saved plan is out of date, facts have
       another version or are of others, or the engine refused
  130  interrupted; run only by a second signal, 250 ms after the first or later, which ends an
       apply at once as well";

/// Keeps a machine as its manifest declares, and says why anything is not.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_commands_fit_together() {
        Cli::command().debug_assert();
    }
}
