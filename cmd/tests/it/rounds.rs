//! The rounds of an apply, and their account. A round makes facts known to the next one.

use rustix::process::Signal;
use serde_json::Value;

use crate::kept_facts::{apply, apply_with};
use crate::machine::{Machine, gone, signal};
use crate::world::TestResult;

#[tokio::test]
async fn what_a_later_round_makes_known_is_notified_of_an_earlier_one() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  conf: {type: file, config: {path: "@/conf", content: new}, notify: [home]}
  count: {type: exec, config: {command: "echo count >> @/ran", shell: true}, notify: [after]}
  home:
    type: exec
    for_each: "{{ facts.seen.users }}"
    config: {command: "echo {{ item }} >> @/ran", shell: true, creates: "@/there"}
  after:
    type: exec
    dependencies: [home]
    config: {command: "echo after >> @/ran", shell: true, creates: "@/there"}
  users: {type: fact, config: {path: /seen/users, value: [ada, brian]}}
"#,
    )?;
    machine.write("there", "")?;

    let applied = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    let ran = machine.read("ran").unwrap_or_default();
    let mut ran: Vec<_> = ran.lines().collect();
    ran.sort_unstable();
    assert_eq!(ran, ["ada", "after", "brian", "count"], "{applied:?}");
    Ok(())
}

#[tokio::test]
async fn an_apply_whose_facts_change_for_ever_names_what_it_has_left_out() -> TestResult {
    // Each load reads another turn. No turn has items.
    let machine = Machine::new(
        r#"vars: {turn: 0}
resources:
  home: {type: print, for_each: "{{ facts.seen.turns.of }}", config: {message: "{{ item }}"}}
  keep: {type: fact, config: {path: /seen/turns, value: ["{{ turn }}"]}}
  next: {type: exec, config: {command: "echo 'turn: {{ turn + 1 }}' > @/turn.yaml", shell: true}}
"#,
    )?;
    machine.write("turn.yaml", "turn: 0\n")?;

    let applied = machine.run(&["apply", "site.yaml", "--var-file", "turn.yaml"]).await?;

    assert_eq!(machine.read("turn.yaml").as_deref(), Some("turn: 10\n"), "{applied:?}");
    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert!(applied.stderr.contains("have changed ten times"), "{applied:?}");
    let left = "- home (print) was not attempted: the site was not loaded again\n";
    assert_eq!(applied.stdout.matches(left).count(), 1, "{applied:?}");
    let runs = machine.run(&["history", "--output", "json"]).await?;
    let runs: Value = serde_json::from_str(&runs.stdout)?;
    assert_eq!(runs["runs"][0]["outcome"], "failed", "{runs}");
    Ok(())
}

#[tokio::test]
async fn an_apply_that_ends_early_names_what_is_not_known_yet() -> TestResult {
    let site = r#"resources:
  home: {type: print, for_each: "{{ facts.seen.users }}", config: {message: "{{ item }}"}}
  after: {type: noop, dependencies: [home]}
  users: {type: fact, config: {path: /seen/users, value: [ada]}}
  broken: {type: exec, config: {command: ["false"]}}
"#;

    let human = apply_with(&Machine::new(site)?, &["--fail-fast"]).await?;
    let json = apply_with(&Machine::new(site)?, &["--fail-fast", "--output", "json"]).await?;

    assert_eq!((human.code, json.code), (Some(1), Some(1)), "{human:?} {json:?}");
    for said in ["home (print)", "after (noop)"] {
        let said = format!("- {said} was not attempted: another resource failed");
        assert_eq!(human.stdout.matches(&said).count(), 1, "{human:?}");
    }
    let lines: Vec<Value> =
        json.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let left = lines.iter().filter(|line| line["outcome"] == "not_attempted");
    let left: Vec<_> = left.filter_map(|line| line["name"].as_str()).collect();
    assert!(left.contains(&"home") && left.contains(&"after"), "{json:?}");
    Ok(())
}

#[tokio::test]
async fn an_interrupted_apply_names_what_is_not_known_yet() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  home: {type: print, for_each: "{{ facts.seen.users }}", config: {message: "{{ item }}"}}
  after: {type: noop, dependencies: [home]}
  users: {type: fact, config: {path: /seen/users, value: [ada]}}
  long: {type: exec, config: {command: [/bin/sh, -c, "echo $$ > @/pid; exec sleep 1000"]}}
