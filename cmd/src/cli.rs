//! What the command line says.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use crankcase_status::{StateDir, StateError};
use tracing::Level;

use crate::command::{apply, check, control, events, graph, plan, report, run, types, why};

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  something failed, is in trouble (report --exit-status), or has no such name
    2  with --detailed-exitcode only: done, and something changed or would change
   64  wrong usage
   65  invalid input: nothing was executed
   69  no agent is reachable
   75  conflict: another process holds the state folder, a saved plan is out of date, or the
       engine refused
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

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of all commands")]
pub(crate) struct Global {
    /// The folder with the agent's state [default: /var/lib/crankcase for root, else crankcase in
    /// `XDG_STATE_HOME` or ~/.local/state]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// How data is printed
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human")]
    pub(crate) output: Format,
    /// Print data and errors only
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log more; twice for all
    #[arg(long, short, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// How the log is written, and where to
    #[arg(long, global = true, value_name = "FORMAT", default_value = "auto")]
    pub(crate) log_format: LogFormat,
}

impl Global {
    /// Returns the state folder that was named, or the user's.
    pub(crate) fn state_dir(&self) -> Result<StateDir, StateError> {
        self.state_dir.clone().map_or_else(StateDir::of_user, |path| Ok(StateDir::new(path)))
    }
}

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; may change at any time
    Human,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// To the journal of systemd if stderr is connected to it, else as `human`
    Auto,
    /// To stderr, for people
    Human,
    /// To stderr, a JSON text on each line
    Json,
    /// To the journal of systemd, or to stderr if there is none
    Journald,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep this machine as declared, until a signal comes
    Run(run::Args),
    /// Validate manifests, and do no more
    Check(check::Args),
    /// Show what apply would change, and change nothing
    ///
    /// Guards of commands run.
    Plan(plan::Args),
    /// Make this machine as declared, once
    ///
    /// In the place of SITE it takes a plan that `plan -o` has saved: that is carried out only if a
    /// plan made now is the same. At a first SIGINT or SIGTERM nothing more begins, and a command
    /// that runs is not waited for: it gets TERM, and KILL after its grace. A second one kills it at
    /// once.
    Apply(apply::Args),
    /// Show what the running agent and its workers are doing
    Report(report::Args),
    /// Show the chain from a worker to the root cause
    Why(why::Args),
    /// Show the types of resources, or the parameters, the state and the JSON Schema of one
    Types(types::Args),
    /// Show who depends on whom in a site or in the running agent, for Graphviz
    Graph(graph::Args),
    /// Follow what happens in the running agent
    Events(events::Args),
    /// Stop a worker and start it again
    Bounce(control::Args),
    /// Stop a worker and keep it stopped until it is unparked
    ///
    /// What needs it running stops and waits. What depends on a resource runs on with the state that
    /// was last known, and waits only when it starts next. It stays parked until `unpark`, and no
    /// longer than the engine that it is in: an agent or a nested engine that is started again starts
    /// it too.
    Park(control::Args),
    /// Let a parked worker start again, also one that failed too often
    Unpark(control::Args),
}

impl Command {
    /// Returns what is logged when nothing is said: an agent tells what it does.
    pub(crate) fn usual_log(&self) -> Level {
        match self {
            Self::Run(_) => Level::INFO,
            _ => Level::WARN,
        }
    }
}
