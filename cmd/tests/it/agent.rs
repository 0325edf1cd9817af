//! An agent that keeps a machine.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::machine::{Machine, signal, within};
use crate::world::{Error, Ran, TestResult};

/// A running `crankcase run`, and its log.
pub(crate) struct Agent {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    seen: Vec<String>,
    /// How many of the lines that were seen were looked through.
    looked: usize,
}

impl Agent {
    /// Starts an agent that keeps `site.yaml`, and waits until it can be asked.
    pub(crate) async fn start(machine: &Machine) -> Result<Self, Error> {
        Self::start_with(machine, &["run", "site.yaml"]).await
    }

    pub(crate) async fn start_with(machine: &Machine, arguments: &[&str]) -> Result<Self, Error> {
        Self::of(machine.program(arguments)).await
    }

    /// Starts a program that is an agent, and waits until it can be asked.
    pub(crate) async fn of(program: Command) -> Result<Self, Error> {
        let mut agent = Self::begin(program)?;
        agent.until_logged(&["the control socket listens"]).await?;
        // The lines before that one may hold what the test waits for next.
        agent.looked = 0;
        Ok(agent)
    }

    /// Starts a program that is an agent, and does not wait.
    pub(crate) fn begin(mut program: Command) -> Result<Self, Error> {
        let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let log = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();
        Ok(Self { child, log, seen: Vec::new(), looked: 0 })
    }

    /// Waits for the next line of the log that has all these parts, and returns it.
    pub(crate) async fn until_logged(&mut self, parts: &[&str]) -> Result<String, Error> {
        loop {
            if self.looked == self.seen.len() && !self.read().await? {
                let log = self.seen.join("\n");
                return Err(format!("the agent ended without {parts:?}:\n{log}").into());
            }
            let line = &self.seen[self.looked];
            self.looked += 1;
            if parts.iter().all(|part| line.contains(part)) {
                return Ok(line.clone());
            }
        }
    }

    /// Waits until the log has lines with all parts of each, in any order.
    pub(crate) async fn until_each_logged<'a>(
        &mut self,
        lines: impl IntoIterator<Item = &'a [&'a str]>,
    ) -> TestResult {
        for parts in lines {
            self.looked = 0;
            self.until_logged(parts).await?;
        }
        Ok(())
    }

    /// Returns what it has logged so far, as far as it was waited for.
    pub(crate) fn seen(&self) -> String {
        self.seen.join("\n")
    }

    /// Counts the lines that it has logged so far, as far as they were waited for.
    pub(crate) fn count_logged(&self, part: &str) -> usize {
        self.seen.iter().filter(|line| line.contains(part)).count()
    }

    /// Reads a line of the log; returns whether there was one.
    async fn read(&mut self) -> Result<bool, Error> {
        let line = within(self.log.next_line()).await;
        let line = line.map_err(|error| format!("{error}:\n{}", self.seen.join("\n")))??;
        Ok(line.map(|line| self.seen.push(line)).is_some())
    }

    pub(crate) fn pid(&self) -> Result<String, Error> {
        Ok(self.child.id().ok_or("the agent has ended")?.to_string())
    }

    pub(crate) fn signal(&self, asked: Signal) -> TestResult {
        signal(&self.pid()?, asked)
    }

    /// Waits for the agent's end; what it has logged since is on stderr.
    pub(crate) async fn ended(mut self, machine: &Machine) -> Result<Ran, Error> {
        let since = self.looked;
        while self.read().await? {}
        let stderr: String = self.seen[since..].iter().map(|line| format!("{line}\n")).collect();
        let ran = machine.ended(self.child).await?;
        Ok(Ran { stderr: machine.generic(&stderr), ..ran })
    }

    /// Waits for the agent's end, and returns all that it has logged.
    pub(crate) async fn whole_log(mut self) -> Result<String, Error> {
        while self.read().await? {}
        Ok(self.seen.join("\n"))
    }

    /// Asks the agent to end, which it does in order.
    pub(crate) async fn clean_kill(self, machine: &Machine) -> TestResult {
        self.signal(Signal::TERM)?;
        let ran = self.ended(machine).await?;
        assert_eq!((ran.code, &*ran.stdout), (Some(0), ""), "{ran:?}");
        Ok(())
    }

    /// Kills the agent alone, which leaves everything as it is.
    pub(crate) async fn dirty_kill(mut self) -> TestResult {
        self.signal(Signal::KILL)?;
        within(self.child.wait()).await??;
        Ok(())
    }
}
