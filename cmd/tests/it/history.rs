//! What is on record of earlier runs.

use std::{fs, io};

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::machine::Machine;
use crate::world::TestResult;

const SITE: &str = r#"resources:
  page: {type: file, config: {path: "@/page", content: right, mode: "0644"}}
  bad: {type: file, config: {path: "@/bad", content: x}}
"#;

#[tokio::test]
async fn what_apply_and_run_did_is_on_record() -> TestResult {
    let machine = Machine::new(SITE)?;
    fs::create_dir(machine.path("bad"))?;
    let nothing = machine.run(&["history"]).await?;
    machine.run(&["apply", "site.yaml"]).await?;
    machine.run(&["apply", "site.yaml", "--only", "page"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["/agent/resources/bad: a worker is degraded"]).await?;
    machine.write("page", "wrong")?;
    agent.until_logged(&["page: repaired"]).await?;
    let meanwhile = machine.run(&["history", "3"]).await?;
    agent.clean_kill(&machine).await?;

    let runs = machine.run(&["history", "--output", "json"]).await?;
    let page = machine.run(&["history", "/agent/resources/page"]).await?;
    let bad = machine.run(&["history", "bad", "--output", "json"]).await?;
    let none = machine.run(&["history", "7"]).await?;
    let recent = machine.run(&["history", "page", "--since", "1h"]).await?;
    let later = machine.run(&["history", "page", "--since", "2200-01-01"]).await?;

    assert_eq!((nothing.code, &*nothing.stdout), (Some(0), "nothing is on record\n"));
    let runs: Value = serde_json::from_str(&runs.stdout)?;
    let told = |run: usize| (&runs["runs"][run]["mode"], &runs["runs"][run]["outcome"]);
    assert_eq!(told(0), (&"apply".into(), &"failed".into()), "{runs}");
    assert_eq!(told(1), (&"apply".into(), &"done".into()), "{runs}");
    assert_eq!(told(2), (&"run".into(), &"done".into()), "{runs}");
    let counts = ["counts", "site"].map(|key| &runs["runs"][0][key]);
    assert_eq!(counts, [&json!({"changed": 1, "failed": 1}), &"site.yaml".into()]);
    assert_eq!(runs["runs"][1]["counts"], json!({}));
    // What has just happened may not be written yet.
    assert!(meanwhile.stdout.contains("  run    not ended: "), "{meanwhile:?}");
    assert_eq!(runs["runs"][2]["counts"], json!({"failed": 1, "repaired": 1}));

    let lines: Vec<_> = page.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{page:?}");
    assert!(lines[0].starts_with("    1  20") && lines[1].starts_with("    3  20"), "{page:?}");
    assert!(lines[0].contains("changed page: state: \"absent\" -> \"exists\""), "{page:?}");
    let repaired = lines[1].contains("repaired page: content: \"5 bytes, sha256 ");
    let why = lines[1].contains("; by write; its watch has told of \"@/page\", ");
    assert!(repaired && why && lines[1].ends_with(" ms"), "{page:?}");
    let bad: Value = serde_json::from_str(&bad.stdout)?;
    let error = bad["events"][0]["error"].as_str().ok_or("no error")?;
    assert!(error.ends_with("is a folder and not a file; it is left as it is"), "{bad}");
    assert_eq!((recent.stdout, later.stdout), (page.stdout, "nothing is on record\n".to_owned()));
    let expected = "crankcase: there is no run 7 on record; the last is 3\n";
    assert_eq!((none.code, &*none.stderr), (Some(1), expected));
    Ok(())
}

#[tokio::test]
async fn a_run_tells_a_line_of_data_for_what_happens() -> TestResult {
    let machine = Machine::new(SITE)?;

    let ran = machine.run(&["run", "site.yaml", "--until-settled", "--output", "json"]).await?;

    let lines = crate::once::lines(&ran.stdout)?;
    let events: Vec<_> = lines.iter().map(|line| (&line["format"], &line["event"])).collect();
    let one = json!(1);
    let [changed, report] = ["changed", "report"].map(Value::from);
    assert_eq!(events, [(&one, &changed), (&one, &changed), (&one, &report)], "{ran:?}");
    assert_eq!(lines[2]["path"], "/agent");
    Ok(())
}

#[tokio::test]
async fn a_record_that_cannot_be_written_stops_nothing() -> TestResult {
    let machine =
        Machine::new("resources: {page: {type: file, config: {path: '@/page', content: x}}}\n")?;
    machine.run(&["apply", "site.yaml"]).await?;
    fs::remove_file(machine.path("page"))?;
    for journal in ["history.db-wal", "history.db-shm"] {
        fs::remove_file(machine.path("state").join(journal)).or_else(absent)?;
    }
    machine.write(
        "state/history.db",
        &"no database at all, for more than a hundred bytes. ".repeat(9),
    )?;

    let ran = machine.run(&["apply", "site.yaml"]).await?;
    let history = machine.run(&["history"]).await?;

    assert_eq!((ran.code, machine.read("page").as_deref()), (Some(0), Some("x")), "{ran:?}");
    assert!(ran.stderr.contains("what happens is not put on record"), "{ran:?}");
    let expected =
        "crankcase: cannot use the history in @/state/history.db: file is not a database";
    assert!(history.code == Some(1) && history.stderr.starts_with(expected), "{history:?}");
    Ok(())
}

/// Takes what is not there as removed.
fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[tokio::test]
async fn what_only_waits_for_what_is_before_it_has_not_failed() -> TestResult {
    let machine = Machine::new(
        "resources:\n  top: {type: file, config: {path: '@/top/'}}\n  below: {type: file, dependencies: \
         [top], config: {path: '@/top/below/'}}\n  leaf: {type: file, dependencies: [below], config: \
         {path: '@/top/below/leaf', content: x}}\n",
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["leaf: changed"]).await?;
    fs::rename(machine.path("top"), machine.path("away"))?;
    agent.until_logged(&["leaf: repaired"]).await?;
    agent.clean_kill(&machine).await?;

    let runs = machine.run(&["history", "--output", "json"]).await?;

    let runs: Value = serde_json::from_str(&runs.stdout)?;
    assert_eq!(runs["runs"][0]["counts"], json!({"changed": 3, "repaired": 3}), "{runs}");
    Ok(())
}

#[tokio::test]
async fn all_that_an_action_said_is_on_record_and_its_end_in_the_report() -> TestResult {
    let machine = Machine::new(
        r#"resources: {loud: {type: exec, config: {command: "seq 40; exit 3", shell: true}}}
"#,
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["loud", "a worker is degraded", "exited with code 3"]).await?;
    let report = machine.run(&["report", "resources/loud", "--output", "json"]).await?;
    agent.clean_kill(&machine).await?;
    machine.run(&["apply", "site.yaml"]).await?;

    let history = machine.run(&["history", "loud", "--output", "json"]).await?;

    let history: Value = serde_json::from_str(&history.stdout)?;
    let events = history["events"].as_array().ok_or("no events")?;
    assert_eq!(events.len(), 2, "{history}");
    let all: Vec<String> = (1..=40).map(|number| number.to_string()).collect();
    for event in events {
        assert_eq!(event["details"]["done"][0]["log"], json!(all), "{event}");
    }
    let report: Value = serde_json::from_str(&report.stdout)?;
    let last = &report["worker"]["report"]["last_event"]["done"][0]["log"];
    assert_eq!(last, &json!(all[20..]), "{report}");
    Ok(())
}
