//! An agent that takes the place of another one.

use std::fs::{self, File};

use crankcase_status::StateDir;
use rustix::process::Signal;
use tokio::process::Child;
use tokio::task::spawn_blocking;

use crate::agent::Agent;
use crate::machine::{Machine, signal, within};
use crate::surviving::{SITE, kill, start};
use crate::world::{Error, TestResult};

#[tokio::test]
async fn another_agent_takes_over_and_the_program_runs_on() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (first, server) = start(&machine).await?;

    let mut second = Agent::start_with(&machine, &["run", "site.yaml", "--take-over"]).await?;
    let adopted = format!("server: adopted; pid: {server}");
    second.until_each_logged([&[&*adopted][..], &["this agent has taken over"]]).await?;
    let ended = first.ended(&machine).await?;

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("the next agent has taken over"), "{ended:?}");
    assert!(!machine.path("state/take-over").exists());
    machine.lines("pids", 1).await?;
    second.clean_kill(&machine).await?;
    kill(&server).await
}

#[tokio::test]
async fn an_agent_takes_over_from_none() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    let agent = Agent::start_with(&machine, &["run", "site.yaml", "--take-over"]).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn an_agent_goes_on_if_the_manifest_of_the_next_one_is_invalid() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, server) = start(&machine).await?;
    machine.write("wrong.yaml", "resources: {it: {type: nothing}}\n")?;

    let next = machine.run(&["run", "wrong.yaml", "--take-over"]).await?;
    let report = machine.run(&["report", "resources/server"]).await?;

    assert_eq!((next.code, report.code), (Some(65), Some(0)), "{next:?} {report:?}");
    agent.clean_kill(&machine).await?;
    kill(&server).await
}

#[tokio::test]
async fn an_agent_that_ends_when_all_is_settled_does_not_hand_over() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    let arguments = ["run", "site.yaml", "--until-settled=1h"];
    let agent = Agent::start_with(&machine, &arguments).await?;

    let next = machine.run(&["run", "site.yaml", "--take-over"]).await?;

    assert_eq!(next.code, Some(75), "{next:?}");
    assert!(next.stderr.contains("the agent does not hand over: it ends by itself"), "{next:?}");
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn an_agent_whose_worker_for_it_is_parked_does_not_hand_over_and_goes_on() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, server) = start(&machine).await?;
    let parked = machine.run(&["park", "/agent/hand_over", "--reason", "later"]).await?;
    assert_eq!(parked.code, Some(0), "{parked:?}");

    let next = machine.run(&["run", "site.yaml", "--take-over"]).await?;
    let unparked = machine.run(&["unpark", "/agent/hand_over", "--reason", "now"]).await?;
    let report = machine.run(&["report", "resources/server"]).await?;

    assert_eq!(next.code, Some(75), "{next:?}");
    assert!(next.stderr.contains("worker \"hand_over\" does not run"), "{next:?}");
    assert_eq!((unparked.code, report.code), (Some(0), Some(0)), "{unparked:?} {report:?}");
    agent.clean_kill(&machine).await?;
    kill(&server).await
}

#[tokio::test]
async fn an_agent_that_a_service_manager_has_started_does_not_hand_over() -> TestResult {
    for variable in ["NOTIFY_SOCKET=/nowhere", "SYSTEMD_EXEC_PID=$$"] {
        let machine = Machine::new("resources: {}\n")?;
        // The shell becomes the agent, which has the same pid.
        let program = machine.program_after(&format!("export {variable}"), &["run", "site.yaml"]);
        let agent = Agent::of(program).await?;

        let next = machine.run(&["run", "site.yaml", "--take-over"]).await?;

        assert_eq!(next.code, Some(75), "{variable}: {next:?}");
        assert!(next.stderr.contains("restart the service instead"), "{variable}: {next:?}");
        agent.clean_kill(&machine).await?;
    }
    Ok(())
}

/// Starts an agent that takes over and is never ready: it reads its manifest from a pipe, once before it asks, and
/// again when the other one has ended.
async fn start_unready(machine: &Machine, option: &str) -> Result<Child, Error> {
    machine.fifo("pipe.yaml")?;
    let child = machine.begin(&["run", "pipe.yaml", option])?;
    let (path, text) = (machine.path("pipe.yaml"), machine.text(SITE));
    within(spawn_blocking(move || fs::write(path, text))).await???;
    Ok(child)
}

/// Waits until an agent that has handed over keeps the program again, as the same process.
async fn until_again(mut agent: Agent, machine: &Machine, server: &str) -> TestResult {
    agent.until_logged(&["this one starts again"]).await?;
    agent.until_logged(&["the control socket listens"]).await?;
    agent.until_logged(&[&format!("server: adopted; pid: {server}")]).await?;
    assert!(!machine.path("state/take-over").exists());
    machine.lines("pids", 1).await?;
    agent.clean_kill(machine).await?;
    kill(server).await
}

#[tokio::test]
async fn an_agent_starts_again_if_the_next_one_ends_before_it_is_ready() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (mut agent, server) = start(&machine).await?;
    let next = start_unready(&machine, "--take-over").await?;
    agent.until_logged(&["server", "left running for the next agent"]).await?;

    signal(&next.id().ok_or("it has ended")?.to_string(), Signal::KILL)?;

    until_again(agent, &machine, &server).await
}

#[tokio::test]
async fn an_agent_that_has_handed_over_ends_at_a_signal_and_does_not_start_again() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (mut agent, server) = start(&machine).await?;
    let _next = start_unready(&machine, "--take-over=1h").await?;
    agent.until_logged(&["server", "left running for the next agent"]).await?;

    agent.signal(Signal::TERM)?;
    let ended = agent.ended(&machine).await?;

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.stderr.contains("starts again"), "{ended:?}");
    kill(&server).await
}

#[tokio::test]
async fn an_agent_kills_a_next_one_that_is_not_ready_in_time_and_starts_again() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (mut agent, server) = start(&machine).await?;

    let _next = start_unready(&machine, "--take-over=1s").await?;

    agent.until_logged(&["the next agent is not ready in time, and is killed"]).await?;
    until_again(agent, &machine, &server).await
}

#[tokio::test]
async fn nobody_else_begins_while_an_agent_takes_over() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    Agent::start(&machine).await?.clean_kill(&machine).await?;
    machine.write("state/take-over", "4711\n")?;
    let file = File::options().read(true).write(true).open(machine.path("state/take-over"))?;
    file.lock()?;

    for arguments in [["run", "site.yaml"], ["apply", "site.yaml"]] {
        let refused = machine.run(&arguments).await?;
        assert_eq!(refused.code, Some(75), "{refused:?}");
        assert!(refused.stderr.contains("is held by process 4711"), "{refused:?}");
    }
    drop(file);
    Agent::start(&machine).await?.clean_kill(&machine).await
}

#[tokio::test]
async fn an_agent_that_starts_again_waits_for_the_holder_of_the_state_folder() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    let lock = StateDir::new(machine.path("state")).lock()?;
    // The shell becomes the agent, which has the same pid.
    let program = machine.program_after("echo $$ > state/take-over", &["run", "site.yaml"]);
    let mut agent = Agent::begin(program)?;
    agent.until_logged(&["starts again as soon as the state folder is free"]).await?;

    drop(lock);

    agent.until_logged(&["the control socket listens"]).await?;
    assert!(!machine.path("state/take-over").exists());
    agent.clean_kill(&machine).await
}
