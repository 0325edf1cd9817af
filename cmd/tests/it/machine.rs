//! A folder with a manifest, and the program that works on it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::yield_now;
use std::time::Duration;

use crankcase_engine::{Stop, Stopper, Worker};
use crankcase_resources::state::{Store, StoreError};
use crankcase_state::reading;
use crankcase_workers::{Watcher, WatcherConfig, Watches};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::world::{Error, Ran, TestResult, program, ran};

/// No test waits for longer, however busy the machine is; a test that does hangs.
pub(crate) const HANG: Duration = Duration::from_secs(300);

/// The least that a pipe can hold, in bytes.
const NARROW: usize = 4096;

/// Guards against a hang.
pub(crate) async fn within<F: Future>(future: F) -> Result<F::Output, Error> {
    Ok(timeout(HANG, future).await?)
}

/// Kills the programs that outlive the agents of a state folder, and removes their cgroups, when it
/// is dropped.
struct LeftPrograms(PathBuf);

impl Drop for LeftPrograms {
    fn drop(&mut self) {
        let records = fs::read_dir(self.0.join("processes"));
        for record in records.into_iter().flatten().flatten() {
            let text = fs::read(record.path()).unwrap_or_default();
            let record: Value = serde_json::from_slice(&text).unwrap_or_default();
            let pid = record["process"]["id"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                let _was_there = kill_process_group(pid, Signal::KILL);
            }
            if let Some(cgroup) = record["cgroup"].as_str() {
                remove_cgroup(Path::new(cgroup));
            }
        }
    }
}

/// Kills what is in a cgroup, and removes it.
fn remove_cgroup(folder: &Path) {
    // Without the file, as on an old kernel, what is in a session of its own runs on.
    let _was_there = fs::write(folder.join("cgroup.kill"), "1");
    for _ in 0..100_000 {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => yield_now(),
            _ => return,
        }
    }
}

/// A folder in which everything happens.
pub(crate) struct Machine {
    // The programs are killed before the folder is removed, because the folder has their records.
    _left: LeftPrograms,
    folder: TempDir,
    watches: Watches,
    _stopper: Stopper,
    _watching: JoinSet<()>,
}

impl Machine {
    /// Makes a folder with the manifest `site.yaml`; `@` in it stands for the folder.
    pub(crate) fn new(manifest: &str) -> Result<Self, Error> {
        let watcher = Watcher::new(WatcherConfig::default())?;
        let watches = watcher.handle();
        let (stopper, stop) = Stop::pair();
        let mut watching = JoinSet::new();
        watching.spawn(async move { drop(watcher.run(stop).await) });
        let folder = tempfile::tempdir()?;
        let _left = LeftPrograms(folder.path().join("state"));
        let machine = Self { _left, folder, watches, _stopper: stopper, _watching: watching };
        machine.write("site.yaml", manifest)?;
        Ok(machine)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file at once; `@` in its text stands for the folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> TestResult {
        let new = self.path(&format!("{name}.new"));
        fs::write(&new, self.text(text))?;
        Ok(fs::rename(new, self.path(name))?)
    }

    /// Makes a pipe that can be found by its name.
    pub(crate) fn fifo(&self, name: &str) -> TestResult {
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(mknodat(CWD, self.path(name), FileType::Fifo, mode, 0)?)
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Puts the folder into a text.
    pub(crate) fn text(&self, text: &str) -> String {
        text.replace('@', &self.folder.path().display().to_string())
    }

    /// Puts `@` for the folder into a text.
    pub(crate) fn generic(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "@")
    }

    /// Returns the program with some arguments, in the folder, with a state folder of its own.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.arg("--state-dir").arg(self.path("state")).current_dir(self.folder.path());
        command
    }

