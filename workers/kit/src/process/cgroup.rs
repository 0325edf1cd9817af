//! A cgroup for a process: all that the process starts stays in it, also in a session of its own.
//!
//! The cgroups are in the cgroup of this process. None of them has a controller, so the kernel lets
//! this process stay where it is.
//!
//! Invariants:
//! 1. A process enters its cgroup before it executes its program, so nothing starts outside of it.
//! 2. The record of a process names its cgroup before the cgroup is made, and stands until the
//!    cgroup is removed. So the next agent finds each of them.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::proc_mount::explain_proc;

/// The file with the processes of a cgroup; what is written to it enters the cgroup.
const PROCS: &str = "cgroup.procs";

/// How long is waited between two looks at the processes that were killed.
const PAUSE: Duration = Duration::from_millis(5);

/// The place where processes get cgroups of their own: the cgroup of this process.
///
/// It has to be of version 2. It may be in a hierarchy without controllers, beside those of version
/// 1: no controller is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroups {
    own: Arc<Path>,
}

impl Cgroups {
    /// Finds the cgroup of this process. Blocks for `/proc`.
    ///
    /// # Errors
    ///
    /// When it has no cgroup of version 2 that it can see, or may move no processes in it. As root
    /// it may unless the cgroups are mounted for reading only, as in many containers. Another user
    /// may where systemd has delegated the cgroup of the unit to that user.
    pub fn find() -> io::Result<Self> {
        let read = |path: &str| fs::read_to_string(path).map_err(explain_proc);
        let (cgroup, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
        let own = folder_of(&cgroup, &mounts)
            .ok_or_else(|| io::Error::other("no cgroup of version 2 is mounted"))?;
        let failed =
            |err: io::Error| io::Error::new(err.kind(), format!("cannot use {own:?}: {err}"));
        // Something else may be mounted over it.
        if !pids(&own).map_err(failed)?.contains(&getpid().as_raw_pid()) {
            return Err(io::Error::other(format!("this process is not in {own:?}")));
        }
        File::options().write(true).open(own.join(PROCS)).map_err(failed)?;
        Ok(Self { own: own.into() })
    }

    /// Returns the cgroup of the process with this token. It is not made yet.
    pub(super) fn of(&self, token: &str) -> Cgroup {
        Cgroup(self.own.join(name(token)))
    }
}

/// The cgroup of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    /// Returns whether it has the name of the cgroup of the process with this token.
    pub(super) fn is_of(&self, token: &str) -> bool {
        self.0.is_absolute() && self.0.file_name() == Some(OsStr::new(&name(token)))
    }

    /// Makes it. When it fails, it is not there.
    pub(super) fn make(&self) -> io::Result<()> {
        DirBuilder::new().mode(0o755).create(&self.0)?;
        // In a cgroup for threads it would take no process.
        let kind = fs::read_to_string(self.0.join("cgroup.type")).unwrap_or_default();
        if kind.trim_end() == "domain" {
            return Ok(());
        }
        self.remove()?;
        Err(io::Error::other(format!("its type is {:?} and not \"domain\"", kind.trim_end())))
    }

    /// Moves this process into it.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.write(PROCS, "0").map_err(|err| {
            io::Error::new(err.kind(), format!("cannot enter the cgroup {:?}: {err}", self.0))
        })
    }

    /// Returns whether a process is in it.
    pub(super) fn holds(&self, id: i32) -> bool {
        self.members().is_ok_and(|members| members.contains(&id))
    }

    /// Returns how many processes other than this one are in it, as far as that can be known.
    pub(super) fn others(&self, id: i32) -> usize {
        let members = self.members().unwrap_or_default();
        members.into_iter().filter(|member| *member != id).count()
    }

    /// Kills all processes in it; returns whether there were any. They may take a moment to be
    /// gone.
    pub(super) fn kill(&self) -> io::Result<bool> {
        let members = self.members()?;
        if members.contains(&getpid().as_raw_pid()) {
            return Err(io::Error::other(format!("this process is in the cgroup {:?}", self.0)));
        }
        if members.is_empty() {
            return Ok(false);
        }
        match self.write("cgroup.kill", "1") {
            Err(err) if is_without(&err) => self.kill_each()?,
            killed => killed?,
        }
        Ok(true)
    }

    /// Kills the processes one by one, for a kernel before 5.14. A process that is started
    /// meanwhile may live on.
    fn kill_each(&self) -> io::Result<()> {
        // A frozen process starts no other one, and can be killed. Kernels before 5.2 have no such
        // file.
        let _frozen = self.write("cgroup.freeze", "1");
        let open = |id| {
            let opened = pidfd_open(Pid::from_raw(id)?, PidfdFlags::empty()).ok()?;
            Some((id, opened))
        };
        let opened: Vec<_> = self.members()?.into_iter().filter_map(open).collect();
        // The kernel may have given a pid to a stranger before it was opened.
        let members = self.members()?;
        for (_, process) in opened.iter().filter(|(id, _)| members.contains(id)) {
            match pidfd_send_signal(process, Signal::KILL) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(err) => return Err(err.into()),
            }
        }
        Ok(())
    }

    /// Removes it, and the cgroups that its processes have made in it, unless it is gone.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.0)
    }

    /// Returns the processes in it, and in the cgroups that they have made in it.
    fn members(&self) -> io::Result<Vec<i32>> {
        let mut members = Vec::new();
        collect_members(&self.0, &mut members)?;
        Ok(members)
    }

    fn is_populated(&self) -> io::Result<bool> {
        match fs::read_to_string(self.0.join("cgroup.events")) {
            Err(err) if is_without(&err) => Ok(false),
            events => Ok(events?.lines().any(|line| line == "populated 1")),
        }
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        File::options().write(true).open(self.0.join(file))?.write_all(text.as_bytes())
    }
}

