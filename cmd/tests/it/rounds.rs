//! The rounds of an apply, each of which makes facts known to the next one.

use serde_json::Value;

use crate::machine::Machine;
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
