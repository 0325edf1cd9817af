//! A process of the example whose workers misbehave.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use crankcase_status::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

pub(crate) type Error = Box<dyn std::error::Error>;
pub(crate) type TestResult = Result<(), Error>;

/// A running agent; it is killed when it is dropped.
pub(crate) struct Agent {
    state_dir: PathBuf,
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    seen: Vec<String>,
    /// How many of the lines that were seen were looked through.
    looked: usize,
}

impl Agent {
    /// Starts an agent without waiting for anything.
    pub(crate) fn spawn(state_dir: &Path, ways: &[&str]) -> Result<Self, Error> {
        Self::spawn_with(state_dir, ways, &[])
    }

    /// Starts an agent with these variables, without waiting for anything.
    pub(crate) fn spawn_with(
        state_dir: &Path,
        ways: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Result<Self, Error> {
        let mut child = Command::new(example("02_misbehaving")?)
            .arg(state_dir)
            .args(ways)
            .env("RUST_LOG", "info")
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stderr = child.stderr.take().ok_or("no stderr")?;
        let lines = BufReader::new(stderr).lines();
        Ok(Self { state_dir: state_dir.to_owned(), child, lines, seen: Vec::new(), looked: 0 })
    }

    /// Starts an agent and waits until it answers.
    pub(crate) async fn start(state_dir: &Path, ways: &[&str]) -> Result<Self, Error> {
        let mut agent = Self::spawn(state_dir, ways)?;
        agent.until("the control socket listens").await?;
        // What else has come up by now may stand before that line, and was not waited for yet.
        agent.looked = 0;
        Ok(agent)
    }

    pub(crate) fn pid(&self) -> Result<u32, Error> {
        Ok(self.child.id().ok_or("it has ended")?)
    }

    /// Waits for a line of its log after those that were waited for before.
    pub(crate) async fn until(&mut self, text: &str) -> TestResult {
        self.until_all(&[text]).await.map(drop)
    }

    /// Waits as [`until`](Self::until) does, and returns the line.
    pub(crate) async fn until_line(&mut self, text: &str) -> Result<String, Error> {
        Ok(self.until_all(&[text]).await?.remove(0))
    }

    /// Waits for a line for each of the texts, in any order, and returns the lines.
    pub(crate) async fn until_all(&mut self, texts: &[&str]) -> Result<Vec<String>, Error> {
        let mut lines = vec![None; texts.len()];
        while lines.contains(&None) {
            if self.looked == self.seen.len() && !self.read().await? {
                let log = self.seen.join("\n");
                return Err(format!("it ended without {texts:?}, but {lines:?}:\n{log}").into());
            }
            let line = &self.seen[self.looked];
            let mut open = texts.iter().zip(&mut lines).filter(|(_, found)| found.is_none());
            if let Some((_, found)) = open.find(|(text, _)| line.contains(**text)) {
                *found = Some(line.clone());
            }
            self.looked += 1;
        }
        Ok(lines.into_iter().flatten().collect())
    }

    /// Reads a line; returns whether there was one.
    async fn read(&mut self) -> Result<bool, Error> {
        let line = guarded(self.lines.next_line()).await?;
        Ok(line.map(|line| self.seen.push(line)).is_some())
    }

    pub(crate) async fn client(&self) -> Result<Client, Error> {
        Ok(Client::connect(&self.state_dir).await?)
    }

    pub(crate) fn send(&self, signal: Signal) -> TestResult {
        let pid = i32::try_from(self.pid()?)?;
        Ok(kill_process(Pid::from_raw(pid).ok_or("no process")?, signal)?)
    }

    /// Waits for its end without reading its log; returns how it ended and what there is of the log.
    pub(crate) async fn end_unread(mut self) -> Result<(ExitStatus, String), Error> {
        let status = guarded(self.child.wait()).await?;
        while self.read().await? {}
        Ok((status, self.seen.join("\n")))
    }

    /// Closes the end of the pipe where its log is read.
    pub(crate) fn stop_reading(self) -> Child {
        self.child
    }

    /// Waits for its end; returns how it ended and its log.
    pub(crate) async fn end(mut self) -> Result<(ExitStatus, String), Error> {
        while self.read().await? {}
        let status = guarded(self.child.wait()).await?;
        Ok((status, self.seen.join("\n")))
    }
}

/// Cargo builds examples beside the tests, but tells no path.
pub(crate) fn example(name: &str) -> Result<PathBuf, Error> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).ok_or("no target folder")?;
    let example = folder.join("examples").join(name);
    if example.exists() { Ok(example) } else { Err(format!("{example:?} is not built").into()) }
}

/// Ends a test that hangs.
pub(crate) async fn guarded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), test).await.expect("the test hangs")
}
