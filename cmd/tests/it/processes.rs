//! Programs that an agent supervises.

use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::agent::Agent;
use crate::machine::{Machine, gone, signal, within};
use crate::world::TestResult;

/// A server that tells its process id, one in each line.
const SITE: &str = r#"resources:
  server:
    type: process
    config: {command: [/bin/sh, -c, "echo $$ >> @/pids; exec sleep 1000"]}
"#;

#[tokio::test]
async fn a_program_that_was_killed_comes_back() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    let first = machine.lines("pids", 1).await?.remove(0);

    signal(&first, Signal::KILL)?;

    let pids = machine.lines("pids", 2).await?;
    assert_ne!(pids[0], pids[1]);
    agent.until_logged(&["/agent/resources/server", "signal"]).await?;
    agent.clean_kill(&machine).await?;
    gone(&pids[1]).await
}

#[tokio::test]
async fn a_program_ends_with_its_agent() -> TestResult {
    let machine = Machine::new(SITE)?;
    let agent = Agent::start(&machine).await?;
    let pid = machine.lines("pids", 1).await?.remove(0);

    agent.clean_kill(&machine).await?;

    gone(&pid).await
}

#[tokio::test]
async fn what_a_killed_agent_left_is_ended_by_the_next_before_one_is_started_anew() -> TestResult {
    // The first server and its child hold a pipe open for as long as one of them lives.
    let machine = Machine::new(
        r#"resources:
  server:
    type: process
    config:
      command:
        - /bin/sh
        - -c
        - |
          test -e @/second || exec 3> @/held
          sleep 1000 &
          echo $$ >> @/pids
          exec sleep 1000
"#,
    )?;
    machine.fifo("held")?;
    let mut held = pipe::OpenOptions::new().open_receiver(machine.path("held"))?;
    let agent = Agent::start(&machine).await?;
    let first = machine.lines("pids", 1).await?.remove(0);
    machine.write("second", "")?;
    agent.dirty_kill().await?;

    let mut agent = Agent::start(&machine).await?;
    let left = agent.until_logged(&["process was left behind", "Ended"]).await?;
    let pids = machine.lines("pids", 2).await?;
    within(held.read_to_end(&mut Vec::new())).await??;

    assert!(left.contains("server"), "{left}");
    gone(&first).await?;
    assert_ne!(pids[0], pids[1]);
    agent.clean_kill(&machine).await?;
    gone(&pids[1]).await
}
