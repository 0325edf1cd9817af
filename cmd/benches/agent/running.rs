//! An agent that runs.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::process::{agent, run, status};

/// The line that the agent logs when all is as declared, also with `--until-settled`.
const SETTLED: &str = "the site is settled";

/// Which part of a processor an agent uses at most that has nothing more to do.
const REST: f64 = 0.01;

/// The time between two counts of threads.
const COUNT: Duration = Duration::from_millis(100);

/// Returns the seconds from the start of an agent until it says that all is as declared.
pub(crate) fn until_settled(root: &Path) -> f64 {
    let mut command = agent(root, &["run", "site", "--until-settled"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains(SETTLED)), "the agent ended too soon");
    let taken = began.elapsed().as_secs_f64();
    log.for_each(|line| drop(line.unwrap()));
    assert!(child.wait().unwrap().success(), "not all is as declared");
    taken
}

/// A running agent; it ends when this is dropped.
pub(crate) struct Running {
    child: Child,
    root: PathBuf,
}

impl Running {
    /// Starts an agent and waits until it rests.
    pub(crate) fn start(root: &Path) -> Self {
        let mut command = agent(root, &["run", "site"]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Self { child: command.spawn().unwrap(), root: root.to_owned() };
        running.rest();
        running
    }

    /// Waits until it rests.
    pub(crate) fn rest(&self) {
        while self.load(Duration::from_secs(1)) > REST {}
    }

    /// Has it load the manifest again at once.
    pub(crate) fn load_again(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
    }

    /// Returns a figure of its memory in bytes.
    pub(crate) fn memory(&self, figure: &str) -> f64 {
        status(&self.child.id().to_string(), figure)
    }

    /// Returns the seconds that its threads, those that are still there, have been on a processor.
    pub(crate) fn used(&self) -> f64 {
        self.threads().values().sum()
    }

    /// Returns which part of a processor it uses for a while.
    pub(crate) fn load(&self, time: Duration) -> f64 {
        let (began, before) = (Instant::now(), self.threads());
        pause(time);
        // What a thread has used that has ended meanwhile is lost.
        let used = self
            .threads()
            .into_iter()
            .map(|(thread, after)| after - before.get(&thread).copied().unwrap_or_default());
        used.sum::<f64>() / began.elapsed().as_secs_f64()
    }

    /// Returns the lowest and the highest number of its threads during a while.
    pub(crate) fn thread_counts(&self, time: Duration) -> (f64, f64) {
        let (began, mut lowest, mut highest) = (Instant::now(), f64::INFINITY, 0.0_f64);
        while began.elapsed() < time {
            let count = self.threads().len() as f64;
            (lowest, highest) = (lowest.min(count), highest.max(count));
            pause(COUNT);
        }
        (lowest, highest)
    }

    /// Panics unless all is well.
    pub(crate) fn check(&self) {
        run(agent(&self.root, &["report", "--exit-status"]));
    }

    /// Returns the seconds that each of its threads has been on a processor.
    fn threads(&self) -> HashMap<String, f64> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let seconds = threads.filter_map(|thread| {
            let path = thread.unwrap().path();
            let text = fs::read_to_string(path.join("schedstat")).ok()?;
            let nanoseconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            Some((path.display().to_string(), nanoseconds / 1e9))
        });
        seconds.collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

/// Does nothing for a while.
pub(crate) fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a thread without a runtime waits")]
    std::thread::sleep(time);
}
