//! Processes in cgroups of their own, and what they start in sessions of its own.

use std::convert::identity;
use std::fs;
use std::future::ready;
use std::path::{Path, PathBuf};

use crankcase_engine::Stop;
use crankcase_workers::{
    Cgroups, Containment, Fate, Ledger, Process, ProcessConfig, Readiness, end_leftovers,
    sort_leftovers,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::running::{Running, TestResult};

type Failure = Box<dyn std::error::Error>;

/// Leaves a process in a session of its own, which has lost its parent, its environment with the
/// mark, and the output, and which ignores the usual signals.
const ESCAPE: &str = "setsid -f env -i sh -c 'trap \"\" TERM HUP; echo $$ >pid; exec sleep 1000' \
                      >/dev/null 2>&1; until test -s pid; do :; done; ";

/// Returns a process that leaves such a process, and then goes on with a script.
fn escaping(folder: &Path, script: &str) -> Result<ProcessConfig, Failure> {
    let cgroups = Cgroups::find();
    let cgroups = cgroups.map_err(|err| format!("needs cgroups of version 2 to change: {err}"))?;
    let command = vec!["sh".into(), "-c".into(), format!("{ESCAPE}{script}").into()];
    Ok(ProcessConfig::new("it", command).folder(folder.to_owned()).cgroups(cgroups))
}

/// A process that has left another one in a session of its own.
struct Escaped {
    process: Process,
    left: Left,
}

/// What is to be gone with it.
struct Left {
    folder: TempDir,
    pid: String,
    cgroup: PathBuf,
}

impl Left {
    fn records(&self) -> PathBuf {
        self.folder.path().join("records")
    }

    /// Expects that nothing of it is left.
    fn expect_gone(&self) -> TestResult {
        assert!(!lives(&self.pid), "{} runs on", self.pid);
        assert!(!self.cgroup.exists(), "{:?} was left", self.cgroup);
        assert_eq!(fs::read_dir(self.records())?.count(), 0);
        Ok(())
    }
}

impl Escaped {
    async fn start(change: impl FnOnce(ProcessConfig) -> ProcessConfig) -> Result<Self, Failure> {
        let folder = TempDir::new()?;
        let records = folder.path().join("records");
        let config = escaping(folder.path(), "echo up; exec sleep 1000")?;
        let config = change(config.readiness(Readiness::Line("up".to_owned())));
        let process = Process::spawn(config, Some(&Ledger::new(&records))).await?.ready().await?;

        assert_eq!(process.handle().status().contained_by, Containment::Cgroup);
        let pid = fs::read_to_string(folder.path().join("pid"))?.trim().to_owned();
        let record = record(&records)?;
        let cgroup = PathBuf::from(record["cgroup"].as_str().ok_or("no cgroup is on record")?);
        let inside = fs::read_to_string(cgroup.join("cgroup.procs"))?;
        let leader = process.pid().to_string();
        assert!([&pid, &leader].iter().all(|pid| inside.lines().any(|it| it == **pid)), "{inside}");
        assert!(lives(&pid));
        Ok(Self { process, left: Left { folder, pid, cgroup } })
    }
}

/// Returns the only record in a folder.
fn record(records: &Path) -> Result<Value, Failure> {
    for entry in fs::read_dir(records)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "process") {
            return Ok(serde_json::from_slice(&fs::read(path)?)?);
        }
    }
    Err("no record".into())
}

/// Returns whether a process runs. One that nobody has reaped does not.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Stops a process, and expects that what it has started in another session ends with it.
pub(crate) async fn stopped() -> TestResult {
    let Escaped { process, left } = Escaped::start(identity).await?;

    let outcome = Running::start(process).clean_kill().await;

    outcome.map_err(|exit| exit.to_string())?;
    left.expect_gone()
}

/// Kills a process, and expects that what it has started in another session ends with it.
pub(crate) async fn ended() -> TestResult {
    let Escaped { process, left } = Escaped::start(identity).await?;
    let leader = Pid::from_raw(process.pid()).ok_or("no pid")?;
    let mut running = Running::start(process);

    kill_process(leader, Signal::KILL)?;
    let exit = running.end().await.err().ok_or("it was stopped")?;

    let text = exit.to_string();
    assert!(text.ends_with(", and left a process behind that was killed"), "{text}");
    left.expect_gone()
}

/// Expects that what a program leaves that daemonises is killed, also in a session of its own.
pub(crate) async fn daemonised() -> TestResult {
    let folder = TempDir::new()?;
    let ledger = Ledger::new(&folder.path().join("records"));
    let process = Process::spawn(escaping(folder.path(), "exit 0")?, Some(&ledger)).await?;

    let exit = Running::start(process).end().await.err().ok_or("it was stopped")?;

    let text = exit.to_string();
    let told = ", and left a process behind that was killed; it has daemonised: ";
    assert!(text.contains(told), "{text}");
    let pid = fs::read_to_string(folder.path().join("pid"))?;
    assert!(!lives(pid.trim()), "{pid} runs on");
    Ok(())
}

/// Looks for the processes of an agent that was killed, and expects that all of them end.
pub(crate) async fn left_behind() -> TestResult {
    let Escaped { process, left } = Escaped::start(identity).await?;

    let fates = end_leftovers(&left.records()).await?.into_iter().map(|leftover| leftover.fate);

    assert_eq!(fates.collect::<Vec<_>>(), [Fate::Ended]);
    left.expect_gone()?;
    drop(process);
    Ok(())
}

/// Ends a process that an earlier agent has left running, with what it has started.
pub(crate) async fn left_running() -> TestResult {
    let Escaped { process, left } = Escaped::start(|config| config.survives(true)).await?;
    let (_stopper, stop) = Stop::pair();
    process.run_or_leave(stop, ready(())).await.map_err(|exit| exit.to_string())?;
    assert!(lives(&left.pid));

    let mut leftovers = sort_leftovers(&left.records()).await?;
    leftovers.survivors.pop().ok_or("nothing was left running")?.end().await?;

    left.expect_gone()
}
