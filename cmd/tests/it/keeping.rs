//! An agent that keeps files, on a real machine.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;
use serde_json::Value;

use crate::agent::Agent;
use crate::machine::Machine;
use crate::world::TestResult;

const SITE: &str = r#"resources:
  page: {type: file, config: {path: "@/page", content: right, mode: "0644"}}
  other: {type: file, config: {path: "@/other", content: right, mode: "0644"}}
"#;

#[tokio::test]
async fn until_settled_shows_the_report_and_ends() -> TestResult {
    let machine = Machine::new(SITE)?;

    let ran = machine.run(&["run", "site.yaml", "--until-settled"]).await?;

    let expected = "\
2 resources: 2 as declared
  other  as declared
  page   as declared
";
    assert_eq!((ran.code, &*ran.stdout), (Some(0), expected), "{ran:?}");
    assert_eq!(machine.read("page").as_deref(), Some("right"));
    Ok(())
}

#[tokio::test]
async fn run_with_noop_says_what_differs_and_changes_nothing() -> TestResult {
    let gone =
        "  gone: {type: file, config: {path: '@/gone', content: x}, meta: {reverse: true}}\n";
    let machine = Machine::new(&format!("{SITE}{gone}"))?;
    let applied = machine.run(&["apply", "site.yaml"]).await?;
    machine.write("site.yaml", SITE)?;
    machine.write("page", "wrong")?;

    let looked = machine.run(&["run", "site.yaml", "--noop", "--until-settled"]).await?;
    let found = (machine.read("page"), machine.read("gone"));
    let mended = machine.run(&["apply", "site.yaml"]).await?;

    let codes = (applied.code, looked.code, mended.code);
    assert_eq!(codes, (Some(0), Some(1), Some(0)), "{looked:?}");
    assert_eq!(found, (Some("wrong".to_owned()), Some("x".to_owned())), "{looked:?}");
    assert!(looked.stdout.contains("page   degraded, it is left alone (noop): "), "{looked:?}");
    assert!(looked.stderr.contains("noop: every resource is only looked at"), "{looked:?}");
    // The agent still knows the change that it has not put back.
    let found = (machine.read("page"), machine.read("gone"));
    assert_eq!(found, (Some("right".to_owned()), None), "{mended:?}");
    Ok(())
}

#[tokio::test]
async fn until_settled_takes_a_time_of_at_most_a_day() -> TestResult {
    let machine = Machine::new(SITE)?;

    let ran = machine.run(&["run", "site.yaml", "--until-settled=100ms"]).await?;
    let wrong = machine.run(&["run", "site.yaml", "--until-settled=25h"]).await?;

    assert_eq!((ran.code, machine.read("page").as_deref()), (Some(0), Some("right")), "{ran:?}");
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
    assert!(wrong.stderr.contains("expected a duration of at most 24h"), "{wrong:?}");
    Ok(())
}

#[tokio::test]
async fn of_many_resources_the_report_lists_those_that_are_not_as_declared() -> TestResult {
    let many: String = (0..50).map(|number| format!("  n{number}: {{type: noop}}\n")).collect();
    let site = format!(
        "resources:\n{many}  bad: {{type: file, config: {{path: '@/bad', content: x}}}}\n  behind: \
         {{type: noop, dependencies: [bad]}}\n"
    );
    let machine = Machine::new(&site)?;
    fs::create_dir(machine.path("bad"))?;

    let settled = machine.run(&["run", "site.yaml", "--until-settled"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["/agent/resources/bad: a worker is degraded"]).await?;
    agent.until_logged(&["the site is settled: 50 of 52 as declared; others: "]).await?;
    let all = machine.run(&["report", "--all"]).await?;
    let behind = machine.run(&["report", "--state", "held-back", "--state", "parked"]).await?;
    agent.clean_kill(&machine).await?;

    let first = "52 resources: 50 as declared, 1 degraded (bad), 1 held back (behind)\n";
    assert!(settled.stdout.starts_with(first), "{settled:?}");
    let rest = "\n  ... 50 more are as declared; --all lists them\n";
    assert!(settled.stdout.contains(rest) && !settled.stdout.contains("n49"), "{settled:?}");
    let line = "  behind  held back, bad is starting\n";
    let only = format!("1 resource: 0 as declared, 1 held back (behind)\n{line}");
    assert_eq!(behind.stdout, only, "{behind:?}");
    assert!(all.stdout.contains("\n    n49     ") && !all.stdout.contains("more are"), "{all:?}");
    Ok(())
}

#[tokio::test]
async fn the_log_says_of_a_site_and_of_a_repair_what_has_changed_and_why() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent =
        Agent::start_with(&machine, &["run", "site.yaml", "--log-format", "json"]).await?;
    let kept: Value = serde_json::from_str(&agent.until_logged(&["the site is kept"]).await?)?;
    // What is written before that is seen as a part of the change.
    agent.until_logged(&["\"changed\"", "\"resource\":\"page\""]).await?;
    machine.write("page", "wrong")?;
    let repaired: Value = serde_json::from_str(&agent.until_logged(&["\"repaired\""]).await?)?;
    machine.write("site.yaml", "resources: {}\n")?;
    let released: Value = serde_json::from_str(&agent.until_logged(&["released: it"]).await?)?;
    agent.clean_kill(&machine).await?;

    let numbers = ["resources", "new", "renewed", "released"].map(|name| &kept["fields"][name]);
    assert_eq!(numbers.map(Value::as_u64), [Some(2), Some(2), Some(0), Some(0)], "{kept}");
    let repair = &repaired["fields"];
    assert_eq!((&repair["resource"], &repair["by"]), (&"page".into(), &"write".into()));
    let what = repair["what"].as_str().ok_or("nothing was said")?;
    assert!(what.starts_with("content: \"5 bytes, sha256 "), "{repaired}");
    assert!(repair["took_ms"].as_f64().is_some_and(|took| took > 0.0), "{repaired}");
    assert!(["other", "page"].map(Value::from).contains(&released["fields"]["resource"]));
    Ok(())
}

