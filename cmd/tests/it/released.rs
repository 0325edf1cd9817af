//! What has left a manifest, and what is told of those that have not.

use std::fs;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::machine::Machine;
use crate::once::lines;
use crate::world::TestResult;

const SITE: &str = r#"resources:
  page: {type: file, tags: [web, docs], config: {path: "@/page", content: right, mode: "0644"}}
  old: {type: file, config: {path: "@/old", content: right, mode: "0644"}}
"#;

/// The same without `old`, and with another name for the page.
const LESS: &str = r#"resources:
  front: {type: file, tags: [web, docs], config: {path: "@/page", content: right, mode: "0644"}}
"#;

#[tokio::test]
async fn plan_and_apply_name_what_the_manifest_has_no_more() -> TestResult {
    let machine = Machine::new(SITE)?;
    machine.run(&["apply", "site.yaml"]).await?;
    machine.write("site.yaml", LESS)?;

    let cut = machine.run(&["plan", "site.yaml", "--only", "front"]).await?;
    let plan = machine.run(&["plan", "site.yaml"]).await?;
    let as_data = machine.run(&["plan", "site.yaml", "--output", "json"]).await?;
    let applied = machine.run(&["apply", "site.yaml", "--output", "json"]).await?;
    let again = machine.run(&["apply", "site.yaml"]).await?;
    let record = machine.run(&["history", "old"]).await?;

    assert!(!cut.stdout.contains("released"), "{cut:?}");
    let expected = "\
- old (file) would be released: it would not be kept any more
plan: 0 to change, 0 may change, 1 unchanged, 1 released
";
    assert_eq!((plan.code, &*plan.stdout), (Some(0), expected));
    let as_data: Value = serde_json::from_str(&as_data.stdout)?;
    assert_eq!(as_data["released"], json!([{"name": "old", "type": "file"}]));
    let applied = lines(&applied.stdout)?;
    let released = &applied[applied.len() - 2];
    assert_eq!((&released["event"], &released["resource"]), (&"released".into(), &"old".into()));
    assert_eq!(applied.last().map(|end| &end["released"]), Some(&json!(1)));
    assert_eq!(again.stdout, "apply: 0 changed, 1 unchanged\n");
    assert!(record.stdout.contains("released old; its manifest has it no more"), "{record:?}");
    assert_eq!(machine.read("old").as_deref(), Some("right"));
    Ok(())
}

#[tokio::test]
async fn what_only_changes_its_name_or_type_has_not_left() -> TestResult {
    let machine = Machine::new(SITE)?;
    machine.run(&["apply", "site.yaml"]).await?;
    // The page goes by the name of the old one, which has left with that.
    let swapped = LESS.replace("front:", "old:");
    machine.write("site.yaml", &swapped)?;
    let renamed = machine.run(&["apply", "site.yaml"]).await?;
    machine.write("site.yaml", "resources: {old: {type: noop}, new: {type: noop}}\n")?;
    let retyped = machine.run(&["plan", "site.yaml"]).await?;
    // What is not chosen is still kept, and what is chosen is kept from now on.
    machine.run(&["apply", "site.yaml", "--only", "new"]).await?;
    machine.write("site.yaml", "resources: {}\n")?;
    let emptied = machine.run(&["plan", "site.yaml"]).await?;

    let released = "- old (file) was released: it is not kept any more\n";
    assert!(renamed.stdout.starts_with(released), "{renamed:?}");
    assert!(!retyped.stdout.contains("released"), "{retyped:?}");
    let both = "\
- new (noop) would be released: it would not be kept any more
- old (file) would be released: it would not be kept any more
";
    assert!(emptied.stdout.starts_with(both), "{emptied:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_put_back_is_not_released() -> TestResult {
    let site = SITE.replace("old: {type: file,", "old: {type: file, meta: {reverse: true},");
    let machine = Machine::new(&site)?;
    machine.write("old", "as it was")?;
    machine.run(&["apply", "site.yaml"]).await?;
    let changed = machine.read("old");
    machine.write("site.yaml", LESS)?;

    let cut = machine.run(&["apply", "site.yaml", "--only", "front"]).await?;
    let plan = machine.run(&["plan", "site.yaml"]).await?;
    let applied = machine.run(&["apply", "site.yaml"]).await?;
    let again = machine.run(&["plan", "site.yaml"]).await?;

    assert_eq!(changed.as_deref(), Some("right"));
    assert_eq!(cut.stdout, "apply: 0 changed, 1 unchanged\n");
    assert!(plan.stdout.starts_with("~ old (file) would be put back\n"), "{plan:?}");
    assert!(applied.stdout.starts_with("~ old (file) was put back\n"), "{applied:?}");
    assert_eq!(again.stdout, "plan: 0 to change, 0 may change, 1 unchanged\n");
    for ran in [&plan, &applied] {
        assert!(!ran.stdout.contains("released"), "{ran:?}");
    }
    assert_eq!(machine.read("old").as_deref(), Some("as it was"));
    Ok(())
}

#[tokio::test]
async fn what_waits_to_be_put_back_is_not_released() -> TestResult {
    let old = "  old: {type: file, meta: {reverse: true}, config: {path: \"@/old\", content: \"#!/bin/sh\\ntrue >@/it\\n\", mode: \"0755\"}}\n";
    let user =
        "resources:\n  it: {type: exec, config: {command: [\"@/old\"], creates: \"@/it\"}}\n";
    let machine = Machine::new(&format!("resources:\n{old}"))?;
    let applied = machine.run(&["apply", "site.yaml"]).await?;
    // The file would be removed, and is still used.
    machine.write("site.yaml", user)?;
    let waiting = machine.run(&["apply", "site.yaml"]).await?;
    machine.write("site.yaml", "resources: {}\n")?;
    let over = machine.run(&["plan", "site.yaml"]).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(waiting.stdout.ends_with("apply: 1 changed, 0 unchanged\n"), "{waiting:?}");
    assert!(over.stdout.contains("~ old (file) would be put back\n"), "{over:?}");
    assert!(over.stdout.contains("- it (exec) would be released"), "{over:?}");
    assert!(!over.stdout.contains("- old"), "{over:?}");
    Ok(())
}

/// Leaves what was kept as an earlier version of the program has left it.
fn leave(machine: &Machine, kept: &str) -> TestResult {
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        drop(fs::remove_file(machine.path("state").join(file)));
    }
    Ok(fs::write(machine.path("state/kept"), kept)?)
}

