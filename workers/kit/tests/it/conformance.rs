//! Every worker is as an engine needs it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Exit, Stop};
use crankcase_testing::Conformance;
use crankcase_workers::{
    Catacomb, CatacombConfig, ChildSpec, ConfigFile, ConfigFileConfig, Fortress, Gate, Heartbeat,
    HeartbeatConfig, LastGood, Ledger, Owned, Periodic, PeriodicConfig, Process, ProcessConfig,
    Runner, RunnerConfig, Signals, Turn, Value, Watcher, WatcherConfig,
};
use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::running::{TestResult, guarded};

/// How long those must run whose input and output are real, on a clock that runs.
const BRIEF: Duration = Duration::from_millis(100);

#[tokio::test]
async fn signals_conform() -> TestResult {
    let checks = Conformance::new(|_| async { Ok(Signals::new()?) }).report(|signals| {
        let handle = signals.handle();
        move || std::future::ready(handle.counts())
    });

    Ok(guarded(checks.runs_for(BRIEF).check()).await?)
}

#[tokio::test]
async fn the_watcher_conforms() -> TestResult {
    let folder = tempfile::tempdir()?;
    // Each watches something from its start, so that it has work when it is dropped.
    let start = |_| async {
        let watcher = Watcher::new(WatcherConfig::default())?;
        let subscription = watcher.handle().watch(folder.path())?;
        std::fs::write(folder.path().join("file"), "changed")?;
        drop(subscription);
        Ok(watcher)
    };

    Ok(guarded(Conformance::new(start).runs_for(BRIEF).check()).await?)
}

/// The processes that were spawned, to see when they are gone.
#[derive(Clone, Default)]
struct Spawned(Arc<Mutex<Vec<OwnedFd>>>);

impl Spawned {
    fn add(&self, process: &Process) -> Result<(), Exit> {
        let pid = Pid::from_raw(process.pid()).ok_or("no pid")?;
        self.0.lock().push(pidfd_open(pid, PidfdFlags::empty())?);
        Ok(())
    }

    /// Waits until all have ended.
    async fn are_gone(&self) -> Result<(), String> {
        let all = std::mem::take(&mut *self.0.lock());
        for process in all {
            let ended = tokio::time::timeout(Duration::from_secs(300), ended(process)).await;
            ended.map_err(|_| "a process was left")?.map_err(|err| err.to_string())?;
        }
        Ok(())
    }
}

/// Waits until a process has ended.
#[expect(deprecated, reason = "unsound only for a type that closes its descriptor; this owns it")]
async fn ended(process: OwnedFd) -> std::io::Result<()> {
    let process = AsyncFd::with_interest(process, Interest::READABLE)?;
    let _ready = process.readable().await?;
    Ok(())
}

#[tokio::test]
async fn a_process_conforms() -> TestResult {
    let folder = tempfile::tempdir()?;
    let ledger = Ledger::new(folder.path());
    let spawned = Spawned::default();
    let start = |_| async {
        let command = vec!["sleep".into(), "1000".into()];
        let process = Process::spawn(ProcessConfig::new("sleeper", command), Some(&ledger)).await?;
        spawned.add(&process)?;
        Ok(process)
    };
    let left = spawned.clone();
    let released = move || {
        let left = left.clone();
        async move { left.are_gone().await }
    };

    Ok(guarded(Conformance::new(start).runs_for(BRIEF).released(released).check()).await?)
}

#[tokio::test]
async fn a_process_that_ends_by_itself_conforms() -> TestResult {
    let start = |_| async {
        let config = ProcessConfig::new("brief", vec!["true".into()]);
        Ok(Process::spawn(config, None).await?)
    };

    Ok(guarded(Conformance::new(start).ends_by_itself().check()).await?)
}

/// Whom children follow as long as they are there.
type Followed = Arc<watch::Sender<()>>;

/// Waits until no child is there any more.
async fn until_left(followed: Followed) -> Result<(), String> {
    let left = tokio::time::timeout(Duration::from_secs(300), followed.closed());
    left.await.map_err(|_| format!("{} children are left", followed.receiver_count()))
}