"#,
    )?;
    let child = machine.begin(&["apply", "site.yaml"])?;
    let pid = machine.lines("pid", 1).await?.remove(0);

    signal(&child.id().ok_or("ended")?.to_string(), Signal::INT)?;
    let ran = machine.ended(child).await?;

    assert_eq!(ran.code, Some(130), "{ran:?}");
    for name in ["home (print)", "after (noop)"] {
        let said = format!("- {name} was not attempted: apply was told to stop\n");
        assert_eq!(ran.stdout.matches(&said).count(), 1, "{ran:?}");
    }
    gone(&pid).await
}

#[tokio::test]
async fn the_account_has_what_an_earlier_round_has_put_back() -> TestResult {
    let site = |users: &str, old: &str| {
        format!(
            r#"resources:
  home: {{type: file, for_each: "{{{{ facts.seen.users }}}}", config: {{path: "@/{{{{ item }}}}", content: x}}}}
  keep: {{type: fact, config: {{path: /seen/users, value: {users}}}}}
{old}"#
        )
    };
    let old = "  old: {type: file, meta: {reverse: true}, config: {path: \"@/old\", content: x}}\n";
    let machine = Machine::new(&site("[ada]", old))?;
    apply(&machine).await?;
    machine.write("site.yaml", &site("[ada, brian]", ""))?;

    let applied = apply(&machine).await?;

    assert_eq!(applied.code, Some(2), "{applied:?}");
    for said in ["~ old (file) was put back", "~ home[\"brian\"] (file) changed"] {
        assert_eq!(applied.stdout.matches(said).count(), 1, "{applied:?}");
    }
    assert_eq!(machine.read("old"), None, "{applied:?}");
    Ok(())
}

#[tokio::test]
async fn the_failure_of_a_resource_that_is_gone_in_the_next_round_is_not_forgotten() -> TestResult {
    let site = |command: &str, jobs: &str| {
        format!(
            r#"resources:
  job: {{type: exec, for_each: "{{{{ facts.seen.jobs | default([]) }}}}", config: {{command: ["{command}"]}}}}
  keep: {{type: fact, config: {{path: /seen/jobs, value: {jobs}}}}}
"#
        )
    };
    let machine = Machine::new(&site("true", "[one]"))?;
    apply(&machine).await?;
    machine.write("site.yaml", &site("false", "[]"))?;

    let applied = apply(&machine).await?;

    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert!(applied.stdout.contains("1 failed"), "{applied:?}");
    Ok(())
}

#[tokio::test]
async fn a_kept_fact_that_makes_the_manifest_wrong_fails_the_apply() -> TestResult {
    let site = r#"resources:
  page: {type: print, meta: {poll: "{{ facts.poll | default('1h') }}"}, config: {message: hello}}
  keep: {type: fact, config: {path: /poll, value: never}}
  home: {type: print, for_each: "{{ facts.seen.users }}", config: {message: "{{ item }}"}}
  users: {type: fact, config: {path: /seen/users, value: [ada]}}
"#;
    let machine = Machine::new(site)?;

    let applied = apply(&machine).await?;
    let json = apply_with(&Machine::new(site)?, &["--output", "json"]).await?;

    // The output names the changed resource. The code is not 65, because the apply has changed something.
    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert!(applied.stdout.contains("~ keep (fact) changed"), "{applied:?}");
    assert!(applied.stderr.contains("site.yaml:2:"), "{applied:?}");
    let left = "- home (print) was not attempted: the site was not loaded again\n";
    assert_eq!(applied.stdout.matches(left).count(), 1, "{applied:?}");
    // The errors of the manifest follow the lines of data.
    let mut lines = json.stdout.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
    let is_left = |line: Value| line["name"] == "home" && line["by"] == "not_loaded_again";
    assert!(lines.any(is_left), "{json:?}");
    let runs = machine.run(&["history", "--output", "json"]).await?;
    let runs: Value = serde_json::from_str(&runs.stdout)?;
    assert_eq!(runs["runs"][0]["outcome"], "failed", "{runs}");
    Ok(())
}
