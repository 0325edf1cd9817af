//! Manifests that change while an agent runs.

use rustix::process::Signal;

use crate::agent::Agent;
use crate::machine::Machine;
use crate::world::TestResult;

const RELOADED: &[&str] = &["the manifest was loaded again"];

/// Two files, and a server that tells its process id.
const SITE: &str = r#"resources:
  page: {type: file, config: {path: "@/page", content: one, mode: "0644"}}
  other: {type: file, config: {path: "@/other", content: as is, mode: "0644"}}
  server:
    type: process
    dependencies: [page]
    config: {command: [/bin/sh, -c, "echo first $$ >> @/pids; exec sleep 1000"]}
"#;

#[tokio::test]
async fn only_what_a_changed_manifest_changes_moves() -> TestResult {
    let machine = Machine::new(SITE)?;
    let agent = Agent::start(&machine).await?;
    machine.lines("pids", 1).await?;

    // Had the first change moved the server, the second would find two lines.
    machine.write("site.yaml", &SITE.replace("one", "two"))?;
    machine.until("page", |text| text == "two").await?;
    machine.write("site.yaml", &SITE.replace("one", "two").replace("echo first", "echo second"))?;
    let pids = machine.lines("pids", 2).await?;

    assert!(pids[0].starts_with("first ") && pids[1].starts_with("second "), "{pids:?}");
    assert_eq!(machine.read("page").as_deref(), Some("two"));
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn what_leaves_a_manifest_is_let_go_and_its_program_ends() -> TestResult {
    let machine = Machine::new(SITE)?;
    let agent = Agent::start(&machine).await?;
    let pid = machine.lines("pids", 1).await?.remove(0).replace("first ", "");
    let other = r#"resources: {other: {type: file, config: {path: "@/other", content: new}}}"#;

    machine.write("site.yaml", other)?;
    machine.until("other", |text| text == "new").await?;
    crate::machine::gone(&pid).await?;

    assert_eq!(machine.read("page").as_deref(), Some("one"));
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn sighup_loads_the_manifest_again() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    machine.write("site.yaml", &SITE.replace("one", "two"))?;
    machine.until("page", |text| text == "two").await?;
    agent.until_logged(RELOADED).await?;

    agent.signal(Signal::HUP)?;

    agent.until_logged(RELOADED).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_manifest_that_was_rejected_for_a_missing_file_is_taken_once_that_is_there() -> TestResult
{
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    machine.lines("pids", 1).await?;

    machine.write("site.yaml", &SITE.replace("content: one", "source: beside"))?;
    agent
        .until_logged(&["a worker is degraded", "cannot read the file: it does not exist"])
        .await?;
    machine.write("beside", "from beside")?;

    machine.until("page", |text| text == "from beside").await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn an_invalid_manifest_is_rejected_and_the_old_one_runs_on() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    machine.lines("pids", 1).await?;

    machine.write("site.yaml", &SITE.replace("type: file", "type: fil").replace("first", "x"))?;
    agent.until_logged(&["a worker is degraded", "the old one runs on: site.yaml:2:16: "]).await?;
    agent
        .until_logged(&["a worker is degraded", "is degraded: site.yaml:3:17: unknown type"])
        .await?;
    let report = machine.run(&["report", "--exit-status"]).await?;
    let whole = machine.run(&["report", "site"]).await?;
    let why = machine.run(&["why", "site"]).await?;
    machine.write("page", "wrong")?;
    machine.until("page", |text| text == "one").await?;

    assert_eq!(report.code, Some(1), "{report:?}");
    let rejected = "degraded: the new manifest is rejected, the old one runs on: site.yaml:2:16: \
                    unknown type \"fil\"; did you mean \"file\"?";
    let second = "site.yaml:3:17: unknown type \"fil\"; did you mean \"file\"?";
    let line = format!("of the agent itself:\n  site  running, {rejected} (and 1 more line)\n");
    assert!(report.stdout.contains(&line), "{report:?}");
    let lines = format!("  {rejected}\n    {second}\n");
    assert!(whole.stdout.contains(&lines), "{whole:?}");
    let lines = format!("/agent/site is {rejected}\n  {second}\n");
    assert_eq!(why.stdout, lines);

    // The next valid one counts, and had the rejected one moved the server, that would stand there.
    machine.write("site.yaml", &SITE.replace("echo first", "echo second"))?;
    let pids = machine.lines("pids", 2).await?;
    assert!(pids[1].starts_with("second "), "{pids:?}");
    agent.until_logged(RELOADED).await?;
    let report = machine.run(&["report", "--exit-status"]).await?;
    assert_eq!(report.code, Some(0), "{report:?}");
    assert_eq!(agent.count_logged("unknown type"), 2);
    agent.clean_kill(&machine).await
}
