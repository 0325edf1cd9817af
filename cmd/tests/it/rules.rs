//! Rules: what is done when something has changed.

use crankcase_resources::state::{Key, Store, StoreError, Topic};
use rustix::process::Signal;
use serde_json::Value;

use crate::agent::Agent;
use crate::external::program;
use crate::facts::facts;
use crate::machine::{Machine, within};
use crate::world::{Error, TestResult};

async fn get(machine: &Machine, path: &str) -> Result<String, Error> {
    Ok(facts(machine, &["get", path]).await?.stdout)
}

/// Returns what the agent says of its rules.
async fn tallies(machine: &Machine) -> Result<Value, Error> {
    let report = machine.run(&["report", "rules", "--output", "json"]).await?;
    let report: Value = serde_json::from_str(&report.stdout)?;
    Ok(report["worker"]["report"].clone())
}

#[tokio::test]
async fn a_changed_fact_sets_another_and_runs_a_command() -> TestResult {
    let machine = Machine::new(
        r#"resources: {}
rules:
  double:
    on: {fact: /web/port}
    match: "{{ item.value is not none and item.value > 100 }}"
    do:
      - set: {path: /seen/double, value: "{{ item.value * 2 }}"}
      - run: [/bin/sh, -c, "cat >> @/causes; echo >> @/causes", "{{ item.of }}"]
"#,
    )?;
    facts(&machine, &["set", "/web", "{port: 200}"]).await?;
    let mut agent = Agent::start(&machine).await?;
    machine.lines("causes", 1).await?;
    agent.until_logged(&["a rule has fired", "rule: double", "/web/port has changed"]).await?;
    assert_eq!(get(&machine, "/seen/double").await?, "400\n");

    facts(&machine, &["set", "/web/port", "50"]).await?;
    facts(&machine, &["set", "/web/port", "300"]).await?;
    let causes = machine.lines("causes", 2).await?;

    let cause: Value = serde_json::from_str(&causes[1])?;
    assert_eq!((&cause["rule"], &cause["of"]), (&"double".into(), &"/web/port".into()));
    assert_eq!(cause["value"], 300);
    agent.until_logged(&["a rule has fired"]).await?;
    assert_eq!(get(&machine, "/seen/double").await?, "600\n");
    let explained = facts(&machine, &["explain", "/seen/double"]).await?;
    assert!(
        explained.stdout.contains("written by rule double, a part of the agent"),
        "{explained:?}"
    );
    agent.clean_kill(&machine).await?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    agent.clean_kill(&machine).await?;
    assert_eq!(machine.lines("causes", 2).await?.len(), 2, "what was handled is not handled again");
    Ok(())
}

#[tokio::test]
async fn what_happens_to_a_resource_and_its_state_are_causes_too() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page: {type: file, config: {path: "@/page", content: one}}
  told:
    type: exec
    config: {command: "echo told >> @/told", shell: true, creates: "@/told"}
rules:
  mended:
    on: {event: repaired, resource: page}
    do: [{run: [/bin/sh, -c, "echo $0 >> @/mended", "{{ item.happened.resource }}"]}]
  grown:
    on: {state: page}
    match: "{{ item.value.size > 3 }}"
    do: [{notify: told}]
"#,
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    machine.lines("told", 1).await?;

    machine.write("page", "otherwise")?;
    assert_eq!(machine.lines("mended", 1).await?, ["page"]);
    let site = std::fs::read_to_string(machine.path("site.yaml"))?;
    std::fs::write(machine.path("site.yaml"), site.replace("content: one", "content: larger"))?;
    machine.lines("told", 2).await?;

    agent.until_logged(&["a rule has fired", "rule: grown", "page has changed"]).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn what_fails_is_tried_again_then_given_up_and_shown_until_it_goes_well() -> TestResult {
    let machine = Machine::new(
        r#"resources: {}
rules:
  picky:
    on: {fact: /text}
    attempts: 2
    do: [{run: [/bin/sh, -c, "echo $0 >> @/tries; test $0 != bad || { echo no good >&2; exit 3; }", "{{ item.value }}"]}]
"#,
    )?;
    facts(&machine, &["set", "/text", "bad"]).await?;
    let mut agent = Agent::start(&machine).await?;

    agent.until_logged(&["a rule has failed, and is tried again", "attempt: 1"]).await?;
    agent.until_logged(&["a rule has failed, and gives up", "exited with code 3: no good"]).await?;
    agent
        .until_logged(&[
            "a worker is degraded",
            "rule picky has given up after 2 attempts: /text has changed",
        ])
        .await?;
    assert_eq!(machine.lines("tries", 2).await?, ["bad", "bad"]);
    agent.clean_kill(&machine).await?;

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["a worker is degraded", "rule picky has given up"]).await?;
    assert_eq!(tallies(&machine).await?["picky"]["given_up"][0][0], "/text has changed");
    facts(&machine, &["set", "/text", "good"]).await?;
    agent.until_logged(&["a rule has fired", "rule: picky"]).await?;
    assert_eq!(machine.lines("tries", 3).await?, ["bad", "bad", "good"]);
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn what_was_not_handled_when_the_agent_was_killed_is_handled_by_the_next() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page: {type: file, config: {path: "@/page", content: one}}
rules:
  slow:
    on: {event: repaired}
    do: [{run: [/bin/sh, -c, "echo begun >> @/begun; test -e @/go && echo done >> @/done || sleep 1000"]}]
