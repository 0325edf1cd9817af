//! Resources that a person has parked or paused.

use std::fs;
use std::os::unix::fs::symlink;

use crankcase_resources::state::{Key, Topic};
use rustix::process::Signal;

use crate::agent::Agent;
use crate::machine::{Machine, gone, signal};
use crate::world::TestResult;

const SITE: &str = r#"resources:
  page: {type: file, config: {path: "@/page", content: right, mode: "0644"}}
  copy: {type: file, config: {path: "@/copy", content: "{{ deps.page.state.path }}"}, dependencies: [page]}
"#;

/// Requires that nothing of a topic is on record.
async fn nothing_is_on_record_of(machine: &Machine, topic: Topic) -> TestResult {
    machine
        .until_on_record("state", |store| {
            Ok(!store.load()?.documents.iter().any(|key| key.topic == topic))
        })
        .await
}

#[tokio::test]
async fn a_resource_stays_parked_under_the_next_agent_until_it_is_unparked() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let park = ["park", "resources/page", "--reason", "a quiet hour"];
    let parked = machine.run(&park).await?;
    agent.clean_kill(&machine).await?;
    fs::remove_file(machine.path("page"))?;

    let mut agent = Agent::start(&machine).await?;
    let again: &[&str] = &["/agent/resources/page", "parked", "a quiet hour"];
    agent.until_each_logged([again, &["the site is settled"]]).await?;
    let why = machine.run(&["why", "resources/page"]).await?;
    let page = machine.read("page");
    let unparked = machine.run(&["unpark", "resources/page"]).await?;
    machine.until("page", |text| text == "right").await?;
    agent.clean_kill(&machine).await?;

    assert_eq!((parked.code, unparked.code), (Some(0), Some(0)), "{parked:?} {unparked:?}");
    assert_eq!(page, None);
    assert!(why.stdout.contains("is parked (ada (uid "), "{why:?}");
    assert!(why.stdout.contains("a quiet hour"), "{why:?}");
    nothing_is_on_record_of(&machine, Topic::Park).await
}

#[tokio::test]
async fn what_is_parked_is_forgotten_when_its_manifest_has_it_no_more() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let parked = machine.run(&["park", "resources/page"]).await?;
    machine.write("site.yaml", "resources: {}\n")?;
    agent.until_logged(&["released: it"]).await?;
    fs::remove_file(machine.path("page"))?;

    machine.write("site.yaml", SITE)?;

    machine.until("page", |text| text == "right").await?;
    agent.clean_kill(&machine).await?;
    assert_eq!(parked.code, Some(0), "{parked:?}");
    nothing_is_on_record_of(&machine, Topic::Park).await
}

#[tokio::test]
async fn what_is_held_is_held_again_when_a_canary_goes_back_to_it() -> TestResult {
    let works = |program: &str| {
        format!("resources:\n  works: {{type: exec, config: {{command: [\"{program}\"]}}}}\n")
    };
    let page = "  page: {type: file, config: {path: '@/page', content: right, mode: '0644'}}\n";
    let server = "  server:\n    type: process\n    config: {keep: false, command: [/bin/sh, -c, \
                  'echo $$ >> @/pids; exec sleep 1000']}\n";
    let machine = Machine::new(&(works("true") + page + server))?;
    let mut agent = Agent::start_with(&machine, &["run", "site.yaml", "--canary", "1h"]).await?;
    agent.until_logged(&["the manifest is kept as the last good one"]).await?;
    let parked = machine.run(&["park", "resources/page", "--reason", "a quiet hour"]).await?;
    let paused = machine.run(&["pause", "resources/server", "--reason", "a look"]).await?;
    fs::remove_file(machine.path("page"))?;

    machine.write("site.yaml", &works("false"))?;
    agent.until_logged(&["released: it"]).await?;
    agent.until_logged(&["/agent/resources/works", "a worker is well again"]).await?;
    let why = machine.run(&["why", "resources/page"]).await?;
    let page = machine.read("page");
    let key = Key::new(Topic::Pause, "server");
    machine.until_on_record("state", |store| Ok(store.load()?.documents.contains(&key))).await?;
    // The program of what is paused runs with its last config.
    machine.lines("pids", 2).await?;
    let unparked = machine.run(&["unpark", "resources/page"]).await?;
    machine.until("page", |text| text == "right").await?;
    agent.clean_kill(&machine).await?;

    let codes = [&parked, &paused, &unparked].map(|ran| ran.code);
    assert_eq!(codes, [Some(0); 3], "{parked:?} {paused:?} {unparked:?}");
    assert!(why.stdout.contains("is parked (ada (uid "), "{why:?}");
    assert_eq!(page, None);
    Ok(())
}

