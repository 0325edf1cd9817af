//! Programs that outlive their agent, and the next agent, which adopts them.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::machine::{Machine, gone, signal};
use crate::world::{Error, TestResult};

/// A server that tells its process id, one in each line, and runs on without an agent.
pub(crate) const SITE: &str = r#"resources:
  server:
    type: process
    config: {command: [/bin/sh, -c, "echo $$ >> @/pids; exec sleep 1000"]}
"#;

/// A server that writes one line, waits for a pipe, and writes another one.
const TALKING: &str = r#"resources:
  server:
    type: process
    config:
      command:
        - /bin/sh
        - -c
        - |
          echo $$ >> @/pids
          echo word-one
          read line < @/pipe
          echo word-two
          echo done >> @/said
          exec sleep 1000
"#;

/// A server that goes to the background.
const DAEMON: &str = r#"resources:
  server:
    type: process
    config:
      command:
        - /bin/sh
        - -c
        - setsid -f sh -c 'echo $$ > @/server.pid; echo $$ >> @/pids; exec sleep 1000'
      daemon: {pid_file: '@/server.pid'}
"#;

/// Starts an agent, and returns it with the pid of the server once that is on record.
pub(crate) async fn start(machine: &Machine) -> Result<(Agent, String), Error> {
    let mut agent = Agent::start(machine).await?;
    let pid = machine.lines("pids", 1).await?.remove(0);
    agent.until_logged(&[&format!("server: started; pid: {pid}")]).await?;
    Ok((agent, pid))
}

/// Requires that the history has one end of the server, with its pid and a reason that ends so.
async fn require_end(machine: &Machine, pid: &str, why: &str) -> TestResult {
    let history = machine.run(&["history", "server", "--output", "json"]).await?;
    let history: Value = serde_json::from_str(&history.stdout)?;
    let events = history["events"].as_array().ok_or("no events")?;
    let ended: Vec<_> = events.iter().filter(|event| event["event"] == "ended").collect();
    assert_eq!(ended.len(), 1, "{history}");
    assert_eq!(ended[0]["type"], json!("process"), "{history}");
    assert_eq!(ended[0]["details"]["pid"].to_string(), pid, "{history}");
    assert_eq!(ended[0]["why"], json!(format!("it was left running: {why}")));
    Ok(())
}

/// Kills what would run on after the test.
pub(crate) async fn kill(pid: &str) -> TestResult {
    signal(pid, Signal::KILL)?;
    gone(pid).await
}