#[tokio::test(start_paused = true)]
async fn a_catacomb_with_children_conforms() -> TestResult {
    let followed = Followed::default();
    let (left, followed) = (Arc::clone(&followed), &followed);
    let start = |stop: Stop| async move {
        let catacomb = Catacomb::new_for(&stop, CatacombConfig::default());
        for _ in 0..3 {
            catacomb.handle().add("child", Owned::new(Gate::new(), followed.subscribe()))?;
        }
        Ok(catacomb)
    };
    let checks = Conformance::new(start).released(move || until_left(Arc::clone(&left)));

    Ok(Box::pin(checks.check()).await?)
}

#[tokio::test(start_paused = true)]
async fn a_runner_with_workers_conforms() -> TestResult {
    let followed = Followed::default();
    let (left, followed) = (Arc::clone(&followed), &followed);
    let start = |stop: Stop| async move {
        let runner = Runner::new_for(&stop, RunnerConfig::default())?;
        for name in ["a", "b", "c"] {
            let followed = Arc::clone(followed);
            let spec = ChildSpec::permanent(move |_ctx| {
                std::future::ready(Ok(Owned::new(Gate::new(), followed.subscribe())))
            });
            runner.handle().start(name, spec).await?;
        }
        Ok(runner)
    };
    let checks = Conformance::new(start).released(move || until_left(Arc::clone(&left)));
    let checks = checks.report(|runner| {
        let workers = runner.handle();
        move || {
            let workers = workers.clone();
            async move { workers.report().await }
        }
    });

    Ok(Box::pin(checks.check()).await?)
}

#[tokio::test(start_paused = true)]
async fn what_holds_something_conforms() -> TestResult {
    Conformance::new(|_| async { Ok(Gate::new()) }).check().await?;
    Conformance::new(|_| async { Ok(Value::new(7)) }).check().await?;
    Conformance::new(|_| async { Ok(Owned::new(Gate::new(), 7)) }).check().await?;
    Ok(Conformance::new(|_| async { Ok(Fortress::new()) }).check().await?)
}

#[tokio::test(start_paused = true)]
async fn who_occupies_a_fortress_conforms() -> TestResult {
    for is_open in [false, true] {
        let fortress = Fortress::new();
        if is_open {
            fortress.guard().unlock();
        }
        let start = |_| async { Ok(fortress.guest().occupy(|| async { Ok(Gate::new()) })) };
        let left = fortress.clone();
        let released = move || {
            let guests = left.guests();
            async move { if guests == 0 { Ok(()) } else { Err(format!("{guests} guests")) } }
        };

        Box::pin(Conformance::new(start).released(released).check()).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn periodic_work_conforms() -> TestResult {
    let start = |_| async {
        let config = PeriodicConfig::new(Duration::from_secs(1));
        Ok(Periodic::new(config, |turn: Turn| async move {
            // Work that looks at its stop, as long work is to.
            tokio::select! {
                biased;
                () = turn.stop.wait() => {}
                () = tokio::time::sleep(Duration::from_secs(3)) => {}
            }
            Ok(())
        })?)
    };

    Ok(Conformance::new(start).check().await?)
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_conforms() -> TestResult {
    let start = |_| async { Ok(Heartbeat::new(HeartbeatConfig::new(Duration::from_secs(1)))?) };

    Ok(Conformance::new(start).check().await?)
}

#[tokio::test]
async fn a_config_file_conforms() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    std::fs::write(&path, "3")?;
    let watcher = Watcher::new(WatcherConfig::default())?;
    let start = |stop: Stop| {
        let (watches, config) = (watcher.handle().into(), ConfigFileConfig::new(&path));
        let valid = |_: &u32| Ok(());
        async move { Ok(ConfigFile::load(&stop, config, valid, watches, LastGood::none()).await?) }
    };
    let watches = watcher.handle();
    let released = move || {
        let left = watches.status().subscriptions;
        async move { if left == 0 { Ok(()) } else { Err(format!("{left} subscriptions")) } }
    };

    Ok(guarded(Box::pin(Conformance::new(start).runs_for(BRIEF).released(released).check()))
        .await?)
}
