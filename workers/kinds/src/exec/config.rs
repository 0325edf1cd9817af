//! The config and the state of the kind `exec`, and the process that a command becomes.

use std::collections::BTreeMap;
use std::time::Duration;

use crankcase_resources::dynamic::shown;
use crankcase_resources::{AbsPath, Field, Params, Partial, Type, Wrong};
use crankcase_workers::{Finished, ProcessConfig};
use serde_json::Value;

use crate::command::{Command, Grace, Setting};

/// How many characters of a command are in its name, which has at most 255 bytes.
const MAX_NAME: usize = 60;
/// How much of an output the state holds at most, in bytes.
const MAX_OUTPUT: i64 = 16 * 1024 * 1024;

/// The shell that runs lines.
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
    /// the largest output that the state holds, in bytes, at most 16 MiB; a larger one cannot be used
    #[param(default = 131072, unit = "bytes")]
    pub max_output: MaxOutput,
}

/// How much of an output is kept, in bytes, at most 16 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxOutput(pub usize);

impl Field for MaxOutput {
    fn ty() -> Type {
        Type::Int { min: 0, max: MAX_OUTPUT }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let bytes = value.as_i64().filter(|bytes| (0..=MAX_OUTPUT).contains(bytes));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let wrong = || format!("{} is not a whole number from 0 to {MAX_OUTPUT}", shown(value));
        Ok(Self(bytes.ok_or_else(wrong)?))
    }

    fn give(&self) -> Value {
        self.0.into()
    }
}

/// The state of the `exec` kind.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct ExecState {
    /// whether the command has run, in this `apply` or since the agent's start
    pub ran: bool,
    /// its exit code; null before it has run
    pub exit_code: Option<i32>,
    /// what it wrote to its standard output; missing if that is larger than `max_output`, or not UTF-8
    pub stdout: String,
    /// what it wrote to its standard error, alike
    pub stderr: String,
    /// why an output is missing, by its name; null if none is
    pub unusable: Option<BTreeMap<String, String>>,
}

impl ExecStatePartial {
    /// Returns the state before the command has run.
    pub(super) fn not_run() -> Self {
        let (stdout, stderr) = (String::new(), String::new());
        ExecState { ran: false, exit_code: None, stdout, stderr, unusable: None }.into()
    }

    /// Returns the state after the command has ended.
    pub(super) fn of(finished: &Finished, max_output: MaxOutput) -> Self {
        let outputs = [
            ("stdout", &finished.stdout, finished.left_out, finished.is_text),
            ("stderr", &finished.stderr, finished.stderr_left_out, finished.stderr_is_text),
        ];
        let mut unusable = BTreeMap::new();
        let [stdout, stderr] = outputs.map(|(name, text, left_out, is_text)| {
            let most = max_output.0;
            let why = if left_out > 0 || (is_text && text.len() > most) {
                format!("it has more than the {most} bytes of max_output")
            } else if is_text {
                return Partial::Given(text.clone());
            } else {
                "it is not UTF-8".to_owned()
            };
            unusable.insert(name.to_owned(), why);
            Partial::Unknown
        });
        let unusable = Partial::Given(Some(unusable).filter(|unusable| !unusable.is_empty()));
        let exit_code = Partial::Given(finished.status.code());
        Self { ran: Partial::Given(true), exit_code, stdout, stderr, unusable }
    }
}

impl Exec {
    /// Returns how a command or a guard is run.
    pub(super) fn process(&self, command: &Command) -> ProcessConfig {
        // A person sees this name if a killed agent has left the command.
        let name: String = command.words()[0].chars().take(MAX_NAME).collect();
        self.setting.process(&format!("exec {name}"), &command.argv(SHELL))
    }
}
