//! What an external command needs to run, and how it is ended.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crankcase_engine::ConfigError;

use super::cgroup::Cgroups;
use super::health_check::HealthCheck;
use super::limits::Limit;
use super::readiness::{NOTIFY_SOCKET, Readiness};
use super::reload::Reload;
use super::stop_signal::StopSignal;
use crate::secrets::Secrets;

const MAX_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// What to run as a [`Process`](crate::Process) or a [`ProcessGroup`](crate::ProcessGroup), and how
/// to end it.
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
    /// Besides them it has only what is [inherited](Self::inherit), and PATH, HOME and LANG: from
    /// here, else the agent's own, else
    /// `/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`, `/` and `C.UTF-8`; a mark if
    /// there is a ledger; and `NOTIFY_SOCKET` if that is how it is ready.
    pub environment: BTreeMap<OsString, OsString>,
    /// Names of variables that it has from the agent's own environment, where they are set and not
    /// in [`environment`](Self::environment). Default none.
    pub inherit: Vec<OsString>,
    /// The working folder, absolute. Default `/`.
    pub folder: PathBuf,
    /// What it reads on its stdin. Default nothing.
    pub input: Vec<u8>,
    /// The user that it runs as: a name, or an id in digits, which needs no entry if there is a
    /// [`group`](Self::group). Default: the agent's own.
    ///
    /// Its groups are those of the user, and its HOME is the user's unless one is given. This and the
    /// three that follow need a program that calls [`launch`](crate::launch).
    pub user: Option<String>,
    /// The group that it runs as: a name, or an id in digits. Default: the user's main group, without
    /// a user the agent's own. Without a user it is in no other group.
    pub group: Option<String>,
    /// Which bits of a mode no file has that it makes, at most `0o777`. Default: the agent's own.
    pub umask: Option<u32>,
    /// Its limits, soft and hard alike; `None` is no limit. Default: the agent's own.
    pub limits: BTreeMap<Limit, Option<u64>>,
    /// The signal that asks the process group to end. Default SIGTERM.
    pub stop_signal: StopSignal,
    /// How long the process may take to end before its group is killed. Default 10 s, at most 24 h.
    ///
    /// Keep it below the grace period of the engine that runs the worker.
    pub grace: Duration,
    /// How many lines of stdout, and as many of stderr, are logged per second. Default 1,000.
    ///
    /// What comes above is read and dropped, and their number is logged before the next line that
    /// is logged, when none was dropped for 1 s, or at the end of the stream. 0 logs nothing but
    /// their number at the end.
    pub lines_per_second: u32,
    /// How much of a line is logged, in bytes; how much more there was is logged with it. Default
    /// 8 KiB, 64 B to 1 MiB.
    pub max_line: usize,
    /// The file that the lines are written to, as they come, instead of the log; absolute, in a
    /// folder of the agent's own, which is made. Default: they are logged.
    ///
    /// A file of more than 4 MiB gets the extension `1`, replaces the earlier file of that name,
    /// and a new file is begun.
    pub log_file: Option<PathBuf>,
    /// What is hidden in the lines that are logged, and in the last words of an error. Default nothing.
    pub secrets: Secrets,
    /// Whether another agent may adopt the process when this one ends. Default: no.
    ///
    /// The process needs a ledger. A process with a [limit](Self::limits) of the size of files ends
    /// with its agent nevertheless. Messages of an adopted process to its notify socket are not
    /// read.
    ///
    /// The output goes to files beside the record then, which are read as a pipe would be, so that
    /// the process neither waits nor ends when nobody reads; see
    /// [`Process::adopt_for`](crate::Process::adopt_for).
    pub survives: bool,
    /// The digest of everything that the process is started with, which an agent compares before it
    /// adopts the process; at most 256 bytes. Default empty.
    pub digest: String,
    /// The file in which the program leaves the pid of its daemon, absolute. Default: the program
    /// stays in the foreground.
    ///
    /// The command has to end with 0, and to write the file. The process that the file names is
    /// supervised from then on. It has to be started after the command, and to have the mark that
    /// the ledger gives to the command in its environment, or to have overwritten its environment,
    /// as a program does that shows a title of its own. All that may take
    /// [`ready_timeout`](Self::ready_timeout), which begins anew then. Needs a ledger.
    ///
    /// If the start of the process is dropped before its daemon was found, a daemon that has left
    /// the group of the command runs on, unless the process has a [cgroup](Self::cgroups).
    pub pid_file: Option<PathBuf>,
    /// Where the process gets a cgroup of its own: all that it starts ends with it, also what is in
    /// a session of its own or has cleared its environment. Default: it gets none.
    ///
    /// It needs a ledger, and a program that calls [`launch`](crate::launch). Without these, or
    /// where no cgroup can be made, the process has none; see
    /// [`ProcessStatus::contained_by`](crate::ProcessStatus::contained_by).
    pub cgroups: Option<Cgroups>,
    /// How the process is known to be ready. Default: it runs.
    pub readiness: Readiness,
    /// How long it may take to be ready before it is killed and has failed. Default 60 s, 1 ms to
    /// 24 h.
    ///
    /// Keep it below the start timeout of the engine that runs the worker, which knows no reason.
    pub ready_timeout: Duration,
    /// How it is told to read its configuration anew, by
    /// [`ProcessHandle::reload`](crate::ProcessHandle::reload). Default: it cannot be told.
    pub reload: Option<Reload>,
    /// The health check of the process, from the time when it is ready. Default: none.
    pub health: Option<HealthCheck>,
}

