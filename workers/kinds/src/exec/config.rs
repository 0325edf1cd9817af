use std::time::Duration;

use crankcase_resources::{AbsPath, AttributeError, Half, Params, Rules};
use crankcase_workers::ProcessConfig;

use crate::command::{Command, Grace, Setting};

/// How many characters of a command are in its name, which has at most 255 bytes.
const MAX_NAME: usize = 60;
const SHELL: &str = "/bin/sh";

/// The config of the `exec` kind.
#[derive(Debug, Clone, PartialEq, Params)]
pub(super) struct ExecConfig {
    /// the program and its arguments as a list, or a line if `shell` is set
    pub(super) command: Command,
    /// whether command and guards are lines for /bin/sh
    #[param(default = false)]
    pub(super) shell: bool,
    /// a path; if it exists the command need not run
    pub(super) creates: Option<AbsPath>,
    /// a command; if it succeeds there is no need to run
    pub(super) unless: Option<Command>,
    /// a command; only if it succeeds there is a need to run
    pub(super) onlyif: Option<Command>,
    /// how the command runs
    #[param(flatten)]
    pub(super) setting: Setting,
    /// how long command or guard may take
    #[param(default = "5m")]
    pub(super) timeout: Duration,
    /// the time between TERM and KILL, at most 5 minutes
    #[param(default = "5s")]
    pub(super) grace: Grace,
}

/// The state of the `exec` kind.
#[derive(Debug, Clone, PartialEq, Params)]
pub(super) struct ExecState {
    /// whether the command has run, in this `apply` or since the agent's start
    pub(super) ran: bool,
    /// its exit code; null before it has run
    pub(super) exit_code: Option<i32>,
    /// what it wrote to its standard output, of 128 KiB the first and the last half
    pub(super) stdout: String,
    /// what it wrote to its standard error, alike
    pub(super) stderr: String,
}

impl Rules for ExecConfig {
    fn rules(half: &mut ExecConfigHalf, errors: &mut Vec<AttributeError>) {
        let Half::Given(is_shell) = half.shell else { return };
        let guards = [("unless", &half.unless), ("onlyif", &half.onlyif)];
        let guards = guards.map(|(name, guard)| (name, guard.as_given().and_then(Option::as_ref)));
        for (name, command) in [("command", half.command.as_given())].into_iter().chain(guards) {
            let amiss = command.and_then(|command| command.amiss(is_shell));
            errors.extend(amiss.map(|message| AttributeError::new(name, message)));
        }
    }
}

impl ExecConfig {
    /// Returns how a command or a guard is run.
    pub(super) fn process(&self, command: &Command) -> ProcessConfig {
        // What a person sees of one that a killed agent has left.
        let name: String = command.words()[0].chars().take(MAX_NAME).collect();
        self.setting.process(&format!("exec {name}"), &command.argv(SHELL))
    }
}
