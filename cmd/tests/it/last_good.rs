//! Manifests that are kept, and gone back to.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::agent::Agent;
use crate::machine::Machine;
use crate::world::TestResult;

const SITE: &str = r#"resources:
  page: {type: file, config: {path: "@/page", content: one, mode: "0644"}}
  works: {type: exec, config: {command: ["true"]}}
"#;

const KEPT: &[&str] = &["the manifest is kept as the last good one"];
const STARTED: &[&str] = &["the agent starts with the last good manifest"];

const LAST_GOOD: &[&str] = &["run", "site.yaml", "--last-good"];
/// A time that is longer than the tests take.
const CANARY: &[&str] = &["run", "site.yaml", "--canary", "1h"];

/// Runs an agent until the manifest is kept.
async fn keep(machine: &Machine) -> TestResult {
    let mut agent = Agent::start_with(machine, LAST_GOOD).await?;
    agent.until_logged(KEPT).await?;
    agent.clean_kill(machine).await
}

#[tokio::test]
async fn an_agent_starts_with_the_last_good_manifest_if_the_new_one_is_invalid() -> TestResult {
    let machine = Machine::new(SITE)?;
    keep(&machine).await?;
    machine.write("site.yaml", &SITE.replace("type: file", "type: fil"))?;
    machine.write("page", "wrong")?;

    let refused = machine.run(&["run", "site.yaml"]).await?;
    let mut agent = Agent::start_with(&machine, LAST_GOOD).await?;
    agent.until_logged(STARTED).await?;
    agent
        .until_logged(&["a worker is degraded", "the last good one runs: site.yaml:2:16: "])
        .await?;
    machine.until("page", |text| text == "one").await?;
    let report = machine.run(&["report", "--exit-status"]).await?;

    assert_eq!(refused.code, Some(65), "{refused:?}");
    assert_eq!(report.code, Some(1), "{report:?}");
    let rejected = "degraded: the new manifest is rejected, the last good one runs: site.yaml:2:16: \
                    unknown type \"fil\"";
    assert!(report.stdout.contains(rejected), "{report:?}");
    assert_eq!(fs::metadata(machine.path("state/last-good.json"))?.mode() & 0o7777, 0o600);

    // The next valid one counts.
    machine.write("site.yaml", &SITE.replace("one", "two"))?;
    machine.until("page", |text| text == "two").await?;
    agent.until_logged(KEPT).await?;
    let report = machine.run(&["report", "--exit-status"]).await?;
    assert_eq!(report.code, Some(0), "{report:?}");
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn without_a_last_good_manifest_an_invalid_one_is_65_as_ever() -> TestResult {
    let machine = Machine::new(&SITE.replace("type: file", "type: fil"))?;

    let ran = machine.run(LAST_GOOD).await?;

    assert_eq!(ran.code, Some(65), "{ran:?}");
    assert!(ran.stderr.contains("there is no last good manifest to start with"), "{ran:?}");
    assert!(ran.stderr.contains("unknown type \"fil\""), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn the_last_good_manifest_has_its_variables_and_templates() -> TestResult {
    let site = r#"vars: {word: none}
resources:
  page: {type: file, config: {path: "@/page", template: page.j2, mode: "0644"}}
"#;
    let machine = Machine::new(site)?;
    machine.write("vars.auto.yaml", "word: one\n")?;
    machine.write("page.j2", "it is {{ word }}")?;
    keep(&machine).await?;
    machine.write("vars.auto.yaml", "word: two\n")?;
    machine.write("page.j2", "it is {{ missing }}")?;
    machine.write("page", "wrong")?;

    let mut agent = Agent::start_with(&machine, LAST_GOOD).await?;
    agent.until_logged(STARTED).await?;
    machine.until("page", |text| text == "it is one").await?;

    machine.write("page.j2", "now {{ word }}")?;
    machine.until("page", |text| text == "now two").await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_canary_goes_back_if_what_was_as_declared_fails_with_a_new_manifest() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start_with(&machine, CANARY).await?;
    agent.until_logged(KEPT).await?;

    let bad = SITE.replace("one", "two").replace("\"true\"", "\"false\"");
    machine.write("site.yaml", &bad)?;
    let rejected = "the new manifest is rejected, the last good one runs: works was as declared \
                    before, and fails with it: ";
    let lines = [
        &["a worker is degraded", rejected][..],
        &["/agent/resources/works", "a worker is well again"],
    ];
    agent.until_each_logged(lines).await?;
    machine.until("page", |text| text == "one").await?;
    let report = machine.run(&["report", "--exit-status"]).await?;
    agent.clean_kill(&machine).await?;

    assert_eq!(report.code, Some(1), "{report:?}");
    assert!(report.stdout.contains(rejected), "{report:?}");

    // The next agent does not try the rejected manifest again, and takes the next one.
    machine.write("page", "wrong")?;
    let mut agent = Agent::start_with(&machine, CANARY).await?;
    agent.until_logged(STARTED).await?;
    machine.until("page", |text| text == "one").await?;
    machine.write("site.yaml", &SITE.replace("one", "three"))?;
    machine.until("page", |text| text == "three").await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_canary_does_not_go_back_because_something_new_fails() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start_with(&machine, CANARY).await?;
    agent.until_logged(KEPT).await?;

    let new = "  new: {type: exec, config: {command: [\"false\"]}}\n";
    machine.write("site.yaml", &(SITE.replace("one", "two") + new))?;
    agent.until_logged(&["/agent/resources/new", "a worker is degraded"]).await?;
    machine.until("page", |text| text == "two").await?;
    machine.write("page", "wrong")?;
    machine.until("page", |text| text == "two").await?;
    let report = machine.run(&["report", "site"]).await?;

    assert!(!report.stdout.contains("rejected"), "{report:?}");
    agent.clean_kill(&machine).await
}