#[tokio::test]
async fn until_settled_is_1_when_something_cannot_be_as_declared() -> TestResult {
    let machine = Machine::new(SITE)?;
    fs::create_dir(machine.path("page"))?;

    let ran = machine.run(&["run", "site.yaml", "--until-settled"]).await?;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    let expected = "  page   degraded, \"@/page\" is a folder and not a file; it is left \
                    as it is, next try ";
    assert!(ran.stdout.contains(expected), "{ran:?}");
    assert_eq!(machine.read("other").as_deref(), Some("right"));
    Ok(())
}

#[tokio::test]
async fn until_settled_is_1_when_a_program_ends_soon_after_its_start() -> TestResult {
    for script in ["exit 3", "sleep 0.3; exit 3"] {
        let site = format!(
            "resources: {{it: {{type: process, config: {{command: [sh, -c, '{script}']}}}}}}\n"
        );
        let machine = Machine::new(&site)?;

        let ran = machine.run(&["run", "site.yaml", "--until-settled"]).await?;

        assert_eq!(ran.code, Some(1), "{script}: {ran:?}");
        assert!(ran.stdout.contains("\n  it  degraded, "), "{script}: {ran:?}");
        assert!(ran.stdout.contains("process \"it\" ended with "), "{script}: {ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn until_settled_is_1_when_a_program_ends_that_a_notification_has_restarted() -> TestResult {
    // It runs well until its config is there, which comes when all else stands.
    let machine = Machine::new(
        r#"resources:
  wait: {type: exec, config: {command: [sleep, "2"], creates: "@/never"}}
  conf:
    type: exec
    config: {command: 'sleep 1.5; echo 1 > "@/conf"', shell: true, creates: "@/conf"}
    notify: [it]
  it: {type: process, config: {command: [sh, -c, 'test ! -e "@/conf" || { sleep 0.6; exit 3; }; exec sleep 1000']}}
"#,
    )?;

    let ran = machine.run(&["run", "site.yaml", "--until-settled"]).await?;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("\n  it    degraded, "), "{ran:?}");
    assert!(ran.stdout.contains("process \"it\" ended with exit status: 3"), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn the_log_has_the_beginning_and_the_end_of_what_a_command_floods() -> TestResult {
    let machine = Machine::new(
        "resources: {flood: {type: exec, config: {command: [/bin/sh, -c, 'seq 4000; exit 7']}}}\n",
    )?;

    let ran = machine.run(&["run", "site.yaml", "--until-settled"]).await?;

    // Of its first try.
    let said = ran.stderr.lines().filter_map(|line| line.split_once("an action said")).take(101);
    let line = |number: u32| format!(": {number}");
    let expected: Vec<_> = (1..=50)
        .map(line)
        .chain([" more; lines: 3900".to_owned()])
        .chain((3951..=4000).map(line))
        .collect();
    assert_eq!(said.map(|(_, said)| said).collect::<Vec<_>>(), expected);
    Ok(())
}

#[tokio::test]
async fn a_file_that_was_changed_or_removed_by_hand_is_repaired() -> TestResult {
    let machine = Machine::new(SITE)?;
    let agent = Agent::start(&machine).await?;
    machine.until("page", |text| text == "right").await?;

    machine.write("page", "wrong")?;
    machine.until("page", |text| text == "right").await?;
    fs::remove_file(machine.path("page"))?;
    machine.until("page", |text| text == "right").await?;

    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn what_stands_in_the_place_of_a_file_is_left_alone_and_told() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  folder: {type: file, config: {path: "@/folder", content: right}}
  link: {type: file, config: {path: "@/link", content: right}}
  well: {type: file, config: {path: "@/well", content: right}}
"#,
    )?;
    fs::create_dir(machine.path("folder"))?;
    machine.write("target", "not ours")?;
    symlink(machine.path("target"), machine.path("link"))?;
    let mut agent = Agent::start(&machine).await?;
    let mut told = vec!["folder", "link"];
    while !told.is_empty() {
        let line = agent.until_logged(&["a worker is degraded"]).await?;
        told.retain(|name| !line.contains(&format!("/agent/resources/{name}: ")));
    }
    machine.until("well", |text| text == "right").await?;

    let folder = machine.run(&["why", "resources/folder"]).await?;
    let link = machine.run(&["why", "resources/link"]).await?;
    let status = machine.run(&["report", "--exit-status"]).await?;

    let expected = "/agent/resources/folder is not up yet: \"@/folder\" is a folder and not a file; \
                    it is left as it is; next try in ";
    assert!(folder.code == Some(0) && folder.stdout.starts_with(expected), "{folder:?}");
    let expected = "/agent/resources/link is not up yet: \"@/link\" is a symlink and not a file; it \
                    is left as it is; next try in ";
    assert!(link.code == Some(0) && link.stdout.starts_with(expected), "{link:?}");
    assert_eq!(status.code, Some(1), "{status:?}");
    assert_eq!(machine.read("target").as_deref(), Some("not ours"));

    // It is mended as soon as the way is free.
    fs::remove_dir(machine.path("folder"))?;
    machine.until("folder", |text| text == "right").await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_second_agent_on_the_same_state_folder_is_75_and_names_the_first() -> TestResult {
    let machine = Machine::new(SITE)?;
    let agent = Agent::start(&machine).await?;
    machine.until("page", |text| text == "right").await?;
    let pid = agent.pid()?;

    for command in ["run", "apply"] {
        let ran = machine.run(&[command, "site.yaml"]).await?;

        let expected =
            format!("crankcase: the state folder \"@/state\" is held by process {pid}\n");
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(75), "", &*expected));
    }
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn an_interrupted_agent_ends_with_0_and_gives_its_folder_free() -> TestResult {
    let machine = Machine::new(SITE)?;
    for (asked, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM")] {
        let agent = Agent::start(&machine).await?;

        agent.signal(asked)?;
        let ran = agent.ended(&machine).await?;

        assert_eq!(ran.code, Some(0), "{ran:?}");
        let stopping = format!("/agent: stopping: {name}; who: agent\n");
        assert!(ran.stderr.contains(&stopping), "{ran:?}");
        let report = machine.run(&["report"]).await?;
        assert_eq!(report.code, Some(69), "{report:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_log_names_the_resource_of_an_item_as_the_manifest_does() -> TestResult {
    let machine = Machine::new(
        "resources:\n  home: {type: file, for_each: [ada], config: {path: '@/{{ item }}', content: x}}\n",
    )?;
    fs::create_dir(machine.path("ada"))?;

    let mut agent = Agent::start(&machine).await?;

    agent.until_logged(&["/agent/resources/home[\"ada\"]: a worker is degraded"]).await?;
    assert_eq!(agent.count_logged("home..ada"), 0, "{}", agent.seen());
    agent.clean_kill(&machine).await
}

/// Returns how many changes the log has counted and not told.
fn counted(agent: &Agent) -> usize {
    let log = agent.seen();
    let counts = log.lines().filter_map(|line| line.split_once("more were changed; resources: "));
    counts.filter_map(|(_, count)| count.parse::<usize>().ok()).sum()
}

#[tokio::test]
async fn many_changes_at_once_are_each_logged_or_counted() -> TestResult {
    let files: String = (0..150)
        .map(|number| {
            format!("  n{number}: {{type: file, config: {{path: '@/n{number}', content: x}}}}\n")
        })
        .collect();
    let machine = Machine::new(&format!("resources:\n{files}"))?;

    let mut agent = Agent::start(&machine).await?;
    // A slow machine may need more than a second for them, and so more than one summary or none.
    agent.until_logged(&["the site is settled"]).await?;
    while agent.count_logged(": changed: ") + counted(&agent) < 150 {
        agent.until_logged(&["more were changed"]).await?;
    }
    let (told, counted) = (agent.count_logged(": changed: "), counted(&agent));
    agent.clean_kill(&machine).await?;

    assert_eq!(told + counted, 150);
    assert!(told >= 100, "{told}");
    let history = machine.run(&["history"]).await?;
    assert!(history.stdout.contains("done: 150 changed  (site.yaml)\n"), "{history:?}");
    Ok(())
}