#[tokio::test]
async fn a_program_runs_on_when_its_agent_is_killed_and_the_next_one_adopts_it() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, first) = start(&machine).await?;
    agent.dirty_kill().await?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&[&format!("server: adopted; pid: {first}")]).await?;
    let report = machine.run(&["report", "resources/server", "--output", "json"]).await?;
    signal(&first, Signal::KILL)?;
    agent.until_logged(&["server: ended", &first, "how is unknown"]).await?;
    let second = machine.lines("pids", 2).await?.remove(1);
    agent.until_logged(&[&format!("server: restarted; pid: {second}")]).await?;
    agent.clean_kill(&machine).await?;

    let report: String = report.stdout.split_whitespace().collect();
    assert!(report.contains(r#""adopted":true"#), "{report}");
    let history = machine.run(&["history", "server", "--output", "json"]).await?;
    let history: Value = serde_json::from_str(&history.stdout)?;
    let events = history["events"].as_array().ok_or("no events")?;
    // The agent that was killed may not have written that it has started the server.
    let events: Vec<_> = events.iter().skip_while(|it| it["event"] != "adopted").collect();
    let words: Vec<_> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(words, ["adopted", "ended", "failed", "restarted"], "{history}");
    assert_eq!(events[0]["details"]["pid"].to_string(), first);
    kill(&second).await
}

#[tokio::test]
async fn a_daemon_runs_on_when_its_agent_is_killed_and_the_next_one_adopts_it() -> TestResult {
    let machine = Machine::new(DAEMON)?;
    let (agent, pid) = start(&machine).await?;
    agent.dirty_kill().await?;

    let mut agent = Agent::start(&machine).await?;

    agent.until_logged(&[&format!("server: adopted; pid: {pid}")]).await?;
    agent.clean_kill(&machine).await?;
    kill(&pid).await
}

#[tokio::test]
async fn a_program_runs_on_through_a_stop_an_apply_and_a_start() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (mut agent, pid) = start(&machine).await?;
    agent.signal(Signal::TERM)?;
    agent.until_logged(&[&format!("server: left running for the next agent; pid: {pid}")]).await?;
    assert_eq!(agent.ended(&machine).await?.code, Some(0));

    let applied = machine.run(&["apply", "site.yaml"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&[&format!("server: adopted; pid: {pid}")]).await?;
    agent.clean_kill(&machine).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    machine.lines("pids", 1).await?;
    kill(&pid).await
}

#[tokio::test]
async fn a_settled_run_says_which_program_runs_on() -> TestResult {
    let machine = Machine::new(SITE)?;

    let ran = machine.run(&["run", "site.yaml", "--until-settled"]).await?;

    let pid = machine.lines("pids", 1).await?.remove(0);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let left = format!("server: left running for the next agent; pid: {pid}");
    assert!(ran.stderr.contains(&left), "{ran:?}");
    kill(&pid).await
}

#[tokio::test]
async fn what_a_program_writes_while_no_agent_runs_is_logged_by_the_next_one() -> TestResult {
    let machine = Machine::new(TALKING)?;
    machine.fifo("pipe")?;
    let (mut agent, pid) = start(&machine).await?;
    // The line may have been logged before the start.
    agent.until_each_logged([&["server", "word-one"][..]]).await?;
    agent.clean_kill(&machine).await?;
    let pipe = machine.path("pipe");
    tokio::task::spawn_blocking(move || std::fs::write(pipe, "go\n")).await??;
    machine.lines("said", 1).await?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["server", "word-two"]).await?;

    assert_eq!(agent.count_logged("word-one"), 0, "{}", agent.seen());
    agent.clean_kill(&machine).await?;
    kill(&pid).await
}

#[tokio::test]
async fn a_program_that_ended_while_no_agent_ran_is_started_again() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, first) = start(&machine).await?;
    agent.clean_kill(&machine).await?;
    kill(&first).await?;

    let mut agent = Agent::start(&machine).await?;
    agent
        .until_logged(&[&format!("server: ended; pid: {first}"), "while nobody looked after it"])
        .await?;
    let second = machine.lines("pids", 2).await?.remove(1);
    agent.until_logged(&[&format!("server: started; pid: {second}")]).await?;

    agent.clean_kill(&machine).await?;
    kill(&second).await
}

#[tokio::test]
async fn a_program_with_another_config_is_ended_and_started_anew() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, first) = start(&machine).await?;
    agent.clean_kill(&machine).await?;
    machine.write("site.yaml", &SITE.replace("1000", "1001"))?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&[&format!("server: ended; pid: {first}"), "another config"]).await?;
    let second = machine.lines("pids", 2).await?.remove(1);
    agent.until_logged(&[&format!("server: started; pid: {second}")]).await?;

    gone(&first).await?;
    agent.clean_kill(&machine).await?;
    kill(&second).await
}

#[tokio::test]
async fn a_program_whose_resource_has_left_the_manifest_is_ended() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, pid) = start(&machine).await?;
    agent.clean_kill(&machine).await?;
    machine.write("site.yaml", "resources: {other: {type: noop}}\n")?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["server", "it is not declared"]).await?;
    agent.until_logged(&["the site is settled"]).await?;

    gone(&pid).await?;
    let left = std::fs::read_dir(machine.path("state/processes"))?;
    let left = left.collect::<Result<Vec<_>, _>>()?;
    assert!(left.iter().all(|entry| entry.path().extension().is_some_and(|it| it == "spare")));
    agent.clean_kill(&machine).await?;
    require_end(&machine, &pid, "it is not declared").await
}