"#,
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    machine.write("page", "otherwise")?;
    machine.lines("begun", 1).await?;
    agent.dirty_kill().await?;
    machine.write("go", "")?;

    let agent = Agent::start(&machine).await?;

    assert_eq!(machine.lines("done", 1).await?, ["done"]);
    assert_eq!(machine.lines("begun", 2).await?.len(), 2);
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_rule_is_switched_and_tuned_by_facts() -> TestResult {
    let machine = Machine::new(
        r#"resources: {}
rules:
  log:
    on: {fact: /text}
    enabled: false
    do: [{run: [/bin/sh, -c, "echo $0 >> @/log", "{{ item.value }} {{ facts.rules.log.mark | default('-') }}"]}]
"#,
    )?;
    facts(&machine, &["set", "/text", "one"]).await?;
    let agent = Agent::start(&machine).await?;
    let wrong = facts(&machine, &["set", "/rules", "{log: {enabled: perhaps}}"]).await?;
    assert_eq!(wrong.code, Some(65), "{wrong:?}");

    facts(&machine, &["set", "/rules", "{log: {enabled: true, debounce: 10ms, mark: x}}"]).await?;
    assert_eq!(
        machine.lines("log", 1).await?,
        ["one x"],
        "the rule and its facts are of one moment"
    );
    facts(&machine, &["set", "/rules/log/enabled", "false"]).await?;
    facts(&machine, &["set", "/text", "two"]).await?;
    facts(&machine, &["set", "/text", "three"]).await?;
    facts(&machine, &["set", "/rules/log/enabled", "true"]).await?;

    let log = machine.lines("log", 2).await?;
    assert_eq!((log.len(), log[1].as_str()), (2, "three x"));
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_rule_tells_nobody_a_secret_that_has_just_changed() -> TestResult {
    let machine = Machine::new(
        r#"resources: {}
rules:
  copy:
    on: {fact: /door/pin}
    attempts: 1
    do: [{set: {path: /copy, value: "{{ item.value }}"}}]
  shout:
    on: {fact: /door/pin}
    attempts: 1
    do: [{run: [/bin/echo, "{{ item.value }}"]}]
  fail:
    on: {fact: /door/pin}
    attempts: 1
    do: [{run: [/bin/sh, -c, "cat >&2; exit 3"]}]
"#,
    )?;
    machine.write("schema.yaml", "properties: {pin: {sensitive: true}}\n")?;
    let registered = facts(&machine, &["schema", "/door", "--set", "schema.yaml"]).await?;
    assert_eq!(registered.code, Some(0), "{registered:?}");
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    let set = facts(&machine, &["set", "/door", "{pin: hunter2hunter2}"]).await?;
    assert_eq!(set.code, Some(0), "{set:?}");

    agent.until_logged(&["a worker is degraded", "rule copy", "rule fail", "rule shout"]).await?;
    let copied = facts(&machine, &["get", "/copy"]).await?;
    assert_eq!(copied.code, Some(1), "{copied:?}");
    let report = machine.run(&["report", "rules", "--output", "json"]).await?;
    assert!(!report.stdout.contains("hunter2"), "{report:?}");
    agent.signal(Signal::TERM)?;
    let log = agent.whole_log().await?;
    assert!(log.contains("seen by others") && !log.contains("hunter2"), "{log}");
    Ok(())
}

/// A type whose state has a secret, which stands in a file.
const VAULT: &str = r#"#!/bin/sh
cat > /dev/null
case ${1-init} in
init) echo '{"protocol": 1, "sensitive": {"state": ["/password"]}, "calls": {"check": {"args": ["check"]}}}' ;;
check) printf '{"status": "VALID", "state": {"password": "%s"}}\n' "$(cat @/password)" ;;
esac
"#;