#[tokio::test]
async fn a_paused_resource_is_left_alone_and_what_depends_on_it_goes_on() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let pause = ["pause", "resources/page", "--reason", "a look"];
    let paused = machine.run(&pause).await?;
    let said: &[&str] = &["/agent/resources/page", "a worker is degraded", "a look"];
    agent.until_logged(said).await?;
    machine.write("page", "wrong")?;
    // The copy is repaired after its dependency.
    machine.write("copy", "wrong")?;
    machine.until("copy", |text| text.ends_with("/page")).await?;
    let page = machine.read("page");
    agent.clean_kill(&machine).await?;
    fs::remove_file(machine.path("copy"))?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(said).await?;
    machine.until("copy", |text| text.ends_with("/page")).await?;
    let (report, why) =
        (machine.run(&["report"]).await?, machine.run(&["why", "resources/page"]).await?);
    let later = machine.read("page");
    let resumed = machine.run(&["resume", "resources/page"]).await?;
    machine.until("page", |text| text == "right").await?;
    agent.clean_kill(&machine).await?;

    assert_eq!((paused.code, resumed.code), (Some(0), Some(0)), "{paused:?} {resumed:?}");
    assert_eq!((page.as_deref(), later.as_deref()), (Some("wrong"), Some("wrong")));
    assert!(report.stdout.contains("paused, ada (uid "), "{report:?}");
    assert!(why.stdout.contains("is paused: ada (uid "), "{why:?}");
    nothing_is_on_record_of(&machine, Topic::Pause).await
}

#[tokio::test]
async fn the_program_of_a_paused_resource_runs_on_and_is_started_again_as_it_ran() -> TestResult {
    let site = |name: &str| {
        format!(
            "resources:\n  server:\n    type: process\n    config: {{keep: false, command: \
             [/bin/sh, -c, 'echo {name} $$ >> @/pids; exec sleep 1000']}}\n"
        )
    };
    let machine = Machine::new(&site("one"))?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let first = machine.lines("pids", 1).await?.remove(0);
    let paused = machine.run(&["pause", "resources/server", "--reason", "a look"]).await?;
    agent.until_logged(&["a worker is degraded", "a look"]).await?;
    machine.write("site.yaml", &site("two"))?;
    agent.until_logged(&["the site is kept", "renewed: 1"]).await?;

    signal(first.strip_prefix("one ").ok_or("no pid")?, Signal::KILL)?;
    machine.lines("pids", 2).await?;
    agent.clean_kill(&machine).await?;
    let agent = Agent::start(&machine).await?;
    machine.lines("pids", 3).await?;
    let resumed = machine.run(&["resume", "resources/server"]).await?;
    let lines = machine.lines("pids", 4).await?;
    agent.clean_kill(&machine).await?;

    assert_eq!((paused.code, resumed.code), (Some(0), Some(0)), "{paused:?} {resumed:?}");
    let names = lines.iter().filter_map(|line| line.split_once(' ')).map(|(name, _)| name);
    assert_eq!(names.collect::<Vec<_>>(), ["one", "one", "one", "two"]);
    Ok(())
}

