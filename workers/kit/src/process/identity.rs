//! What tells a process from a later one with the same id.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::getpid;

use crate::proc_mount::explain_proc;

/// What `/proc/PID/stat` says about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) id: i32,
    pub(super) group: i32,
    /// Whether it has ended, and is only not reaped yet.
    pub(super) is_dead: bool,
    /// Whether a signal such as SIGSTOP has suspended it.
    pub(super) is_suspended: bool,
    /// When it started, in clock ticks after the boot.
    pub(super) start_time: u64,
}

impl Stat {
    /// Reads the stat of process `id`, also of one that has ended and is not reaped; `None` if
    /// there is no such process.
    pub(super) fn read(id: i32) -> io::Result<Option<Self>> {
        let text = match fs::read(format!("/proc/{id}/stat")) {
            Ok(text) => text,
            Err(err) => {
                let err = explain_proc(err);
                return if is_gone(&err) { Ok(None) } else { Err(err) };
            }
        };
        let stat = Self::parse(id, &String::from_utf8_lossy(&text));
        stat.map(Some).ok_or_else(|| io::Error::other(format!("cannot parse /proc/{id}/stat")))
    }

    /// Returns whether it is the same process in the same group, dead or not.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.id, self.group, self.start_time) == (other.id, other.group, other.start_time)
    }

    /// Reads the stats of all processes that may be looked at.
    pub(super) fn read_all() -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            match Self::read(id) {
                Err(err) if is_hidden(&err) => {}
                stat => all.extend(stat?),
            }
        }
        if all.is_empty() {
            // This process is always among them, but not in the empty folder of a mount.
            return Err(explain_proc(io::ErrorKind::NotFound.into()));
        }
        Ok(all)
    }

    fn parse(id: i32, text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses and may hold spaces and more of
        // them, so that fields are counted from the last one; the first behind it is field 3.
        let (_, rest) = text.rsplit_once(')')?;
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3);
        Some(Self {
            id,
            group: field(5)?.parse().ok()?,
            is_dead: matches!(field(3)?, "Z" | "X"),
            is_suspended: field(3)? == "T",
            start_time: field(22)?.parse().ok()?,
        })
    }
}

/// A process of this machine, told from a later one that has its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessId {
    /// Its pid.
    pub pid: i32,
    /// When it started, in clock ticks after the boot.
    pub start_time: u64,
}

impl ProcessId {
    /// Returns the process with this pid that started then.
    pub fn new(pid: i32, start_time: u64) -> Self {
        Self { pid, start_time }
    }

    /// Returns this process. Blocks for `/proc`.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn of_self() -> io::Result<Self> {
        let pid = getpid().as_raw_pid();
        let stat = Stat::read(pid)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self::new(pid, stat.start_time))
    }

    /// Returns whether it has not ended. Blocks for `/proc`; one that it hides counts as not ended.
    pub fn is_alive(&self) -> bool {
        match Stat::read(self.pid) {
            Ok(stat) => stat.is_some_and(|it| !it.is_dead && it.start_time == self.start_time),
            Err(_) => true,
        }
    }
}

/// Returns the name of the program of process `id`, of which the kernel keeps 15 bytes; `None` if
/// there is no such process. Blocks for `/proc`.
pub(super) fn program_name(id: i32) -> Option<String> {
    let name = fs::read(format!("/proc/{id}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Returns the id of this boot of the machine.
pub(super) fn boot_id() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(explain_proc)?;
    Ok(id.trim().to_owned())
}

/// Returns whether process `id` was started with the variable `name` set to `value`; also `false`
/// if that cannot be known, and `None` if it has no environment, as one that is just being executed.
pub(super) fn has_variable(id: i32, name: &str, value: &str) -> Option<bool> {
    let variable = format!("{name}={value}");
    let path = Path::new("/proc").join(id.to_string()).join("environ");
    let Ok(all) = fs::read(path) else { return Some(false) };
    let mut variables = all.split(|byte| *byte == 0);
    (!all.is_empty()).then(|| variables.any(|one| one == variable.as_bytes()))
}

/// Returns whether process `id` has overwritten its environment. Programs that show a title of
/// their own, such as nginx, do so. Also `false` if that cannot be known.
pub(super) fn has_overwritten_environment(id: i32) -> bool {
    fs::read(format!("/proc/{id}/environ")).is_ok_and(|all| is_overwritten(&all))
}

fn is_overwritten(environment: &[u8]) -> bool {
    !environment.is_empty() && !environment.contains(&b'=')
}

/// Returns whether there is a process that may not be looked at: where `/proc` is mounted with
/// `hidepid=1`, those of others may not.
pub(super) fn is_hidden(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::PermissionDenied
}

fn is_gone(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::NotFound || err.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::{Stat, has_variable, is_overwritten};

    #[test]
    fn what_has_no_environment_yet_is_told_from_what_has_another() {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exec env WHOSE=mine sh -c 'echo up; kill -STOP $$'"])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let id = i32::try_from(child.id()).unwrap();
        assert_eq!(has_variable(id, "WHOSE", "mine"), None);

        drop(child.stdin.take());
        let mut up = [0; 3];
        child.stdout.take().unwrap().read_exact(&mut up).unwrap();

        assert_eq!(has_variable(id, "WHOSE", "mine"), Some(true));
        assert_eq!(has_variable(id, "WHOSE", "yours"), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(has_variable(id, "WHOSE", "mine"), Some(false));
    }

    #[test]
    fn an_environment_without_a_variable_is_overwritten() {
        assert!(is_overwritten(b"\0\0\0"));
        assert!(is_overwritten(b"ess -D /data\0\0\0"));
        assert!(!is_overwritten(b""));
        assert!(!is_overwritten(b"PATH=/bin\0"));
    }

    #[test]
    fn a_program_name_with_parentheses_moves_no_field() {
        let text = "7 (a) R (b)) S 1 5 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 1234 9 9";

        let stat = Stat::parse(7, text);

        let (is_dead, is_suspended) = (false, false);
        assert_eq!(stat, Some(Stat { id: 7, group: 5, is_dead, is_suspended, start_time: 1234 }));
    }

    #[test]
    fn a_process_that_is_not_there_is_none() {
        assert!(matches!(Stat::read(i32::MAX), Ok(None)));
    }
}
