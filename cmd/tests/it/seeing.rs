//! What an agent shows of its boot, its changes and its trouble.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::agent::Agent;
use crate::machine::{Machine, within};
use crate::world::{Error, TestResult};

async fn json(machine: &Machine, arguments: &[&str]) -> Result<Value, Error> {
    let ran = machine.run(&[arguments, &["--output", "json"]].concat()).await?;
    serde_json::from_str(&ran.stdout).map_err(|error| format!("{error}: {ran:?}").into())
}

#[tokio::test]
async fn the_last_change_of_a_resource_is_in_its_report_and_on_record() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: \"@/page\", content: \"one\\n\"}}\n",
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    machine.write("page", "two\n")?;
    agent.until_logged(&["page: repaired"]).await?;

    let report = json(&machine, &["report", "resources/page"]).await?;
    let number = report["worker"]["last_event"].as_u64().ok_or("no number")?;
    let since = json(&machine, &["report", "--since", &number.to_string()]).await?;
    let shown = machine.run(&["report", "resources/page"]).await?;
    let history = machine.run(&["history", "page", "--output", "json"]).await?;

    let resources = &since["engine"]["workers"]["resources"]["report"]["workers"];
    assert!(resources.get("page").is_some(), "{since}");
    let event = &report["worker"]["report"]["last_event"];
    assert_eq!((&event["event"], &event["resource"]), (&"repaired".into(), &"page".into()));
    let change = &event["changes"][0];
    assert_eq!(change["attribute"], "content");
    let diff = change["text"].as_str().ok_or("no diff")?;
    assert!(diff.contains("-two\n") && diff.contains("+one\n"), "{diff}");
    assert_eq!(event["done"][0]["action"]["arguments"]["path"], "@/page");
    for part in ["  last event: repaired at ", "      -two\n", "      +one\n"] {
        assert!(shown.stdout.contains(part), "{shown:?}");
    }
    assert!(history.stdout.contains("\"details\""), "{history:?}");
    assert!(
        history.stdout.contains("-two\\\\n") || history.stdout.contains("-two\\n"),
        "{history:?}"
    );
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_command_that_fails_is_reported_with_what_it_said() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  seat:
    type: exec
    config: {command: [/bin/sh, -c, "echo no seat is free >&2; exit 3"]}