#[tokio::test]
async fn a_paused_program_that_is_not_ready_yet_ends_with_its_worker() -> TestResult {
    let machine = Machine::new(
        "resources:\n  server:\n    type: process\n    config: {keep: false, command: [/bin/sh, -c, 'echo $$ >> \
         @/pids; test -e @/slow || echo up; exec sleep 1000'], ready: {line: up}}\n",
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let paused = machine.run(&["pause", "resources/server"]).await?;
    agent.clean_kill(&machine).await?;
    machine.write("slow", "")?;
    let agent = Agent::start(&machine).await?;
    machine.lines("pids", 2).await?;

    agent.signal(Signal::TERM)?;
    let ran = agent.ended(&machine).await?;

    assert_eq!((paused.code, ran.code), (Some(0), Some(0)), "{paused:?} {ran:?}");
    assert!(ran.stderr.contains("; why: its worker was told to stop\n"), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn a_program_that_is_waited_for_is_paused_and_resumed_while_it_runs_on() -> TestResult {
    let machine = Machine::new(
        "resources:\n  server:\n    type: process\n    config: {keep: false, command: [/bin/sh, -c, 'echo $$ >> \
         @/pids; exec sleep 1000'], ready: {file: '@/up'}, ready_timeout: 24h}\n  after: {type: file, \
         dependencies: [server], config: {path: '@/after', content: right}}\n",
    )?;
    let mut agent = Agent::start(&machine).await?;
    machine.lines("pids", 1).await?;

    let paused = machine.run(&["pause", "resources/server", "--reason", "a look"]).await?;
    agent.until_logged(&["/agent/resources/server", "a worker is degraded", "a look"]).await?;
    let resumed = machine.run(&["resume", "resources/server"]).await?;
    machine.write("up", "")?;
    machine.until("after", |text| text == "right").await?;

    let pids = machine.lines("pids", 1).await?;
    agent.clean_kill(&machine).await?;
    assert_eq!((paused.code, resumed.code), (Some(0), Some(0)), "{paused:?} {resumed:?}");
    assert_eq!(pids.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_program_that_is_held_back_from_its_new_config_is_bounced_by_force_alone() -> TestResult {
    let site = |name: &str| {
        format!(
            "resources:\n  conf: {{type: file, config: {{path: '@/conf', content: x}}}}\n  \
             server:\n    type: process\n    dependencies: [conf]\n    \
             config: {{keep: false, command: [/bin/sh, -c, 'echo {name} $$ >> @/pids; exec sleep 1000']}}\n"
        )
    };
    let machine = Machine::new(&site("one"))?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let first = machine.lines("pids", 1).await?.remove(0);
    symlink("nowhere", machine.path("link"))?;
    fs::rename(machine.path("link"), machine.path("conf"))?;
    agent.until_logged(&["/agent/resources/conf: a worker is degraded"]).await?;
    machine.write("site.yaml", &site("two"))?;
    agent.until_logged(&["/agent/resources/server: a worker is degraded", "held back by"]).await?;

    let refused = machine.run(&["bounce", "resources/server"]).await?;
    let forced = machine.run(&["bounce", "resources/server", "--force"]).await?;
    gone(first.strip_prefix("one ").ok_or("no pid")?).await?;
    let while_held = machine.lines("pids", 1).await?;
    fs::remove_file(machine.path("conf"))?;
    let lines = machine.lines("pids", 2).await?;
    agent.clean_kill(&machine).await?;

    assert_eq!(refused.code, Some(75), "{refused:?}");
    assert!(refused.stderr.contains("it cannot start, so nothing was changed: "), "{refused:?}");
    assert_eq!((forced.code, &*forced.stdout), (Some(0), "bounced /agent/resources/server\n"));
    assert_eq!(while_held, [first]);
    assert!(lines[1].starts_with("two "), "{lines:?}");
    Ok(())
}

#[tokio::test]
async fn only_a_resource_can_be_paused() -> TestResult {
    let machine = Machine::new(SITE)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    let part = machine.run(&["pause", "site"]).await?;
    let unknown = machine.run(&["pause", "resources/pages"]).await?;

    agent.clean_kill(&machine).await?;
    assert_eq!(part.code, Some(75), "{part:?}");
    assert!(part.stderr.contains("only a resource can be paused"), "{part:?}");
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    Ok(())
}
