use std::path::PathBuf;
use std::time::Duration;

use crankcase_resources::{AttributeError, Attributes, Config, MAX_GRACE, Parameter};
use crankcase_workers::ProcessConfig;

use crate::command::{Place, Shell, absolute, command, place};

/// How many characters of a command are in its name, which has at most 255 bytes.
const MAX_NAME: usize = 60;
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
    Parameter { name: "user", summary: "the user to run as; the agent's own by default" },
    Parameter { name: "group", summary: "the group to run as; the user's main one by default" },
    Parameter { name: "umask", summary: "the mode bits that new files lack, in octal" },
    Parameter { name: "limits", summary: "limits by name, such as nofile, nproc, core and as" },
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

    /// Returns how a command or a guard is run.
    pub(super) fn process(&self, argv: &[String]) -> ProcessConfig {
        // What a person sees of one that a killed agent has left.
        let shown = argv.get(2).filter(|_| self.is_shell).unwrap_or(&argv[0]);
        let name: String = shown.chars().take(MAX_NAME).collect();
        self.place.process(&format!("exec {name}"), argv)
    }

    /// Returns the command as it was written.
    pub(super) fn shown(&self) -> &[String] {
        if self.is_shell { &self.command[2..] } else { &self.command }
    }
}