#[tokio::test]
async fn a_rule_tells_nobody_a_secret_of_a_state_or_of_the_state_before() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  vault: {type: "program:./vault"}
rules:
  loud:
    on: {state: vault}
    attempts: 1
    do: [{run: [/bin/sh, -c, "echo $0 >> @/ran", "{{ item.value.password | upper }}"]}]
  old:
    on: {state: vault}
    attempts: 1
    do: [{run: [/bin/sh, -c, "echo $0 >> @/ran", "{{ item.before.password | upper if item.before is not none else 'first' }}"]}]
"#,
    )?;
    program(&machine, "vault", VAULT)?;
    machine.write("password", "Sesame-Open-77")?;
    let refused = |rule| ["gives up", rule, "seen by others"];
    let mut agent = Agent::start(&machine).await?;
    let fired = ["a rule has fired", "rule: old"];
    agent.until_each_logged([&refused("rule: loud")[..], &fired]).await?;
    agent.clean_kill(&machine).await?;

    // The agent that knew the secret before is gone.
    machine.write("password", "Other-Word-88")?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_each_logged([&refused("rule: loud")[..], &refused("rule: old")]).await?;

    agent.signal(Signal::TERM)?;
    let log = agent.whole_log().await?.to_lowercase();
    assert!(!log.contains("sesame") && !log.contains("other-word"), "{log}");
    assert_eq!(machine.read("ran").as_deref(), Some("first\n"));
    Ok(())
}

#[tokio::test]
async fn a_cause_that_kills_the_agent_is_given_up() -> TestResult {
    let machine = Machine::new(
        r#"resources: {}
rules:
  fatal:
    on: {fact: /text}
    attempts: 2
    do: [{run: [/bin/sh, -c, "echo tried >> @/tries; exec sleep 1000"]}]
"#,
    )?;
    facts(&machine, &["set", "/text", "bad"]).await?;
    for attempts in 1..=2 {
        let agent = Agent::start(&machine).await?;
        machine.lines("tries", attempts).await?;
        agent.dirty_kill().await?;
    }

    let mut agent = Agent::start(&machine).await?;

    agent.until_logged(&["gives up", "rule: fatal", "no attempt is left"]).await?;
    agent.clean_kill(&machine).await?;
    assert_eq!(machine.lines("tries", 2).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_notification_by_a_rule_outlives_the_agent() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  build:
    type: exec
    config:
      command: [/bin/sh, -c, "echo begun >> @/begun; test -e @/go && echo done >> @/done || sleep 1000"]
      creates: "@/site.yaml"
rules:
  renew:
    on: {fact: /text}
    do: [{notify: build}]
"#,
    )?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    facts(&machine, &["set", "/text", "new"]).await?;
    agent.until_logged(&["a rule has fired"]).await?;
    machine.lines("begun", 1).await?;
    agent.dirty_kill().await?;
    machine.write("go", "")?;

    let agent = Agent::start(&machine).await?;

    assert_eq!(machine.lines("done", 1).await?, ["done"]);
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn an_event_survives_a_kill_between_the_change_and_the_record_of_its_rule() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  made:
    type: exec
    config: {command: "touch @/made; kill -9 $(cat @/state/lock)", shell: true, creates: "@/made"}
rules:
  told:
    on: {event: changed, resource: made}
    do: [{run: [/bin/sh, -c, "echo $0 >> @/told", "{{ item.happened.resource }}"]}]
"#,
    )?;
    let mut child = machine.begin(&["run", "site.yaml"])?;
    within(child.wait()).await??;
    assert!(machine.path("made").exists());

    let agent = Agent::start(&machine).await?;

    assert_eq!(machine.lines("told", 1).await?, ["made"]);
    // Before that is on record, another agent would tell it again.
    let has_fired = |store: &dyn Store| -> Result<bool, StoreError> {
        let told = store.document(&Key::new(Topic::Rule, "told"))?;
        Ok(told.is_some_and(|told| told.as_str().contains(r#""fired":1"#)))
    };
    machine.until_on_record("state", has_fired).await?;
    agent.clean_kill(&machine).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    agent.clean_kill(&machine).await?;
    assert_eq!(machine.lines("told", 1).await?, ["made"], "it is told once");
    Ok(())
}
