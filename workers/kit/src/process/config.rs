use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crankcase_engine::ConfigError;
use rustix::process::Signal as Number;

const MAX_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// What to run as a [`Process`](crate::Process), and how to end it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessConfig {
    /// What the process is called in logs, errors and records. At most 255 bytes.
    pub name: String,
    /// The program and its arguments; no shell is involved.
    ///
    /// A program without a slash is looked up in the child's PATH.
    pub command: Vec<OsString>,
    /// Variables of the child's environment.
    ///
    /// Besides them it has only PATH, HOME and LANG: from here, else the agent's own, else
    /// `/usr/local/bin:/usr/bin:/bin`, `/` and `C.UTF-8`; and a mark if there is a ledger.
    pub environment: BTreeMap<OsString, OsString>,
    /// The working folder, absolute. Default `/`.
    pub folder: PathBuf,
    /// The signal that asks the process group to end. Default SIGTERM.
    pub stop_signal: StopSignal,
    /// How long the process may take to end before its group is killed. Default 10 s, at most 24 h.
    ///
    /// Keep it below the grace period of the engine that runs the worker.
    pub grace: Duration,
    /// How many lines of stdout, and as many of stderr, are logged per second. Default 1,000.
    ///
    /// What comes above is read and dropped, and their number is logged with the next line or at
    /// the end of the stream. 0 logs nothing but the numbers.
    pub lines_per_second: u32,
}

impl ProcessConfig {
    /// Returns a configuration that runs `command` with the defaults.
    pub fn new(name: &str, command: Vec<OsString>) -> Self {
        Self {
            name: name.to_owned(),
            command,
            environment: BTreeMap::new(),
            folder: PathBuf::from("/"),
            stop_signal: StopSignal::default(),
            grace: Duration::from_secs(10),
            lines_per_second: 1000,
        }
    }

    /// Checks every field on its own; opens and looks up nothing.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first field that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.name.is_empty() || self.name.len() > 255 {
            return Err(ConfigError::new("name", &self.name, "1 to 255 bytes"));
        }
        if self.program().is_empty() {
            return Err(ConfigError::new("command", "[]", "a program first"));
        }
        if let Some(word) = self.command.iter().find(|word| has_nul(word)) {
            return Err(ConfigError::new("command", word.display(), "no NUL"));
        }
        for (key, value) in &self.environment {
            if key.is_empty() || has_nul(key) || key.as_bytes().contains(&b'=') {
                let reason = "a name that is not empty, without NUL and \"=\"";
                return Err(ConfigError::new("environment", key.display(), reason));
            }
            if has_nul(value) {
                let reason = "a value without NUL";
                return Err(ConfigError::new("environment", key.display(), reason));
            }
        }
        if !self.folder.is_absolute() || has_nul(self.folder.as_os_str()) {
            let reason = "an absolute path without NUL";
            return Err(ConfigError::new("folder", self.folder.display(), reason));
        }
        if self.grace > MAX_GRACE {
            let value = format!("{} s", self.grace.as_secs());
            return Err(ConfigError::new("grace", value, "at most 24 h"));
        }
        Ok(())
    }

    /// Returns the program; empty if there is none.
    pub(super) fn program(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }
}

fn has_nul(text: &OsStr) -> bool {
    text.as_bytes().contains(&0)
}

/// A signal that asks a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopSignal {
    /// SIGTERM.
    #[default]
    Terminate,
    /// SIGINT.
    Interrupt,
    /// SIGQUIT.
    Quit,
    /// SIGHUP.
    Hangup,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGWINCH; some web servers take it as the request to end gracefully.
    WindowChange,
    /// SIGKILL; the process gets no chance to clean up.
    Kill,
}

impl StopSignal {
    /// Every signal that can be asked for.
    pub const ALL: [Self; 8] = [
        Self::Terminate,
        Self::Interrupt,
        Self::Quit,
        Self::Hangup,
        Self::User1,
        Self::User2,
        Self::WindowChange,
        Self::Kill,
    ];

    /// Returns the signal's name without `SIG`, as in `TERM`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Interrupt => "INT",
            Self::Quit => "QUIT",
            Self::Hangup => "HUP",
            Self::User1 => "USR1",
            Self::User2 => "USR2",
            Self::WindowChange => "WINCH",
            Self::Kill => "KILL",
        }
    }

    pub(super) fn number(self) -> Number {
        match self {
            Self::Terminate => Number::TERM,
            Self::Interrupt => Number::INT,
            Self::Quit => Number::QUIT,
            Self::Hangup => Number::HUP,
            Self::User1 => Number::USR1,
            Self::User2 => Number::USR2,
            Self::WindowChange => Number::WINCH,
            Self::Kill => Number::KILL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessConfig;

    fn valid() -> ProcessConfig {
        ProcessConfig::new("www", vec!["httpd".into(), "-f".into()])
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(valid().validate(), Ok(()));
    }

    #[test]
    fn an_invalid_field_is_named_with_its_value() {
        let mut folder = valid();
        folder.folder = "srv".into();
        let mut environment = valid();
        environment.environment.insert("A=B".into(), "c".into());

        let folder = folder.validate().unwrap_err();
        let environment = environment.validate().unwrap_err();

        assert_eq!(folder.field(), "folder");
        let text = "folder is srv; expected an absolute path without NUL";
        assert_eq!(folder.to_string(), text);
        assert_eq!(environment.field(), "environment");
    }

    #[test]
    fn an_empty_command_is_refused() {
        let empty = ProcessConfig::new("www", vec![]).validate();

        assert_eq!(empty.unwrap_err().field(), "command");
    }
}
