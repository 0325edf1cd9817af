//! Containers whose call or agent ends.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::Ship;
use crate::agent::Agent;
use crate::machine::{signal, within};
use crate::world::TestResult;

/// A type whose looks do not end.
pub(super) const HANGS: &str = r#"#!/bin/sh
cat >/dev/null
case ${1-init} in
init) echo '{"plugs": {"disks": {"container_path": "/disks"}}, "state_action": {"args": ["state"]}}' ;;
state) trap '' TERM; echo up > /disks/up; sleep 1000; sleep 1000 ;;
esac
"#;

pub(super) const HANGING: &str = r#"plugs: {disks: {path: "@/disks"}}
resources: {r: {type: "IMAGE", meta: {timeout: 1s}}}
"#;

#[tokio::test]
async fn a_container_ends_with_its_call() -> TestResult {
    let ship = Ship::build(HANGS).await?;
    ship.declare(HANGING)?;

    let applied = ship.machine.run(&["apply", "site.yaml", "--network", "none"]).await?;

    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert_eq!(ship.containers().await?, "");
    Ok(())
}

#[tokio::test]
async fn an_apply_that_is_interrupted_leaves_no_container() -> TestResult {
    let ship = Ship::build(HANGS).await?;
    let machine = &ship.machine;
    ship.declare(&HANGING.replace("1s", "1h"))?;
    let child = machine.begin(&["apply", "site.yaml", "--network", "none"])?;
    machine.until("disks/up", |text| text == "up\n").await?;

    signal(&child.id().ok_or("it has ended")?.to_string(), Signal::INT)?;
    let ended = machine.ended(child).await?;

    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(ship.containers().await?, "");
    Ok(())
}

#[tokio::test]
async fn what_a_killed_agent_has_left_is_ended_by_the_next_one() -> TestResult {
    let ship = Ship::build(HANGS).await?;
    let machine = &ship.machine;
    ship.declare(&HANGING.replace("1s", "1h"))?;
    let mut child = machine.begin(&["apply", "site.yaml", "--network", "none"])?;
    machine.until("disks/up", |text| text == "up\n").await?;
    signal(&child.id().ok_or("it has ended")?.to_string(), Signal::KILL)?;
    within(child.wait()).await??;
    let left = ship.containers().await?;

    ship.declare(HANGING)?;
    let next = machine.run(&["apply", "site.yaml", "--network", "none"]).await?;

    assert_eq!(left.lines().count(), 1, "{left}");
    assert!(next.stderr.contains("container was left behind"), "{next:?}");
    assert_eq!(ship.containers().await?, "");
    Ok(())
}

#[tokio::test]
async fn what_was_left_while_types_were_asked_is_ended_by_the_next_agent() -> TestResult {
    let script = r#"#!/bin/sh
cat >/dev/null
case ${1-init} in
init) [ -e hang ] && { echo hangs >&2; sleep 1000; }; echo '{"protocol": 1, "calls": {"check": {"args": ["check"]}}}' ;;
check) echo '{"status": "VALID", "state": {}}' ;;
esac
"#;
    let ship = Ship::build(script).await?;
    let machine = &ship.machine;
    ship.declare("resources: {r: {type: \"IMAGE\"}}\n")?;
    // An agent was here before.
    let before = machine.run(&["apply", "site.yaml"]).await?;
    assert_eq!(before.code, Some(0), "{before:?}");
    machine.write("hang", "")?;
    let label = format!("label=crankcase.agent={}", machine.path("state").display());
    let words = ["events", "--since", "1", "--filter", &label, "--filter", "event=start"];
    let mut events =
        Command::new("docker").args(words).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut started = BufReader::new(events.stdout.take().ok_or("no events")?).lines();
    let mut first = machine.begin(&["apply", "site.yaml", "--refresh-types"])?;
    // Two of the agent that was here, and that which hangs.
    for _ in 0..3 {
        within(started.next_line()).await??.ok_or("nothing has started")?;
    }
    // A container starts before its program does.
    let hangs = ship.containers().await?;
    let mut logs = Command::new("docker");
    logs.args(["logs", "--follow", hangs.trim()]).stderr(Stdio::piped()).kill_on_drop(true);
    let mut logs = logs.spawn()?;
    let mut said = BufReader::new(logs.stderr.take().ok_or("no logs")?).lines();
    assert_eq!(within(said.next_line()).await??.as_deref(), Some("hangs"));

    // A check leaves the containers of the apply alone. No other apply gets the folder.
    fs::remove_file(machine.path("hang"))?;
    let beside = machine.run(&["check", "site.yaml"]).await?;
    let kept = ship.containers().await?;
    signal(&first.id().ok_or("it has ended")?.to_string(), Signal::KILL)?;
    within(first.wait()).await??;
    let left = ship.containers().await?;
    let next = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!((beside.code, kept.lines().count()), (Some(0), 1), "{beside:?} {kept}");
    assert_eq!(left, kept);
    assert_eq!(next.code, Some(0), "{next:?}");
    assert!(next.stderr.contains("container was left behind"), "{next:?}");
    assert_eq!(ship.containers().await?, "");
    Ok(())
}

/// A type that is watched, and does not end when it is asked to.
pub(super) const WATCHES: &str = r#"#!/bin/sh
cat >/dev/null
case ${1-init} in
init) echo '{"protocol": 1, "plugs": {"disks": {"path": "/disks", "writable": true}},
  "calls": {"check": {"args": ["check"]}, "watch": {"args": ["watch"]}}}' ;;
check) echo '{"status": "VALID", "state": {}}' ;;
watch) trap '' TERM; echo up > /disks/up; sleep 1000; sleep 1000 ;;
esac
"#;

pub(super) const WATCHED: &str = r#"plugs: {disks: {path: "@/disks"}}
resources: {r: {type: "IMAGE"}}
"#;

#[tokio::test]
async fn an_agent_that_ends_leaves_no_container() -> TestResult {
    let ship = Ship::build(WATCHES).await?;
    ship.declare(WATCHED)?;
    let agent = Agent::start(&ship.machine).await?;
    ship.machine.until("disks/up", |text| text == "up\n").await?;

    agent.clean_kill(&ship.machine).await?;

    assert_eq!(ship.containers().await?, "");
    Ok(())
}

#[tokio::test]
async fn a_load_that_is_interrupted_leaves_no_container() -> TestResult {
    let script = "#!/bin/sh\ncat >/dev/null\ntrap '' TERM\nsleep 1000\nsleep 1000\n";
    let ship = Ship::build(script).await?;
    let machine = &ship.machine;
    ship.declare("resources: {r: {type: \"IMAGE\"}}\n")?;
    let label = format!("label=crankcase.agent={}", machine.path("state").display());
    let words = ["events", "--since", "1", "--filter", &label, "--filter", "event=start"];
    let mut events =
        Command::new("docker").args(words).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut started = BufReader::new(events.stdout.take().ok_or("no events")?).lines();

    for (asked, command) in [(Signal::INT, "check"), (Signal::TERM, "apply")] {
        let child = machine.begin(&[command, "site.yaml"])?;
        within(started.next_line()).await??.ok_or("nothing has started")?;
        signal(&child.id().ok_or("it has ended")?.to_string(), asked)?;
        let ended = machine.ended(child).await?;

        assert_eq!(ended.code, Some(130), "{ended:?}");
        assert_eq!(ship.containers().await?, "", "{command}");
    }
    Ok(())
}
