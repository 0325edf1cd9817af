//! Programs that an agent supervises, and commands that it runs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::agent::Agent;
use crate::machine::{Machine, gone, signal, within};
use crate::once::lines;
use crate::world::{Error, TestResult};

/// A server that tells its process id, one in each line, and ends with its agent.
pub(crate) const SITE: &str = r#"resources:
  server:
    type: process
    config: {keep: false, command: [/bin/sh, -c, "echo $$ >> @/pids; exec sleep 1000"]}
"#;

#[tokio::test]
async fn a_program_that_was_killed_comes_back() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    let first = machine.lines("pids", 1).await?.remove(0);

    signal(&first, Signal::KILL)?;

    let pids = machine.lines("pids", 2).await?;
    assert_ne!(pids[0], pids[1]);
    agent.until_logged(&["WARN server: ended; pid: ", "signal"]).await?;
    agent.clean_kill(&machine).await?;
    gone(&pids[1]).await
}

#[tokio::test]
async fn starts_and_ends_of_a_program_are_in_the_log_and_on_record() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    let first = machine.lines("pids", 1).await?.remove(0);
    let started = format!("server: started; pid: {first}; why: its worker has started");
    agent.until_logged(&[&started]).await?;
    signal(&first, Signal::KILL)?;
    agent.until_logged(&["server: restarted; pid: ", "ended with signal: 9 (SIGKILL)"]).await?;
    // Its end is told once.
    assert_eq!(agent.count_logged("a worker has ended"), 0, "{}", agent.seen());
    machine.lines("pids", 2).await?;
    let asked = machine.run(&["bounce", "resources/server", "--reason", "a new disk"]).await?;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    agent.until_logged(&["server: restarted; pid: ", "asked for it: a new disk"]).await?;
    agent.clean_kill(&machine).await?;

    let history = machine.run(&["history", "server", "--output", "json"]).await?;

    let history: Value = serde_json::from_str(&history.stdout)?;
    let events = history["events"].as_array().ok_or("no events")?;
    let words: Vec<_> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    let expected = ["started", "ended", "failed", "restarted", "ended", "restarted", "ended"];
    assert_eq!(words, expected, "{history}");
    assert_eq!(events[0]["details"]["pid"].to_string(), first);
    assert_eq!(events[5]["details"]["asked_by"]["why"], "a new disk");
    Ok(())
}

#[tokio::test]
async fn the_end_of_a_program_that_a_killed_agent_left_is_on_record() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    let first = machine.lines("pids", 1).await?.remove(0);
    // Its pid is on record then.
    agent.until_logged(&["server: started; pid: "]).await?;
    agent.dirty_kill().await?;
    let agent = Agent::start(&machine).await?;
    machine.lines("pids", 2).await?;
    agent.clean_kill(&machine).await?;

    let ended = first_end(&machine).await?;
    assert_eq!(ended["details"]["pid"].to_string(), first);
    assert_eq!(ended["why"], "an earlier agent had left it behind");
    Ok(())
}

/// Returns the first end of the server that is on record.
async fn first_end(machine: &Machine) -> Result<Value, Error> {
    let history = machine.run(&["history", "server", "--output", "json"]).await?;
    let history: Value = serde_json::from_str(&history.stdout)?;
    let mut events = history["events"].as_array().into_iter().flatten();
    let ended = events.find(|event| event["event"] == "ended");
    Ok(ended.cloned().ok_or("no end is on record")?)
}

#[tokio::test]
async fn apply_puts_the_end_of_a_program_on_record_that_a_killed_agent_left() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    let first = machine.lines("pids", 1).await?.remove(0);
    // Its pid is on record then.
    agent.until_logged(&["server: started; pid: "]).await?;
    agent.dirty_kill().await?;

    machine.run(&["apply", "site.yaml"]).await?;

    gone(&first).await?;
    let ended = first_end(&machine).await?;
    assert_eq!(ended["details"]["pid"].to_string(), first);
    assert_eq!(ended["why"], "an earlier agent had left it behind");
    Ok(())
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
      keep: false
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
    let left = agent.until_logged(&["process was left behind", "it was ended"]).await?;
    let pids = machine.lines("pids", 2).await?;
    within(held.read_to_end(&mut Vec::new())).await??;

    assert!(left.contains("server"), "{left}");
    gone(&first).await?;
    assert_ne!(pids[0], pids[1]);
    agent.clean_kill(&machine).await?;
    gone(&pids[1]).await
}

#[tokio::test]
async fn what_depends_on_a_program_needs_run_and_is_no_failure_and_no_change() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  server: {type: process, config: {command: [/bin/sleep, "1000"]}}
  seed: {type: exec, dependencies: [server], config: {command: [touch, "@/seed"]}}
  page: {type: file, dependencies: [seed], config: {path: "@/page"}}
"#,
    )?;

    let plan = machine.run(&["plan", "site.yaml", "--detailed-exitcode"]).await?;
    let apply = machine.run(&["apply", "site.yaml", "--detailed-exitcode"]).await?;
    let data = machine.run(&["apply", "site.yaml", "--output", "json"]).await?;

    let told = "= server (process) is supervised by run only\n\
                = seed (exec) needs run: server is supervised by run only\n\
                = page (file) needs run: server is supervised by run only\n";
    let counts = "1 supervised by run only, 2 needs run\n";
    let expected = format!("{told}plan: 0 to change, 0 may change, 0 unchanged, {counts}");
    assert_eq!((plan.code, &*plan.stdout), (Some(0), &*expected), "{plan:?}");
    let expected = format!("{told}apply: 0 changed, 0 unchanged, {counts}");
    assert_eq!((apply.code, &*apply.stdout), (Some(0), &*expected), "{apply:?}");
    let lines = lines(&data.stdout)?;
    let last = lines.last().ok_or("no lines")?;
    assert_eq!((data.code, &last["needs_run"]), (Some(0), &Value::from(2)), "{data:?}");
    assert!(!machine.path("seed").exists() && !machine.path("page").exists());
    Ok(())
}

