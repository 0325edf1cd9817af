use std::time::Duration;

use crankcase_resources::{AbsPath, Params};
use crankcase_workers::ProcessConfig;

use crate::command::{Command, Grace, Setting};

/// How many characters of a command are in its name, which has at most 255 bytes.
const MAX_NAME: usize = 60;
/// What understands lines.
pub(super) const SHELL: &str = "/bin/sh";

/// runs a command, unless a guard says that there is no need
///
/// `creates` and `unless` are also goals: where one is given, all guards are asked again after the
/// command, and none may see a need to run any more. Without them the command runs once per apply,
/// and with `onlyif` only if that succeeds. A notification runs it again, whatever the guards say.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct Exec {
    /// the program and its arguments as a list, or a line if `shell` is set
    pub command: Command,
    /// whether command and guards are lines for /bin/sh
    #[param(default = false)]
    pub shell: bool,
    /// a path; if it exists the command need not run
    pub creates: Option<AbsPath>,
    /// a command; if it succeeds there is no need to run
    pub unless: Option<Command>,
    /// a command; only if it succeeds there is a need to run
    pub onlyif: Option<Command>,
    /// how the command runs
    #[param(flatten)]
    pub setting: Setting,
    /// how long command or guard may take
    #[param(default = "5m")]
    pub timeout: Duration,
    /// the time between TERM and KILL, at most 5 minutes
    #[param(default = "5s")]
    pub grace: Grace,
}

/// The state of the `exec` kind.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct ExecState {
    /// whether the command has run, in this `apply` or since the agent's start
    pub ran: bool,
    /// its exit code; null before it has run
    pub exit_code: Option<i32>,
    /// what it wrote to its standard output, of 128 KiB the first and the last half
    pub stdout: String,
    /// what it wrote to its standard error, alike
    pub stderr: String,
}

impl Exec {
    /// Returns how a command or a guard is run.
    pub(super) fn process(&self, command: &Command) -> ProcessConfig {
        // What a person sees of one that a killed agent has left.
        let name: String = command.words()[0].chars().take(MAX_NAME).collect();
        self.setting.process(&format!("exec {name}"), &command.argv(SHELL))
    }
}