crankcase_engine::setters! {
    ProcessConfig {
        name: String,
        command: Vec<OsString>,
        environment: BTreeMap<OsString, OsString>,
        inherit: Vec<OsString>,
        folder: PathBuf,
        input: Vec<u8>,
        limits: BTreeMap<Limit, Option<u64>>,
        stop_signal: StopSignal,
        grace: Duration,
        lines_per_second: u32,
        max_line: usize,
        secrets: Secrets,
        survives: bool,
        digest: String,
        readiness: Readiness,
        ready_timeout: Duration,
    }
    optional {
        log_file: PathBuf,
        pid_file: PathBuf,
        cgroups: Cgroups,
        user: String,
        group: String,
        umask: u32,
        reload: Reload,
        health: HealthCheck,
    }
}

impl ProcessConfig {
    /// Returns a configuration that runs `command` with the defaults.
    pub fn new(name: &str, command: Vec<OsString>) -> Self {
        Self {
            name: name.to_owned(),
            command,
            environment: BTreeMap::new(),
            inherit: Vec::new(),
            folder: PathBuf::from("/"),
            input: Vec::new(),
            user: None,
            group: None,
            umask: None,
            limits: BTreeMap::new(),
            stop_signal: StopSignal::default(),
            grace: Duration::from_secs(10),
            lines_per_second: 1000,
            max_line: 8 * 1024,
            log_file: None,
            secrets: Secrets::default(),
            survives: false,
            digest: String::new(),
            pid_file: None,
            cgroups: None,
            readiness: Readiness::default(),
            ready_timeout: Duration::from_secs(60),
            reload: None,
            health: None,
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
        self.validate_environment()?;
        if !self.folder.is_absolute() || has_nul(self.folder.as_os_str()) {
            let reason = "an absolute path without NUL";
            return Err(ConfigError::new("folder", self.folder.display(), reason));
        }
        self.validate_rights()?;
        if self.grace > MAX_GRACE {
            let value = format!("{} s", self.grace.as_secs());
            return Err(ConfigError::new("grace", value, "at most 24 h"));
        }
        if !(64..=1024 * 1024).contains(&self.max_line) {
            return Err(ConfigError::new("max_line", self.max_line, "64 to 1048576 bytes"));
        }
        if let Some(file) = self.log_file.as_ref().filter(|file| !file.is_absolute()) {
            return Err(ConfigError::new("log_file", file.display(), "an absolute path"));
        }
        if self.digest.len() > 256 {
            let value = format!("{} bytes", self.digest.len());
            return Err(ConfigError::new("digest", value, "at most 256 bytes"));
        }
        self.validate_pid_file()?;
        self.readiness.validate()?;
        if let Readiness::Delay(delay) = self.readiness
            && delay >= self.ready_timeout
        {
            let value = format!("Delay({delay:?})");
            return Err(ConfigError::new("readiness", value, "a delay below ready_timeout"));
        }
        if !(Duration::from_millis(1)..=MAX_GRACE).contains(&self.ready_timeout) {
            let value = format!("{:?}", self.ready_timeout);
            return Err(ConfigError::new("ready_timeout", value, "between 1 ms and 24 h"));
        }
        self.reload.as_ref().map_or(Ok(()), Reload::validate)?;
        self.health.as_ref().map_or(Ok(()), HealthCheck::validate)
    }

    fn validate_pid_file(&self) -> Result<(), ConfigError> {
        let Some(path) = &self.pid_file else { return Ok(()) };
        if path.is_absolute() && !has_nul(path.as_os_str()) {
            return Ok(());
        }
        Err(ConfigError::new("pid_file", path.display(), "an absolute path without NUL"))
    }

    fn validate_rights(&self) -> Result<(), ConfigError> {
        for (field, account) in [("user", &self.user), ("group", &self.group)] {
            if let Some(account) = account.as_ref().filter(|account| !is_account(account)) {
                let value = format!("{account:?}");
                return Err(ConfigError::new(field, value, "a name, or an id below 4294967295"));
            }
        }
        if let Some(umask) = self.umask.filter(|umask| *umask > 0o777) {
            return Err(ConfigError::new("umask", format!("{umask:#o}"), "at most 0o777"));
        }
        if self.user.is_some() && matches!(self.readiness, Readiness::Notify { .. }) {
            let reason = "none, as a notify socket is the agent's own user's";
            return Err(ConfigError::new("user", self.user.as_deref().unwrap_or_default(), reason));
        }
        Ok(())
    }

    /// Returns whether another agent may adopt the process. It may not if the size of its files is
    /// limited: the kernel would end the process as soon as its output has that size.
    pub(super) fn may_survive(&self) -> bool {
        let is_bound = self.limits.get(&Limit::FileSize).is_some_and(Option::is_some);
        self.survives && !is_bound
    }

    /// Returns whether something is to be done to the process before it executes the program.
    pub(super) fn needs_launcher(&self) -> bool {
        self.user.is_some()
            || self.group.is_some()
            || self.umask.is_some()
            || !self.limits.is_empty()
    }

    fn validate_environment(&self) -> Result<(), ConfigError> {
        let is_name =
            |key: &OsStr| !key.is_empty() && !has_nul(key) && !key.as_bytes().contains(&b'=');
        let name = "a name that is not empty, without NUL and \"=\"";
        if let Some(key) = self.inherit.iter().find(|key| !is_name(key)) {
            return Err(ConfigError::new("inherit", key.display(), name));
        }
        for (key, value) in &self.environment {
            if !is_name(key) {
                return Err(ConfigError::new("environment", key.display(), name));
            }
            if has_nul(value) {
                let reason = "a value without NUL";
                return Err(ConfigError::new("environment", key.display(), reason));
            }
        }
        if matches!(self.readiness, Readiness::Notify { .. })
            && let Some(socket) = self.environment.get(OsStr::new(NOTIFY_SOCKET))
        {
            let value = format!("{NOTIFY_SOCKET}={}", socket.display());
            let reason = "no socket of yours where readiness makes one";
            return Err(ConfigError::new("environment", value, reason));
        }
        Ok(())
    }

    /// Returns the program; empty if there is none.
    pub(super) fn program(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }
}

/// Returns whether it may be a user or a group; all ones is no id.
fn is_account(account: &str) -> bool {
    let is_number = account.bytes().all(|byte| byte.is_ascii_digit());
    let is_id = account.parse::<u32>().is_ok_and(|id| id != u32::MAX);
    !account.is_empty() && !account.contains('\0') && (is_id || !is_number)
}

fn has_nul(text: &OsStr) -> bool {
    text.as_bytes().contains(&0)
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
        let folder = valid().folder("srv".into());
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
