//! Signals that end the program while it calls external types.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::agent::Agent;
use crate::external::program;
use crate::machine::{Machine, gone, signal, within};
use crate::world::{Error, TestResult};

const SITE: &str = "resources: {r1: {type: \"program:./it\"}}\n";

/// A type that says its pid when it is asked, and does not answer.
const HANGS: &str = "#!/bin/sh\necho $$ > up\nexec sleep 1000\n";

const ANSWERS: &str = "#!/bin/sh
case ${1-init} in
init) echo '{\"state_action\": {\"args\": [\"state\"]}}' ;;
*) echo '{\"status\": \"VALID\", \"state\": {}}' ;;
esac
";

fn start(script: &str) -> Result<Machine, Error> {
    let machine = Machine::new(SITE)?;
    program(&machine, "it", script)?;
    Ok(machine)
}

/// Waits until the type has said its pid.
async fn up(machine: &Machine) -> Result<String, Error> {
    let up = machine.until("up", |text| text.ends_with('\n')).await?;
    Ok(up.trim().to_owned())
}

/// Returns whether a process runs.
fn is_there(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status"));
    // One that nobody has reaped yet has ended.
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

#[tokio::test]
async fn a_command_that_is_told_to_end_while_it_loads_leaves_no_type() -> TestResult {
    let commands: [&[&str]; 7] = [
        &["check", "site.yaml"],
        &["plan", "site.yaml"],
        &["apply", "site.yaml"],
        &["graph", "site.yaml"],
        &["types", "program:./it"],
        &["types", "test", "program:./it", "--config", "config.yaml"],
        &["run", "site.yaml"],
    ];
    for (at, command) in commands.into_iter().enumerate() {
        let machine = start(HANGS)?;
        machine.write("config.yaml", "{}\n")?;
        let asked = [Signal::INT, Signal::TERM][at % 2];

        let child = machine.begin(command)?;
        let pid = up(&machine).await?;
        let was_there = is_there(&pid);
        signal(&child.id().ok_or("it has ended")?.to_string(), asked)?;
        let ended = machine.ended(child).await?;

        let expected = if command[0] == "run" { 0 } else { 130 };
        assert_eq!(ended.code, Some(expected), "{command:?}: {ended:?}");
        assert!(was_there && !is_there(&pid), "{command:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_apply_that_is_told_to_end_while_it_loads_again_accounts_for_all() -> TestResult {
    // The first load knows no item, so it asks no type. The load after the first apply does.
    let machine = Machine::new(
        r#"resources:
  home: {type: print, for_each: "{{ facts.users }}", config: {message: "{{ item }}"}}
  late: {type: "program:./it", for_each: "{{ facts.users | default([]) }}"}
  users: {type: fact, config: {path: /users, value: [ada]}}
"#,
    )?;
    program(&machine, "it", HANGS)?;

    let child = machine.begin(&["apply", "site.yaml"])?;
    let pid = up(&machine).await?;
    signal(&child.id().ok_or("it has ended")?.to_string(), Signal::INT)?;
    let ended = machine.ended(child).await?;

    assert_eq!(ended.code, Some(130), "{ended:?}");
    for said in
        ["~ users (fact) changed\n", "- home (print) was not attempted: apply was told to stop\n"]
    {
        assert_eq!(ended.stdout.matches(said).count(), 1, "{said}: {ended:?}");
    }
    gone(&pid).await
}

#[tokio::test]
async fn a_second_signal_kills_a_type_that_does_not_end() -> TestResult {
    let machine = start(&HANGS.replace("echo", "trap '' TERM\necho"))?;
    let mut child = machine.begin(&["check", "site.yaml"])?;
    let mut said = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();
    let pid = up(&machine).await?;
    let id = child.id().ok_or("it has ended")?.to_string();

    signal(&id, Signal::INT)?;
    loop {
        let line = within(said.next_line()).await??.ok_or("it does not say that it waits")?;
        if line.starts_with("crankcase: waits for init of 'r1'") {
            break;
        }
    }
    signal(&id, Signal::INT)?;
    let last = within(said.next_line()).await??;
    let ended = within(child.wait()).await??;

    assert_eq!(last.as_deref(), Some("crankcase: interrupted again: what has not ended is killed"));
    assert_eq!(ended.code(), Some(130));
    gone(&pid).await
}

#[tokio::test]
async fn an_agent_that_is_told_to_end_while_it_reloads_leaves_no_type() -> TestResult {
    let machine = start(ANSWERS)?;
    let agent = Agent::start(&machine).await?;
    program(&machine, "other", HANGS)?;
    machine.write(
        "site.yaml",
        &format!("{SITE}# other\n").replace("it\"}", "it\"}, r2: {type: \"program:./other\"}"),
    )?;
    let pid = up(&machine).await?;

    agent.clean_kill(&machine).await?;

    assert!(!is_there(&pid));
    Ok(())
}

/// Kills a command while it calls a type that hangs. The next apply, with a type that answers, ends the type.
async fn the_next_apply_ends_what_is_left(machine: &Machine, command: &str) -> TestResult {
    let mut killed = machine.begin(&[command, "site.yaml"])?;
    let pid = up(machine).await?;
    // Until it is on record with its pid, it is found by its mark.
    signal(&killed.id().ok_or("it has ended")?.to_string(), Signal::KILL)?;
    within(killed.wait()).await??;
    let was_there = is_there(&pid);
    program(machine, "it", ANSWERS)?;

    let applied = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(was_there && !is_there(&pid), "{applied:?}");
    assert_eq!(fs::read_dir(machine.path("state/asking"))?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn what_the_first_load_of_all_has_left_is_ended_by_the_next_apply() -> TestResult {
    the_next_apply_ends_what_is_left(&start(HANGS)?, "apply").await
}

#[tokio::test]
async fn what_a_plan_has_left_is_ended_by_the_next_apply() -> TestResult {
    let hangs_when_looked_at = "*) echo $$ > up; exec sleep 1000;";
    let machine = start(&ANSWERS.replace("*)", hangs_when_looked_at))?;
    fs::create_dir(machine.path("state"))?;
    the_next_apply_ends_what_is_left(&machine, "plan").await
}

#[tokio::test]
async fn a_load_says_which_types_it_waits_for() -> TestResult {
    let machine = start(HANGS)?;
    let mut child = machine.begin(&["check", "site.yaml"])?;
    let mut said = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();

    let line = within(said.next_line()).await??.ok_or("it says nothing")?;

    signal(&child.id().ok_or("it has ended")?.to_string(), Signal::INT)?;
    within(child.wait()).await??;
    assert_eq!(machine.generic(&line), "load: waits for init of 'r1' (@/it)");
    Ok(())
}

#[tokio::test]
async fn a_look_that_is_interrupted_leaves_no_type() -> TestResult {
    let script = ANSWERS.replace("*)", "*) trap '' TERM; echo $$ > up; sleep 1000;");
    for command in ["plan", "apply"] {
        let machine = start(&script)?;

        let child = machine.begin(&[command, "site.yaml"])?;
        let pid = up(&machine).await?;
        let id = child.id().ok_or("it has ended")?.to_string();
        signal(&id, Signal::INT)?;
        let ended = machine.ended(child).await?;

        assert_eq!(ended.code, Some(130), "{command}: {ended:?}");
        gone(&pid).await?;
    }
    Ok(())
}