#[tokio::test]
async fn a_program_that_was_gone_before_its_resource_was_is_not_said_to_be_ended_for_that()
-> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, pid) = start(&machine).await?;
    agent.clean_kill(&machine).await?;
    machine.write("site.yaml", "resources: {other: {type: noop}}\n")?;
    kill(&pid).await?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["server", "it had ended before; how is unknown"]).await?;
    agent.until_logged(&["the site is settled"]).await?;

    agent.clean_kill(&machine).await?;
    require_end(&machine, &pid, "it had ended before; how is unknown").await
}

#[tokio::test]
async fn a_program_whose_resource_an_apply_has_released_is_ended() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, pid) = start(&machine).await?;
    agent.clean_kill(&machine).await?;
    machine.write("site.yaml", "resources: {other: {type: noop}}\n")?;

    let applied = machine.run(&["apply", "site.yaml"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["server", "it is not declared"]).await?;
    agent.until_logged(&["the site is settled"]).await?;

    gone(&pid).await?;
    assert_eq!(applied.code, Some(0), "{applied:?}");
    agent.clean_kill(&machine).await?;
    require_end(&machine, &pid, "it is not declared").await
}

#[tokio::test]
async fn the_output_of_a_program_goes_to_a_file_on_demand() -> TestResult {
    let talking = TALKING.replace("config:", "config:\n      output: file");
    let machine = Machine::new(&talking)?;
    machine.fifo("pipe")?;
    let (agent, pid) = start(&machine).await?;
    machine.until("state/output/server.log", |text| text == "word-one\n").await?;
    agent.clean_kill(&machine).await?;
    let pipe = machine.path("pipe");
    tokio::task::spawn_blocking(move || std::fs::write(pipe, "go\n")).await??;
    machine.lines("said", 1).await?;

    let agent = Agent::start(&machine).await?;
    machine.until("state/output/server.log", |text| text == "word-one\nword-two\n").await?;

    agent.clean_kill(&machine).await?;
    kill(&pid).await
}

#[tokio::test]
async fn the_program_of_a_paused_resource_is_adopted_as_it_ran() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (mut agent, pid) = start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let paused = machine.run(&["pause", "resources/server", "--reason", "a look"]).await?;
    agent.clean_kill(&machine).await?;
    machine.write("site.yaml", &SITE.replace("1000", "1001"))?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&[&format!("server: adopted; pid: {pid}")]).await?;
    agent.clean_kill(&machine).await?;

    assert_eq!(paused.code, Some(0), "{paused:?}");
    machine.lines("pids", 1).await?;
    kill(&pid).await
}

#[tokio::test]
async fn a_park_ends_a_program_that_nobody_has_adopted() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, pid) = start(&machine).await?;
    agent.clean_kill(&machine).await?;
    let broken = "  broken: {type: exec, config: {command: [/bin/false], creates: \"@/never\"}}\n";
    let held_back = SITE.replace("type: process", "type: process\n    dependencies: [broken]");
    machine.write("site.yaml", &format!("{held_back}{broken}"))?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["/agent/resources/broken", "a worker is degraded"]).await?;

    let parked = machine.run(&["park", "resources/server"]).await?;
    agent.until_logged(&["server", "its resource is parked"]).await?;

    gone(&pid).await?;
    assert_eq!(parked.code, Some(0), "{parked:?}");
    agent.clean_kill(&machine).await?;
    require_end(&machine, &pid, "its resource is parked").await
}

#[tokio::test]
async fn an_agent_that_only_looks_leaves_a_program_to_the_next_one() -> TestResult {
    let machine = Machine::new(SITE)?;
    let (agent, pid) = start(&machine).await?;
    agent.clean_kill(&machine).await?;

    let looked = machine.run(&["run", "site.yaml", "--noop", "--until-settled"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&[&format!("server: adopted; pid: {pid}")]).await?;

    agent.clean_kill(&machine).await?;
    assert_eq!(looked.code, Some(0), "{looked:?}");
    machine.lines("pids", 1).await?;
    kill(&pid).await
}