/// Kills all processes in a cgroup, if there is one, and waits until they are gone. Cancel safe.
pub(super) async fn end_all(cgroup: Option<&Cgroup>) -> io::Result<()> {
    let Some(cgroup) = cgroup else { return Ok(()) };
    while cgroup.is_populated()? {
        cgroup.kill()?;
        sleep(PAUSE).await;
    }
    Ok(())
}

fn name(token: &str) -> String {
    format!("crankcase-{token}")
}

/// Returns the folder of the cgroup of version 2 of a process, by the process's `/proc/PID/cgroup`
/// and `/proc/PID/mountinfo`; none if it is in no mount.
fn folder_of(cgroup: &str, mounts: &str) -> Option<PathBuf> {
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
        let below = Path::new(own).strip_prefix(root).ok()?;
        let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        is_inside.then(|| Path::new(&point).join(below))
    })
}

/// Replaces the numbers that stand for blanks and backslashes in a list of mounts.
fn unescaped(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

fn collect_members(folder: &Path, members: &mut Vec<i32>) -> io::Result<()> {
    members.extend(pids(folder)?);
    for inner in cgroups_in(folder)? {
        collect_members(&inner, members)?;
    }
    Ok(())
}

/// Returns the processes of a cgroup. Those that this process cannot see have the id 0.
fn pids(folder: &Path) -> io::Result<Vec<i32>> {
    match fs::read_to_string(folder.join(PROCS)) {
        Err(err) if is_without(&err) => Ok(Vec::new()),
        text => Ok(text?.lines().filter_map(|line| line.parse().ok()).collect()),
    }
}

fn cgroups_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(err) if is_without(&err) => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

fn remove(folder: &Path) -> io::Result<()> {
    for inner in cgroups_in(folder)? {
        remove(&inner)?;
    }
    match fs::remove_dir(folder) {
        Err(err) if is_without(&err) => Ok(()),
        removed => removed,
    }
}

/// Returns whether a cgroup was removed, has no such file, or is one for threads, whose processes
/// are listed elsewhere.
fn is_without(err: &io::Error) -> bool {
    let errno = Errno::from_io_error(err);
    matches!(errno, Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Cgroup, folder_of};

    const UNIFIED: &str = "\
22 27 0:21 / /proc rw,nosuid shared:14 - proc proc rw
29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn the_own_cgroup_is_found_where_the_hierarchy_is_mounted() {
        let found = folder_of("0::/system.slice/crankcase.service\n", UNIFIED);

        let folder = Path::new("/sys/fs/cgroup/system.slice/crankcase.service");
        assert_eq!(found.as_deref(), Some(folder));
        assert_eq!(folder_of("0::/\n", UNIFIED), Some(PathBuf::from("/sys/fs/cgroup")));
    }

    #[test]
    fn the_hierarchy_of_version_2_is_found_beside_those_of_version_1() {
        let own = "5:memory:/elsewhere\n1:name=systemd:/init.scope\n0::/init.scope\n";
        let mounts = "\
32 31 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

        let found = folder_of(own, mounts);

        assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/unified/init.scope")));
        assert_eq!(folder_of("5:memory:/elsewhere\n", mounts), None);
        assert_eq!(folder_of(own, mounts.lines().next().unwrap_or_default()), None);
    }

    #[test]
    fn a_mount_of_a_part_of_the_hierarchy_is_used_for_that_part_alone() {
        let mounts = "\
50 23 0:26 /pods/other /other ro - cgroup2 cgroup2 rw
51 23 0:26 /pods/own /its\\040cgroup rw - cgroup2 cgroup2 rw
";

        assert_eq!(folder_of("0::/pods/own/it\n", mounts), Some(PathBuf::from("/its cgroup/it")));
        assert_eq!(folder_of("0::/pods/third\n", mounts), None);
        assert_eq!(folder_of("0::/../outside\n", UNIFIED), None);
    }

    #[test]
    fn a_folder_of_another_name_is_no_cgroup_of_a_record() {
        let is_of = |folder: &str| Cgroup(folder.into()).is_of("7-8-0");

        assert!(is_of("/sys/fs/cgroup/crankcase-7-8-0"));
        assert!(!is_of("/sys/fs/cgroup"));
        assert!(!is_of("/sys/fs/cgroup/crankcase-7-8-1"));
        assert!(!is_of("crankcase-7-8-0"));
    }

    /// Left out by its name where the tests do not run as root.
    mod needs_root {
        use std::error::Error;
        use std::io::{BufRead, BufReader};
        use std::os::unix::process::ExitStatusExt;
        use std::process::{Command, Stdio};

        use rustix::process::Signal;

        use super::super::{Cgroups, end_all};

        #[tokio::test]
        async fn an_old_kernel_has_the_processes_killed_one_by_one() -> Result<(), Box<dyn Error>> {
            let cgroup = Cgroups::find()?.of(&format!("test-{}", std::process::id()));
            cgroup.make()?;
            let script = "mkdir \"$0/inner\"; echo 0 >\"$0/inner/cgroup.procs\"; echo up; \
                          exec sleep 1000";
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(&cgroup.0).stdout(Stdio::piped());
            let mut child = command.spawn()?;
            let stdout = child.stdout.take().ok_or("no stdout")?;
            BufReader::new(stdout).read_line(&mut String::new())?;
            assert_eq!(cgroup.others(0), 1);

            cgroup.kill_each()?;

            assert_eq!(child.wait()?.signal(), Some(Signal::KILL.as_raw()));
            end_all(Some(&cgroup)).await?;
            cgroup.remove()?;
            assert!(!cgroup.0.exists());
            Ok(())
        }
    }
}
