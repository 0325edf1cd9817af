//! Starts a command as another user, within bounds or in a cgroup of its own, by way of this very
//! program.
//!
//! What is to be done between fork and exec needs unsafe code. So the child executes this program
//! once more, which has one thread, does it, and executes the command: with the same pid and start
//! time, which is what is on record.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Mode;
use rustix::process::{Gid, Rlimit, Uid, getgroups, setrlimit, umask};
use rustix::thread::{
    clear_ambient_capability_set, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::limits::Limit;
use crate::printable::one_line;

/// What this program is called where it is to execute another one.
pub(super) const LAUNCHER: &str = "crankcase-launch";

/// The exit code of a shell for what it cannot execute.
const NOT_EXECUTED: i32 = 127;

/// Whether the program's own main function has let the launcher go first.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Lets this program start commands as another user, or with a umask, limits or a cgroup of their
/// own: call it first in `main`, before there is a thread. Whoever executes the launcher has no
/// more rights by it.
///
/// Such a command is started by executing this program once more, under another name. There, this
/// function executes the command and never returns. Otherwise it returns at once, having noted that
/// it was called. Without it, [`Process::spawn`](crate::Process::spawn) and
/// [`ProcessGroup::spawn`](crate::ProcessGroup::spawn) refuse such a command, and no command gets a
/// cgroup.
///
/// If the command cannot be executed, the process says why on its stderr and exits with 127.
///
/// # Examples
///
/// ```
/// # use std::process::ExitCode;
/// # fn run() -> ExitCode { ExitCode::SUCCESS }
/// fn main() -> ExitCode {
///     crankcase_workers::launch();
///     run()
/// }
/// ```
pub fn launch() {
    let mut words = std::env::args_os();
    if words.next().is_none_or(|name| name != LAUNCHER) {
        IS_READY.store(true, Ordering::Release);
        return;
    }
    let words: Vec<_> = words.collect();
    let Err(error) = execute(&words);
    let program = words.get(1).cloned().unwrap_or_default();
    let told = format!("cannot execute {program:?}: {error}");
    // Nobody can be told where that fails.
    #[expect(clippy::disallowed_methods, reason = "the text is printable")]
    let _told = writeln!(io::stderr(), "{}", one_line(&told));
    #[expect(clippy::disallowed_methods, reason = "the program's own main must not go on here")]
    std::process::exit(NOT_EXECUTED)
}

/// Returns whether this program can be its own launcher.
pub(super) fn is_ready() -> bool {
    IS_READY.load(Ordering::Acquire)
}

/// What is done before a command is executed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Launch {
    /// Entered first, with the rights and the limits of the agent.
    pub(super) cgroup: Option<Cgroup>,
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    /// All groups, the main one too; those of the agent if there are none.
    pub(super) groups: Vec<u32>,
    pub(super) umask: Option<u32>,
    /// By name; none is no limit.
    pub(super) limits: Vec<(String, Option<u64>)>,
}

impl Launch {
    /// Returns it as the word that the launcher has before those of the command.
    pub(super) fn to_word(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Does it to this thread, which is the only one.
    fn take_effect(&self) -> io::Result<()> {
        self.cgroup.as_ref().map_or(Ok(()), Cgroup::enter)?;
        for (name, bound) in &self.limits {
            let limit = Limit::named(name).ok_or_else(|| in_vain("limit", name))?;
            let bounds = Rlimit { current: *bound, maximum: *bound };
            setrlimit(limit.resource(), bounds)
                .map_err(|err| failed("set the limit", name, err))?;
        }
        if let Some(mask) = self.umask {
            umask(Mode::from_raw_mode(mask));
        }
        let groups: Vec<_> = self.groups.iter().copied().map(Gid::from_raw).collect();
        // Those that are there already need no right to set them.
        if !groups.is_empty() && getgroups()? != groups {
            set_thread_groups(&groups).map_err(|err| failed("join", "its groups", err))?;
        }
        if let Some(group) = self.group.map(Gid::from_raw) {
            set_thread_res_gid(group, group, group)
                .map_err(|err| failed("become group", &group.as_raw().to_string(), err))?;
        }
        if let Some(user) = self.user.map(Uid::from_raw) {
            // What it may do would else outlive the change of a user that is not root.
            clear_ambient_capability_set()?;
            set_thread_res_uid(user, user, user)
                .map_err(|err| failed("become user", &user.as_raw().to_string(), err))?;
        }
        Ok(())
    }
}

fn execute(words: &[OsString]) -> io::Result<Infallible> {
    let [launch, program, arguments @ ..] = words else {
        return Err(io::Error::other("there is no command"));
    };
    let launch: Launch = serde_json::from_slice(launch.as_encoded_bytes())?;
    launch.take_effect()?;
    Err(Command::new(program).args(arguments).exec())
}

fn failed(doing: &str, what: &str, error: rustix::io::Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("cannot {doing} {what}: {error}"))
}

fn in_vain(what: &str, name: &str) -> io::Error {
    io::Error::other(format!("there is no {what} {name:?}"))
}