/// A command that never ends, tells its process id, and notices another one of its sort.
const COMMAND: &str = r#"resources:
  command:
    type: exec
    config:
      shell: true
      command: |
        exec 9>> @/lock
        flock --nonblock 9 || echo both >> @/both
        sleep 1000 &
        echo $$ >> @/pids
        wait
"#;

#[tokio::test]
async fn a_command_of_a_killed_agent_is_ended_before_the_next_agent_runs_it() -> TestResult {
    let machine = Machine::new(COMMAND)?;
    let agent = Agent::start(&machine).await?;
    let first = machine.lines("pids", 1).await?.remove(0);
    agent.dirty_kill().await?;

    let agent = Agent::start(&machine).await?;
    let pids = machine.lines("pids", 2).await?;

    assert_eq!(machine.read("both"), None, "two ran side by side");
    gone(&first).await?;
    agent.clean_kill(&machine).await?;
    gone(&pids[1]).await
}

#[tokio::test]
async fn a_command_of_a_killed_apply_is_ended_before_the_next_apply_runs_it() -> TestResult {
    let machine = Machine::new(COMMAND)?;
    let mut apply = machine.begin(&["apply", "site.yaml"])?;
    let first = machine.lines("pids", 1).await?.remove(0);
    within(apply.kill()).await??;

    let mut apply = machine.begin(&["apply", "site.yaml"])?;
    let pids = machine.lines("pids", 2).await?;

    assert_eq!(machine.read("both"), None, "two ran side by side");
    gone(&first).await?;
    signal(&apply.id().ok_or("it has ended")?.to_string(), Signal::TERM)?;
    within(apply.wait()).await??;
    gone(&pids[1]).await
}

#[tokio::test]
async fn a_command_is_on_record_until_it_ends() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  command:
    type: exec
    config:
      command: [/bin/sh, -c, "ls @/state/processes/*.process; : > @/done"]
      unless: [/bin/sh, -c, "ls @/state/processes/*.process > @/guarded; test -e @/done"]
"#,
    )?;

    let ran = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!((ran.code, ran.stdout.matches(".process\n").count()), (Some(0), 1), "{ran:?}");
    assert_eq!(machine.read("guarded").ok_or("no guard has run")?.lines().count(), 1);
    for entry in std::fs::read_dir(machine.path("state/processes"))? {
        // The room of its record is kept for the next one.
        assert!(entry?.path().extension().is_some_and(|it| it == "spare"));
    }
    Ok(())
}

#[tokio::test]
async fn a_program_and_a_command_have_the_same_environment_where_the_agent_has_none() -> TestResult
{
    let written = r#"[/bin/sh, -c, "tr '\\0' '\\n' < /proc/$$/environ > @/NAME.new; mv @/NAME.new @/NAME; exec sleep 1000"]"#;
    let (command, program) =
        (written.replace("NAME", "command"), written.replace("NAME", "program"));
    let machine = Machine::new(&format!(
        "resources:
  command: {{type: exec, config: {{command: {command}}}}}
  program: {{type: process, config: {{command: {program}}}}}
"
    ))?;
    let agent = Agent::start(&machine).await?;

    for name in ["command", "program"] {
        let mut lines = machine.lines(name, 4).await?;
        lines.retain(|line| !line.starts_with("CRANKCASE_PROCESS="));
        lines.sort_unstable();
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(lines, ["HOME=/", "LANG=C.UTF-8", path], "{name}");
    }
    agent.clean_kill(&machine).await
}

/// A manifest of a command and a program that each write down their user, umask and limits.
fn telling(rights: &str) -> String {
    let script = |name: &str| {
        format!(
            "[/bin/sh, -c, \"(id -u; id -G; umask; ulimit -n; ulimit -c) > @/open/{name}.new; \
             mv @/open/{name}.new @/open/{name}; exec sleep 1000\"]"
        )
    };
    let (command, program) = (script("command"), script("program"));
    format!(
        "resources:
  command: {{type: exec, config: {{command: {command}, {rights}}}}}
  program: {{type: process, config: {{command: {program}, {rights}}}}}
"
    )
}

/// Runs a command and a program with these rights, and expects what both tell of themselves.
pub(crate) async fn expect_told(rights: &str, expected: &[&str]) -> TestResult {
    let machine = Machine::new(&telling(rights))?;
    let open = machine.path("open");
    std::fs::create_dir(&open)?;
    std::fs::set_permissions(&open, Permissions::from_mode(0o777))?;
    std::fs::set_permissions(machine.path(""), Permissions::from_mode(0o755))?;
    let agent = Agent::start(&machine).await?;

    for name in ["open/command", "open/program"] {
        let lines = machine.lines(name, 5).await?;
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(lines[5 - expected.len()..], *expected, "{name}: {lines:?}");
    }
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_command_and_a_program_have_their_umask_and_limits() -> TestResult {
    expect_told("umask: \"027\", limits: {nofile: 64, core: 0}", &["0027", "64", "0"]).await
}

#[tokio::test]
async fn a_user_that_is_not_there_when_a_command_starts_is_named() -> TestResult {
    let machine = Machine::new(
        "resources: {command: {type: exec, config: {command: [/bin/true], user: no-such}}}",
    )?;

    let ran = machine.run(&["apply", "site.yaml"]).await?;

    assert!(ran.stdout.contains("there is no user \"no-such\""), "{ran:?}");
    Ok(())
}
