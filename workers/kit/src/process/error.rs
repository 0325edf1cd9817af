//! Why an external command could not be run, or has ended.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crankcase_engine::{ConfigError, WithCauses};
use thiserror::Error;

use super::escaped::Escaped;
use super::ledger::LedgerError;

/// How a program that daemonises can be kept running.
const DAEMONISED: &str = "; it has daemonised: keep it in the foreground, such as nginx -g \"daemon off;\", \
     or give daemon: {pid_file: PATH}";

/// Why an external command could not be run, or has ended.
#[derive(Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The configuration is invalid; nothing was done.
    #[error("cannot run process {name:?}")]
    Config {
        /// The name of the process.
        name: String,
        /// The field at fault.
        #[source]
        source: ConfigError,
    },
    /// The working folder does not exist or is not a folder.
    #[error("cannot run process {name:?} in {folder:?}")]
    Folder {
        /// The name of the process.
        name: String,
        /// The working folder.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program could not be executed: it is not there, or not a program.
    #[error("cannot execute {program:?} as process {name:?}")]
    Execute {
        /// The name of the process.
        name: String,
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no such user or group; it was not spawned.
    #[error("cannot run process {name:?}: there is no {what} {account:?}")]
    NoAccount {
        /// The name of the process.
        name: String,
        /// `user` or `group`.
        what: &'static str,
        /// What was looked for.
        account: String,
    },
    /// A user, a group, a umask or limits are asked for, and the program has not called
    /// [`launch`](crate::launch); the process was not spawned.
    #[error(
        "cannot run process {name:?} as asked: user, group, umask and limits need a program whose \
         main calls crankcase_workers::launch() first"
    )]
    NoLauncher {
        /// The name of the process.
        name: String,
    },
    /// The process could not be recorded; it was not spawned, or was killed again.
    #[error("cannot record process {name:?}")]
    Record {
        /// The name of the process.
        name: String,
        /// What failed.
        #[source]
        source: LedgerError,
    },
    /// The process could not be watched, told to end, killed or reaped.
    #[error("cannot supervise process {name:?}")]
    Supervise {
        /// The name of the process.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket to which the process says that it is ready cannot be made; it was not spawned.
    #[error("cannot make a notify socket in {folder:?} for process {name:?}")]
    Notify {
        /// The name of the process.
        name: String,
        /// The folder of the socket.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program that this agent cannot identify accepts connections at the address of the process,
    /// which was not spawned.
    #[error("cannot run process {name:?}: {address} is in use by something else")]
    PortTaken {
        /// The name of the process.
        name: String,
        /// The address.
        address: SocketAddr,
    },
    /// The process was not ready in time; it was killed.
    #[error(
        "process {name:?} was not ready within {within:?}{}{}",
        because(said.as_ref()),
        words(last_words.as_ref())
    )]
    NotReady {
        /// The name of the process.
        name: String,
        /// How long it had.
        within: Duration,
        /// What was missing last.
        said: Option<String>,
        /// The last line that it wrote to stderr, as far as that is short.
        last_words: Option<String>,
    },
    /// The process has ended by itself, well or not; what was left of its group was killed.
    #[error("process {name:?} ended with {status}{}{}", end.early(), end.text())]
    Exited {
        /// The name of the process.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// Further details of its end.
        end: ProcessEnd,
    },
    /// A process that was adopted, or a daemon, has ended by itself; the rest of its group was
    /// killed. Its exit status is unknown, because only the parent of a process gets it.
    #[error(
        "process {name:?} ended{}; how is unknown, as {}{}",
        end.early(), end.parent(), end.text()
    )]
    Gone {
        /// The name of the process.
        name: String,
        /// Further details of its end.
        end: ProcessEnd,
    },
    /// Another process listens at the address of the process, which was not spawned.
    #[error("cannot run process {name:?}: {address} is held by {program:?} (pid {pid})")]
    PortHeld {
        /// The name of the process.
        name: String,
        /// The address.
        address: SocketAddr,
        /// The pid of the other process.
        pid: i32,
        /// The name of the other process's program. The kernel keeps 15 bytes of it.
        program: String,
    },
    /// The process was ended because too many of its health checks in a row have failed.
    #[error(
        "process {name:?} was unhealthy and was ended: {}: {said}{}",
        checks(*failures),
        words(last_words.as_ref())
    )]
    Unhealthy {
        /// The name of the process.
        name: String,
        /// How many checks in a row have failed.
        failures: u32,
        /// Why the last check has failed.
        said: String,
        /// The last line that it wrote to stderr, as far as that is short.
        last_words: Option<String>,
    },
    /// The program was to leave a daemon, and has left none that can be supervised. The processes
    /// that it had started were killed.
    #[error("process {name:?} has left no daemon: {reason}{}", words(last_words.as_ref()))]
    NoDaemon {
        /// The name of the process.
        name: String,
        /// What is wrong with its [pid file](crate::ProcessConfig::pid_file).
        reason: String,
        /// The last line that it wrote to stderr, as far as that is short.
        last_words: Option<String>,
    },
}

impl fmt::Debug for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
}

/// What there is to say of a process that has ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProcessEnd {
    /// Whether it had been waited for to be ready, and was not.
    pub is_early: bool,
    /// Whether its program leaves a daemon, which was supervised.
    pub is_daemon: bool,
    /// How many processes it left behind in its group, or in its cgroup if it had one; they were
    /// killed.
    pub left_behind: usize,
    /// The processes that it has started and that have left its group, the oldest first; they run
    /// on. They are looked for if it has ended with 0 within a minute of its start. Only a process
    /// on record and without a cgroup has any.
    pub escaped: Vec<Escaped>,
    /// Whether it has daemonised: it has ended with 0 within a minute of its start, and not all
    /// processes that it has started had ended.
    pub has_daemonised: bool,
    /// The last line that it wrote to stderr, as far as that is short.
    pub last_words: Option<String>,
}

impl ProcessEnd {
    fn early(&self) -> &'static str {
        if self.is_early { " before it was ready" } else { "" }
    }

    /// Returns why nobody is told how it ends.
    fn parent(&self) -> &'static str {
        if self.is_daemon { "it is a daemon" } else { "it was adopted" }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        match self.left_behind {
            0 => {}
            1 => text += ", and left a process behind that was killed",
            left => text += &format!(", and left {left} processes behind that were killed"),
        }
        match &self.escaped[..] {
            [] => {}
            [one] => text += &format!(", and {one} runs on outside of its group"),
            [first, others @ ..] => {
                let count = others.len();
                text += &format!(", and {first} and {count} more run on outside of its group");
            }
        }
        match self.has_daemonised {
            true => text + DAEMONISED + &words(self.last_words.as_ref()),
            false => text + &because(self.last_words.as_ref()),
        }
    }
}

fn because(said: Option<&String>) -> String {
    said.map_or_else(String::new, |said| format!(": {said}"))
}

fn checks(failures: u32) -> String {
    match failures {
        1 => "its check failed".to_owned(),
        failures => format!("{failures} checks in a row failed"),
    }
}

fn words(last: Option<&String>) -> String {
    last.map_or_else(String::new, |last| format!("; its last words: {last}"))
}