    /// Runs the program to its end; `@` stands for the folder in what it says.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<Ran, Error> {
        let ran = ran(self.program(arguments)).await?;
        Ok(self.generic_ran(ran))
    }

    /// Begins to run the program, and keeps what it will say.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Result<Child, Error> {
        let mut command = self.program(arguments);
        Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    /// Begins to run the program. Its output goes to a pipe that is full after 4 KiB.
    pub(crate) fn begin_narrow(&self, arguments: &[&str]) -> Result<(Child, Receiver), Error> {
        let (reader, writer) = std::io::pipe()?;
        fcntl_setpipe_size(&reader, NARROW)?;
        let mut command = self.program(arguments);
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn()?;
        Ok((child, Receiver::from_owned_fd(reader.into())?))
    }

    /// Returns the program, which runs after a command of the shell, such as `ulimit`, that holds
    /// for the program too.
    pub(crate) fn program_after(&self, line: &str, arguments: &[&str]) -> Command {
        let program = self.program(arguments);
        let program = program.as_std();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("{line}; exec \"$@\""), "sh"]);
        shell.arg(program.get_program()).args(program.get_args());
        shell.env_clear().current_dir(self.folder.path()).kill_on_drop(true).stdin(Stdio::null());
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// Waits until a program has ended.
    pub(crate) async fn ended(&self, child: Child) -> Result<Ran, Error> {
        let output = within(child.wait_with_output()).await??;
        assert_eq!(output.status.signal(), None, "{output:?}");
        Ok(self.generic_ran(Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        }))
    }

    fn generic_ran(&self, ran: Ran) -> Ran {
        let Ran { code, stdout, stderr } = ran;
        Ran { code, stdout: self.generic(&stdout), stderr: self.generic(&stderr) }
    }

    /// Waits until a file holds what it should, looking whenever it has changed.
    pub(crate) async fn until(
        &self,
        name: &str,
        is_right: impl Fn(&str) -> bool,
    ) -> Result<String, Error> {
        let mut subscription = self.watches.watch(&self.path(name))?;
        let wait = async {
            loop {
                if let Some(text) = self.read(name).filter(|text| is_right(text)) {
                    return Ok::<_, Error>(text);
                }
                subscription.changed().await?;
            }
        };
        match timeout(HANG, wait).await {
            Ok(text) => text,
            Err(_) => Err(format!("{name} holds {:?}", self.read(name)).into()),
        }
    }

    /// Waits until what is on record in a state folder is as it should be; it is looked at whenever it
    /// has changed.
    pub(crate) async fn until_on_record(
        &self,
        state: &str,
        is_right: impl Fn(&dyn Store) -> Result<bool, StoreError>,
    ) -> TestResult {
        let mut subscription = self.watches.watch(&self.path(&format!("{state}/state.db-wal")))?;
        within(async {
            while !is_right(&*reading(&self.path(state))?)? {
                subscription.changed().await?;
            }
            Ok(())
        })
        .await?
    }

    /// Waits until a file has this many whole lines, and returns them.
    pub(crate) async fn lines(&self, name: &str, count: usize) -> Result<Vec<String>, Error> {
        let is_right = |text: &str| text.ends_with('\n') && text.lines().count() >= count;
        let text = self.until(name, is_right).await?;
        assert_eq!(text.lines().count(), count, "{name}: {text}");
        Ok(text.lines().map(str::to_owned).collect())
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: &str, signal: Signal) -> TestResult {
    let pid = Pid::from_raw(pid.parse()?).ok_or("no process has the pid 0")?;
    Ok(kill_process(pid, signal)?)
}

/// Waits until a process has ended, whoever its parent is.
#[expect(
    deprecated,
    reason = "the constructor is unsound only for a type that closes or changes its descriptor, \
              which this one never does, and the replacement needs unsafe code"
)]
pub(crate) async fn gone(pid: &str) -> TestResult {
    let pid = Pid::from_raw(pid.parse()?).ok_or("no process has the pid 0")?;
    let process = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let process = AsyncFd::with_interest(process, Interest::READABLE)?;
    // The descriptor of a process becomes readable when the process ends.
    drop(within(process.readable()).await??);
    Ok(())
}
