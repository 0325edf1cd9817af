//! The rounds of an apply, each of which makes facts known to the next one.

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
