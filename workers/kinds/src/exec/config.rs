use std::path::PathBuf;
use std::time::Duration;

use crankcase_resources::{AttributeError, Attributes, Config, MAX_GRACE, Parameter};

use crate::command::{Place, Shell, absolute, command, place};

const SHELL: &str = "/bin/sh";
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);
const DEFAULT_GRACE: Duration = Duration::from_secs(5);

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "command",
        summary: "the program and its arguments as a list, or a line if shell is set; required",
    },
    Parameter { name: "shell", summary: "whether commands and guards are lines for /bin/sh" },
    Parameter { name: "creates", summary: "a path; if it exists the command need not run" },
    Parameter { name: "unless", summary: "a command; if it succeeds there is no need to run" },
    Parameter { name: "onlyif", summary: "a command; only if it succeeds there is a need to run" },
    Parameter { name: "cwd", summary: "the folder to run in; / by default" },
    Parameter { name: "env", summary: "variables besides PATH, HOME and LANG" },
    Parameter { name: "timeout", summary: "how long command or guard may take; 5m by default" },
    Parameter {
        name: "grace",
        summary: "the time between TERM and KILL; 5s by default, 5m at most",
    },
];

/// A valid config of the `exec` kind.
#[derive(Debug)]
pub(super) struct ExecConfig {
    pub(super) command: Vec<String>,
    pub(super) is_shell: bool,
    pub(super) creates: Option<PathBuf>,
    pub(super) unless: Option<Vec<String>>,
    pub(super) onlyif: Option<Vec<String>>,
    pub(super) place: Place,
    pub(super) timeout: Duration,
    pub(super) grace: Duration,
}

impl ExecConfig {
    pub(super) fn new(config: &Config) -> Result<Self, Vec<AttributeError>> {
        let mut attributes = Attributes::new(config, PARAMETERS);
        let is_shell = attributes.flag("shell").unwrap_or(false);
        let shell = if is_shell { Shell::On(SHELL) } else { Shell::Off };
        if attributes.value("command").is_none() {
            attributes.wrong("command", "is missing".to_owned());
        }
        let argv = command(&mut attributes, "command", shell);
        let unless = command(&mut attributes, "unless", shell);
        let onlyif = command(&mut attributes, "onlyif", shell);
        let creates = absolute(&mut attributes, "creates");
        let place = place(&mut attributes);
        let timeout = attributes.duration("timeout").unwrap_or(DEFAULT_TIMEOUT);
        let grace = attributes.duration_up_to("grace", MAX_GRACE).unwrap_or(DEFAULT_GRACE);
        attributes.finish(argv.map(|command| Self {
            command,
            is_shell,
            creates,
            unless,
            onlyif,
            place,
            timeout,
            grace,
        }))
    }

    /// Returns the command as it was written.
    pub(super) fn shown(&self) -> &[String] {
        if self.is_shell { &self.command[2..] } else { &self.command }
    }
}