#[tokio::test]
async fn what_was_kept_last_may_be_unreadable() -> TestResult {
    let machine = Machine::new(SITE)?;
    machine.run(&["apply", "site.yaml"]).await?;
    for damage in ["", "{\"format\": 2, \"resources\": {}}", "nothing like it"] {
        leave(&machine, damage)?;
        machine.write("site.yaml", LESS)?;

        let plan = machine.run(&["plan", "site.yaml"]).await?;
        let applied = machine.run(&["apply", "site.yaml"]).await?;

        assert_eq!((plan.code, applied.code), (Some(0), Some(0)), "{plan:?} {applied:?}");
        let warning = "cannot read what was kept; what has left is not told";
        assert!(plan.stderr.contains(warning), "{damage}: {plan:?}");
        assert!(applied.stderr.contains(warning), "{damage}: {applied:?}");
        // From here on it is told again.
        machine.write("site.yaml", "resources: {}\n")?;
        let plan = machine.run(&["plan", "site.yaml"]).await?;
        assert!(plan.stdout.contains("- front (file) would be released"), "{damage}: {plan:?}");
        // Also where nothing is kept, so that there is nothing new to note.
        leave(&machine, damage)?;
        machine.run(&["apply", "site.yaml"]).await?;
        let plan = machine.run(&["plan", "site.yaml"]).await?;
        assert!(!plan.stderr.contains(warning), "{damage}: {plan:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_report_tells_types_tags_repairs_and_what_was_released() -> TestResult {
    let machine = Machine::new(SITE)?;
    machine.run(&["apply", "site.yaml"]).await?;
    // What has left since the last run is released when the agent starts.
    let other = "  it: {type: noop, tags: [other]}\n";
    machine.write("site.yaml", &format!("{}{other}", LESS.replace("right", "new")))?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["front: changed"]).await?;
    machine.write("page", "wrong")?;
    agent.until_logged(&["front: repaired"]).await?;

    let all = machine.run(&["report"]).await?;
    let files = machine.run(&["report", "--kind", "file"]).await?;
    let tagged =
        machine.run(&["report", "--tag", "other", "--tag", "none", "--output", "json"]).await?;
    let below = machine.run(&["report", "resources"]).await?;
    let neither = machine.run(&["report", "--kind", "noop", "--tag", "web"]).await?;
    let front = machine.run(&["report", "/agent/resources/front"]).await?;
    let as_data = machine.run(&["report", "resources/front", "--output", "json"]).await?;
    agent.clean_kill(&machine).await?;

    let start = "2 resources: 2 as declared\n1 released, not kept any more (old)\n  front  as declared, repaired once, last changed 20";
    assert!(all.stdout.starts_with(start), "{all:?}");
    assert!(files.stdout.starts_with("1 resource: 1 as declared\n"), "{files:?}");
    assert!(files.stdout.contains("  front  ") && !files.stdout.contains("  it  "), "{files:?}");
    let tagged: Value = serde_json::from_str(&tagged.stdout)?;
    let tally = &tagged["engine"]["workers"]["tally"]["report"];
    let it = &tally["resources"]["it"];
    assert_eq!(tally["resources"].as_object().map(serde_json::Map::len), Some(1), "{tally}");
    assert_eq!((&it["type"], &it["tags"]), (&json!("noop"), &json!(["other"])));
    assert!(it["looks"].as_u64() >= Some(1) && it.get("changes").is_none(), "{it}");
    let kept = &tagged["engine"]["workers"]["resources"]["report"]["workers"];
    assert_eq!(
        kept.as_object().map(|kept| kept.keys().collect::<Vec<_>>()),
        Some(vec![&"it".to_owned()])
    );
    assert!(neither.stdout.starts_with("0 resources: 0 as declared\n"), "{neither:?}");
    assert!(below.stdout.contains("  front  as declared, repaired once"), "{below:?}");
    assert!(!neither.stdout.contains("released"), "{neither:?}");
    let lines = "\n  type: file\n  tags: web, docs\n  changes: 2, repairs: 1, failures: 0, \
                 restarts: 0, looks: ";
    assert!(front.stdout.contains(lines), "{front:?}");
    let as_data: Value = serde_json::from_str(&as_data.stdout)?;
    assert_eq!(
        (&as_data["resource"]["repairs"], &as_data["resource"]["type"]),
        (&json!(1), &"file".into())
    );
    Ok(())
}