"#,
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["a worker is degraded", "no seat is free"]).await?;

    let why = machine.run(&["why", "resources/seat"]).await?;
    let report = json(&machine, &["report", "resources/seat"]).await?;

    assert!(why.stdout.contains("no seat is free"), "{why:?}");
    let worker = &report["worker"];
    assert_eq!(worker["state"], "starting");
    assert!(worker["attempts"]["count"].as_u64() >= Some(1), "{worker}");
    assert_eq!(worker["last_start"]["generation"], 1);
    let event = &worker["report"]["last_event"];
    assert_eq!(
        (&event["event"], &event["done"][0]["action"]["name"]),
        (&"failed".into(), &"run".into())
    );
    assert_eq!(event["done"][0]["log"][0], "no seat is free");
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn events_are_given_from_the_boot_on_and_only_of_this_life() -> TestResult {
    let machine = Machine::new("resources: {a: {type: print, config: {message: hi}}}\n")?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    let mut child = machine
        .program(&["events", "--since", "0", "--output", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
    let mut events: Vec<Value> = Vec::new();
    while !events
        .iter()
        .any(|it| it["path"] == "/agent/resources/a" && it["event"]["type"] == "started")
    {
        let line = within(lines.next_line()).await??.ok_or("the stream ended")?;
        events.push(serde_json::from_str(&line)?);
    }
    let other = machine.run(&["events", "--since", "2026-01-01T00:00:00Z:0"]).await?;
    let wrong = machine.run(&["events", "--since=-1"]).await?;

    let numbers: Vec<_> = events.iter().map(|event| event["sequence"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).map(Some).collect::<Vec<_>>());
    let started = events.last().ok_or("no events")?;
    let cause = events.iter().find(|event| event["sequence"] == started["cause"]);
    let cause = cause.ok_or("no cause")?;
    assert_eq!((&cause["path"], &cause["event"]["type"]), (&started["path"], &"starting".into()));
    assert_eq!(other.code, Some(75), "{other:?}");
    assert!(other.stderr.contains("of another life of the agent"), "{other:?}");
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_report_and_a_graph_are_asked_for_in_part() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  root: {type: file, config: {path: "@/root/", state: exists}}
  a: {type: file, dependencies: [root], config: {path: "@/root/a", content: a}}
  b: {type: file, dependencies: [root], config: {path: "@/root/b", content: b}}
  bad: {type: file, config: {path: "/proc/nowhere/bad", content: b}}
  after: {type: file, dependencies: [bad], config: {path: "@/after", content: b}}
"#,
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    let counts = machine.run(&["report", "--counts"]).await?;
    let trouble =
        json(&machine, &["report", "--only", "trouble", "--no-inputs", "--no-details"]).await?;
    let shallow = json(&machine, &["report", "resources", "--depth", "0"]).await?;
    let near = machine.run(&["graph", "site.yaml", "--around", "a", "--format", "dot"]).await?;
    let live =
        json(&machine, &["graph", "--live", "--around", "resources/root", "--most", "1"]).await?;

    assert!(
        counts.stdout.contains(
            "/agent/resources: 5 workers: 3 running, 1 starting, 1 waiting; 1 in trouble"
        ),
        "{counts:?}"
    );
    let resources = &trouble["engine"]["workers"]["resources"]["report"];
    let names: Vec<_> =
        resources["workers"].as_object().ok_or("no workers")?.keys().map(String::as_str).collect();
    assert_eq!((names, &resources["omitted"]), (vec!["bad"], &4.into()));
    let workers = &shallow["worker"]["report"]["workers"];
    assert_eq!(workers.as_object().map(serde_json::Map::len), Some(5), "{shallow}");
    let own = &workers["a"]["report"];
    assert_eq!((&own["last_event"], &own["omitted"][0]), (&Value::Null, &"last_event".into()));
    assert!(near.stdout.contains("\"root\" [label=\"root\\nfile, +1 user\"]"), "{near:?}");
    assert!(!near.stdout.contains("\"b\""), "{near:?}");
    let nodes = live["graphs"][0]["nodes"].as_array().ok_or("no nodes")?;
    let nodes: Vec<_> = nodes.iter().map(|node| (&node["name"], &node["more_users"])).collect();
    assert_eq!(nodes, [(&"a".into(), &Value::Null), (&"root".into(), &1.into())]);
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn the_boot_names_what_took_long_and_what_is_not_up() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  slow: {type: exec, config: {command: [sleep, "0.3"]}}
  page: {type: file, dependencies: [slow], config: {path: "@/page", content: a}}
  bad: {type: file, config: {path: "/proc/nowhere/bad", content: b}}
"#,
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    let boot = machine.run(&["boot"]).await?;
    let chain = json(&machine, &["boot", "resources/page"]).await?;
    let svg = machine.run(&["boot", "--output", "svg"]).await?;
    let wrong = machine.run(&["boot", "blame", "--output", "svg"]).await?;
    let none = machine.run(&["report", "--output", "svg"]).await?;
    let blame = machine.run(&["boot", "blame"]).await?;
    let down = machine.run(&["boot", "resources/bad"]).await?;

    assert!(boot.stdout.starts_with("not all that is essential is up\n"), "{boot:?}");
    let lines: Vec<_> = boot.stdout.lines().collect();
    assert!(lines[2].starts_with("/agent/resources/page @"), "{boot:?}");
    assert!(lines[3].starts_with("  /agent/resources/slow @"), "{boot:?}");
    assert!(boot.stdout.contains("not up:\n  /agent/resources/bad is not up yet: "), "{boot:?}");
    let chain = chain["chain"].as_array().ok_or("no chain")?;
    let paths: Vec<_> = chain.iter().filter_map(|step| step["path"].as_str()).collect();
    assert_eq!(paths[..3], ["/agent/resources/page", "/agent/resources/slow", "/agent/resources"]);
    let took = |step: &Value| Some(step["up"].as_f64()? - step["begun"].as_f64()?);
    assert!(took(&chain[1]) >= Some(0.3), "{chain:?}");
    let first = blame.stdout.lines().next().unwrap_or_default();
    assert!(first.ends_with("  /agent/resources/slow"), "{blame:?}");
    assert!(svg.stdout.starts_with("<svg ") && svg.stdout.ends_with("</svg>\n"), "{svg:?}");
    assert!(svg.stdout.contains("✗ /agent/resources/bad is not up yet: "), "{svg:?}");
    assert_eq!((wrong.code, none.code), (Some(64), Some(64)), "{wrong:?} {none:?}");
    assert_eq!(none.stderr, "crankcase: only graph and boot have --output svg\n");
    assert_eq!(down.code, Some(1), "{down:?}");
    assert!(down.stderr.contains("/agent/resources/bad has not come up in the boot"), "{down:?}");
    agent.clean_kill(&machine).await
}
