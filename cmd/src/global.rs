//! What every command takes.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use crankcase_status::{Client, StateDir, StateError};

/// The options of all commands.
#[derive(Debug, Clone, Args)]
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

    /// Connects to the agent of the state folder.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(self.state_dir()?.path()).await?)
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
    /// A picture as SVG; `graph` and `boot` have one
    Svg,
}

impl Format {
    /// Returns whether it is for programs.
    pub(crate) fn is_data(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
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
