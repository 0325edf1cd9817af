//! An agent that keeps a machine.

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use crate::machine::{Machine, signal, within};
use crate::world::{Error, Ran, TestResult};

/// A running `crankcase run`, and its log.
pub(crate) struct Agent {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Agent {
    /// Starts an agent that keeps `site.yaml`, and waits until it can be asked.
    pub(crate) async fn start(machine: &Machine) -> Result<Self, Error> {
        Self::start_with(machine, &["run", "site.yaml"]).await
    }

    pub(crate) async fn start_with(machine: &Machine, arguments: &[&str]) -> Result<Self, Error> {
        let mut child = machine.begin(arguments)?;
        let log = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();
        let mut agent = Self { child, log };
        agent.until_logged(&["the control socket listens"]).await?;
        Ok(agent)
    }

    /// Reads the log up to a line that has all these parts, and returns it.
    pub(crate) async fn until_logged(&mut self, parts: &[&str]) -> Result<String, Error> {
        let mut read = Vec::new();
        let found = within(async {
            while let Some(line) = self.log.next_line().await? {
                if parts.iter().all(|part| line.contains(part)) {
                    return Ok::<_, Error>(line);
                }
                read.push(line);
            }
            Err("the agent has ended".into())
        });
        let found = found.await;
        found
            .and_then(|line| line)
            .map_err(|error| format!("no line has {parts:?}: {error}\n{}", read.join("\n")).into())
    }

    pub(crate) fn pid(&self) -> Result<String, Error> {
        Ok(self.child.id().ok_or("the agent has ended")?.to_string())
    }

    pub(crate) fn signal(&self, asked: Signal) -> TestResult {
        signal(&self.pid()?, asked)
    }

    /// Waits for the agent's end; what it has logged since is on stderr.
    pub(crate) async fn ended(mut self, machine: &Machine) -> Result<Ran, Error> {
        let mut stderr = String::new();
        while let Some(line) = within(self.log.next_line()).await?? {
            stderr.push_str(&line);
            stderr.push('\n');
        }
        let ran = machine.ended(self.child).await?;
        Ok(Ran { stderr: machine.generic(&stderr), ..ran })
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
