//! Facts that resources of a site keep, and other resources of it use.

use std::fs;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::facts::facts;
use crate::machine::Machine;
use crate::world::{Error, Ran, TestResult};

const SITE: &str = r#"resources:
  page: {type: file, config: {path: "@/page", content: "{{ facts.seen.kernel }}\n"}}
  keep: {type: fact, config: {path: /seen/kernel, value: "{{ host.system.kernel }}"}}
"#;

/// Returns the content of the page: the kernel that runs.
fn kernel() -> Result<String, Error> {
    Ok(fs::read_to_string("/proc/sys/kernel/osrelease")?)
}

/// Applies the site. The code is 2 if something has changed.
pub(crate) async fn apply(machine: &Machine) -> Result<Ran, Error> {
    apply_with(machine, &[]).await
}

/// Applies the site with more arguments.
pub(crate) async fn apply_with(machine: &Machine, more: &[&str]) -> Result<Ran, Error> {
    let apply = ["apply", "site.yaml", "--confirm", "none", "--detailed-exitcode"];
    machine.run(&[&apply[..], more].concat()).await
}

/// Applies the site with two values of the variable `word`. Requires that one apply writes the expected page, and that
/// a second one changes nothing.
async fn page_follows_word(machine: &Machine, expected: fn(&str) -> String) -> TestResult {
    for word in ["one", "other"] {
        let var = format!("word={word}");
        let moved = apply_with(machine, &["--var", &var]).await?;
        assert_eq!(moved.code, Some(2), "{moved:?}");
        assert_eq!(machine.read("page"), Some(expected(word)));
        let again = apply_with(machine, &["--var", &var]).await?;
        assert_eq!(again.code, Some(0), "{again:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_kept_fact_is_used_on_a_fresh_machine() -> TestResult {
    let machine = Machine::new(SITE)?;

    let check = machine.run(&["check", "site.yaml"]).await?;
    assert_eq!(check.code, Some(0), "{check:?}");
    let plan = machine.run(&["plan", "site.yaml"]).await?;
    assert_eq!(plan.code, Some(0), "{plan:?}");
    assert!(plan.stdout.contains("~ page (file) would change"), "{plan:?}");
    assert!(plan.stdout.contains(&format!("+{}", kernel()?)), "{plan:?}");

    let first = apply(&machine).await?;
    assert_eq!(first.code, Some(2), "{first:?}");
    assert_eq!(machine.read("page"), Some(kernel()?));
    let second = apply(&machine).await?;
    assert_eq!(second.code, Some(0), "{second:?}");
    Ok(())
}

#[tokio::test]
async fn an_agent_keeps_a_fact_and_what_uses_it_from_its_first_start() -> TestResult {
    let machine = Machine::new(SITE)?;

    let mut agent = Agent::start(&machine).await?;

    let kernel = kernel()?;
    machine.until("page", |text| text == kernel).await?;
    agent.until_logged(&["the site is settled"]).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn an_agent_finds_the_items_of_a_kept_fact_by_itself() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  home: {type: file, for_each: "{{ facts.seen.users }}", config: {path: "@/{{ item }}", content: x}}
  users: {type: fact, config: {path: /seen/users, value: [ada]}}
"#,
    )?;

    let agent = Agent::start(&machine).await?;

    machine.until("ada", |text| text == "x").await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_plan_names_all_whose_facts_variables_wait_for() -> TestResult {
    let machine = Machine::new(
        r#"vars: {owner: "{{ facts.owner }}", mode: "{{ facts.mode }}"}
resources:
  first: {type: file, config: {path: "@/first/", mode: "0700"}}
  one: {type: fact, dependencies: [first], config: {path: /owner, value: "{{ first.state.owner }}"}}
  two: {type: fact, dependencies: [first], config: {path: /mode, value: "{{ first.state.owner }}"}}
  page: {type: file, config: {path: "@/page", content: "{{ owner }} {{ vars.mode }}"}}
"#,
    )?;

    let plan = machine.run(&["plan", "site.yaml"]).await?;

    let page = plan.stdout.lines().find(|line| line.starts_with("? page (file)"));
    let page = page.ok_or_else(|| format!("{plan:?}"))?;
    assert!(page.contains("one") && page.contains("two"), "{page}");
    Ok(())
}

#[tokio::test]
async fn a_kept_fact_that_nobody_can_foresee_is_known_after_apply() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  first: {type: file, config: {path: "@/first/", mode: "0700"}}
  keep: {type: fact, dependencies: [first], config: {path: /seen/owner, value: "{{ first.state.owner }}"}}
  page: {type: file, config: {path: "@/page", content: "{{ facts.seen.owner | default('nobody') }}\n"}}
"#,
    )?;

    let plan = machine.run(&["plan", "site.yaml"]).await?;
    let first = apply(&machine).await?;
    let second = apply(&machine).await?;

    let expected = "? page (file) may change after keep: its config is known after apply";
    assert!(plan.stdout.contains(expected), "{plan:?}");
    assert_eq!((first.code, second.code), (Some(2), Some(0)), "{first:?} {second:?}");
    let kept = facts(&machine, &["get", "/seen/owner", "--output", "json"]).await?;
    let kept: Value = serde_json::from_str(&kept.stdout)?;
    let page = format!("{}\n", kept["value"].as_str().ok_or("no owner is kept")?);
    assert_eq!(machine.read("page"), Some(page));
    Ok(())
}

#[tokio::test]
async fn a_chain_of_kept_facts_moves_in_one_apply() -> TestResult {
    let machine = Machine::new(
        r#"vars: {word: one}
resources:
  page: {type: file, config: {path: "@/page", content: "{{ facts.two }}"}}
  second: {type: fact, config: {path: /two, value: "{{ facts.one }} and two"}}
  first: {type: fact, config: {path: /one, value: "{{ word }}"}}
"#,
    )?;

    page_follows_word(&machine, |word| format!("{word} and two")).await
}

#[tokio::test]
async fn a_variable_of_a_kept_fact_moves_in_one_apply() -> TestResult {
    let machine = Machine::new(
        r#"vars: {word: one, both: "{{ kept }} and two", kept: "{{ facts.one }}"}
resources:
  page: {type: file, config: {path: "@/page", content: "{{ both }}"}}
  first: {type: fact, config: {path: /one, value: "{{ word }}"}}
"#,
    )?;

    page_follows_word(&machine, |word| format!("{word} and two")).await
}

#[tokio::test]
async fn a_template_file_uses_a_kept_fact() -> TestResult {
    let machine = Machine::new(
        r#"vars: {word: one, kept: "{{ facts.one }}"}
resources:
  page: {type: file, config: {path: "@/page", template: page.j2}}
  first: {type: fact, config: {path: /one, value: "{{ word }}"}}
"#,
    )?;
    machine.write("page.j2", "{{ facts.one }}, {{ kept }}\n")?;

    page_follows_word(&machine, |word| format!("{word}, {word}\n")).await
}

#[tokio::test]
async fn what_says_which_resources_there_are_is_known_after_apply() -> TestResult {
    let machine = Machine::new(
        r#"vars: {has_motd: "{{ facts.seen.motd }}"}
resources:
  home:
    type: file
    for_each: "{{ facts.seen.users }}"
    config: {path: "@/{{ item }}", content: "of {{ item }}\n"}
  index: {type: file, dependencies: {all: home}, config: {path: "@/index", content: "{{ all | length }}\n"}}
  motd: {type: file, when: "{{ has_motd }}", config: {path: "@/motd", content: "hello\n"}}
  users: {type: fact, config: {path: /seen/users, value: [ada, brian]}}
  welcome: {type: fact, config: {path: /seen/motd, value: true}}
"#,
    )?;

    let check = machine.run(&["check", "site.yaml"]).await?;
    let plan = machine.run(&["plan", "site.yaml"]).await?;
    let first = apply(&machine).await?;
    let second = apply(&machine).await?;

    assert_eq!((check.code, plan.code), (Some(0), Some(0)), "{check:?} {plan:?}");
    for (late, keeper) in [("home", "users"), ("motd", "welcome")] {
        let may =
            format!("? {late} (file) may change after {keeper}: its config is known after apply");
        assert!(plan.stdout.contains(&may), "{plan:?}");
    }
    assert_eq!((first.code, second.code), (Some(2), Some(0)), "{first:?} {second:?}");
    for (file, content) in [("ada", "of ada\n"), ("index", "2\n"), ("motd", "hello\n")] {
        assert_eq!(machine.read(file).as_deref(), Some(content), "{first:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_plan_says_after_whom_other_resources_may_be_declared() -> TestResult {
    let machine = Machine::new(
        r#"vars: {user: ada, users: "{{ facts.seen.users }}"}
resources:
  home: {type: file, for_each: "{{ users }}", config: {path: "@/{{ item }}", content: x}}
  users: {type: fact, config: {path: /seen/users, value: ["{{ user }}"]}}
  other: {type: fact, config: {path: /seen/other, value: "{{ user }}"}}
"#,
    )?;
    apply(&machine).await?;
    let other = ["plan", "site.yaml", "--var", "user=brian"];

    let same = machine.run(&["plan", "site.yaml"]).await?;
    let plan = machine.run(&other).await?;
    let json = machine.run(&[&other[..], &["--output", "json"]].concat()).await?;

    assert!(!same.stdout.contains("may be declared"), "{same:?}");
    let said: Vec<_> = plan.stdout.lines().filter(|it| it.contains("may be declared")).collect();
    assert_eq!(said, ["    other resources may be declared after users"], "{plan:?}");
    let json: Value = serde_json::from_str(&json.stdout)?;
    let planned = json["resources"].as_array().into_iter().flatten();
    let declaring = planned.filter(|it| it["declares_others"] == true);
    assert_eq!(declaring.map(|it| &it["name"]).collect::<Vec<_>>(), ["users"], "{json}");
    Ok(())
}

#[tokio::test]
async fn what_no_kept_fact_makes_known_is_refused_or_fails() -> TestResult {
    let site = |setting: &str, fact: &str| {
        format!(
            r#"resources:
  home: {{type: print, for_each: "{{{{ facts.seen.{fact} }}}}", config: {{message: "{{{{ item }}}}"}}}}
  users: {{type: fact, {setting}, config: {{path: /seen/users, value: [ada]}}}}
"#
        )
    };

    for (site, code, said) in [
        (site("readonly: true", "users"), 65, "facts has no"),
        (site("readonly: false", "others"), 65, "facts has no"),
        (site("readonly: false", "users.of"), 1, "home (print) failed: site.yaml:2:"),
    ] {
        let machine = Machine::new(&site)?;
        let refused = apply(&machine).await?;
        assert_eq!(refused.code, Some(code), "{refused:?}");
        let all = format!("{}{}", refused.stdout, refused.stderr);
        assert!(all.contains(said), "{refused:?}");
    }
    Ok(())
}

/// A site of a resource whose items are nowhere, although the fact that should have them is kept.
const WRONG: &str = r#"resources:
  home: {type: print, for_each: "{{ facts.seen.users.of }}", config: {message: "{{ item }}"}}
  users: {type: fact, config: {path: /seen/users, value: [ada]}}
  count: {type: exec, config: {command: "echo x >> @/ran", shell: true}}
"#;

#[tokio::test]
async fn a_plan_says_what_is_wrong_with_a_fact_that_is_kept_already() -> TestResult {
    let machine = Machine::new(WRONG)?;
    let first = machine.run(&["plan", "site.yaml"]).await?;
    apply(&machine).await?;

    let plan = machine.run(&["plan", "site.yaml"]).await?;

    assert!(first.stdout.contains("? home (print) may change after users"), "{first:?}");
    assert_eq!((first.code, plan.code), (Some(0), Some(1)), "{first:?} {plan:?}");
    assert!(plan.stdout.contains("site.yaml:2:"), "{plan:?}");
    Ok(())
}

#[tokio::test]
async fn a_command_runs_once_in_an_apply_that_changes_no_fact() -> TestResult {
    let machine = Machine::new(WRONG)?;

    for round in 1..=2 {
        let applied = apply(&machine).await?;

        assert_eq!(applied.code, Some(1), "{applied:?}");
        assert_eq!(machine.read("ran"), Some("x\n".repeat(round)));
    }
    Ok(())
}

#[tokio::test]
async fn what_has_failed_keeps_no_resource_of_a_kept_fact_away() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  home: {type: file, for_each: "{{ facts.seen.users }}", config: {path: "@/{{ item }}", content: x}}
  users: {type: fact, config: {path: /seen/users, value: [ada]}}
  broken: {type: exec, config: {command: "echo x >> @/tried; false", shell: true}}
  after: {type: exec, dependencies: [broken], config: {command: "echo x >> @/after", shell: true}}
"#,
    )?;

    let applied = apply(&machine).await?;
    let hurried = apply_with(&machine, &["--fail-fast"]).await?;

    assert_eq!((applied.code, hurried.code), (Some(1), Some(1)), "{applied:?} {hurried:?}");
    assert!(applied.stdout.contains("after (exec) was skipped because of broken"), "{applied:?}");
    assert_eq!(machine.read("ada").as_deref(), Some("x"), "{applied:?}");
    // It is tried once in each apply.
    assert_eq!(machine.read("tried").as_deref(), Some("x\nx\n"), "{applied:?}");
    assert_eq!(machine.read("after"), None, "{applied:?}");
    Ok(())
}

#[tokio::test]
async fn what_uses_a_fact_that_is_left_alone_sees_the_one_that_is_stored() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page: {type: file, config: {path: "@/page", content: "{{ facts.word }}"}}
  keep: {type: fact, meta: {noop: true}, config: {path: /word, value: new}}
"#,
    )?;
    facts(&machine, &["set", "/word", "\"old\""]).await?;

    let applied = apply(&machine).await?;

    assert!(applied.stdout.contains("= keep (fact) is not as declared"), "{applied:?}");
    assert_eq!(machine.read("page").as_deref(), Some("old"), "{applied:?}");
    Ok(())
}

#[tokio::test]
async fn resources_for_the_items_of_a_kept_fact_come_and_go_in_one_apply() -> TestResult {
    let site = |users: &str| {
        format!(
            r#"resources:
  home:
    type: file
    for_each: "{{{{ facts.seen.users | default([]) }}}}"
    config: {{path: "@/{{{{ item }}}}", content: "of {{{{ item }}}}\n"}}
  keep: {{type: fact, config: {{path: /seen/users, value: {users}}}}}
  count: {{type: exec, config: {{command: "echo x >> @/ran", shell: true}}}}
"#
        )
    };
    let machine = Machine::new(&site("[ada]"))?;
    let rounds = [
        ("[ada]", "ada", "~ keep (fact) changed", 2),
        ("[ada, brian]", "brian", "~ home[\"brian\"] (file) changed", 3),
        ("[brian]", "brian", "- home[\"ada\"] (file) was released", 2),
    ];

    for (round, (users, user, said, unchanged)) in rounds.into_iter().enumerate() {
        machine.write("site.yaml", &site(users))?;
        let moved = machine.run(&["apply", "site.yaml", "--confirm", "none"]).await?;
        assert_eq!(moved.code, Some(0), "{moved:?}");
        assert!(moved.stdout.contains(said), "{moved:?}");
        assert_eq!(machine.read(user), Some(format!("of {user}\n")));
        // A command without a guard runs once in an apply.
        assert_eq!(machine.read("ran"), Some("x\n".repeat(2 * round + 1)));
        let again = machine.run(&["apply", "site.yaml", "--confirm", "none"]).await?;
        let expected = format!("apply: 1 changed, {unchanged} unchanged\n");
        assert!(again.stdout.ends_with(&expected), "{again:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_with_a_kept_fact_is_carried_out_on_a_fresh_machine() -> TestResult {
    let machine = Machine::new(SITE)?;

    let plan = machine.run(&["plan", "site.yaml", "-o", "saved"]).await?;
    let applied = machine.run(&["apply", "saved", "--confirm", "none"]).await?;

    assert_eq!((plan.code, applied.code), (Some(0), Some(0)), "{plan:?} {applied:?}");
    assert_eq!(machine.read("page"), Some(kernel()?));
    Ok(())
}

#[tokio::test]
async fn a_layer_is_over_a_kept_fact() -> TestResult {
    let machine = Machine::new(SITE)?;
    apply(&machine).await?;
    let explained = facts(&machine, &["explain", "/seen/kernel", "--output", "json"]).await?;
    let explained: Value = serde_json::from_str(&explained.stdout)?;
    let host = explained["host"].as_str().ok_or("no host")?;
    let layers = json!({"host": {host: {"facts": {"seen": {"kernel": "other"}}}}});
    facts(&machine, &["set", "/layers", &layers.to_string()]).await?;

    let moved = apply(&machine).await?;
    let again = apply(&machine).await?;

    assert_eq!((moved.code, again.code), (Some(2), Some(0)), "{moved:?} {again:?}");
    assert_eq!(machine.read("page").as_deref(), Some("other\n"));
    Ok(())
}

#[tokio::test]
async fn a_secret_that_is_kept_as_a_fact_is_hidden_where_it_is_used() -> TestResult {
    let machine = Machine::new(
        r#"vars: {pin: {sensitive: "918273"}}
resources:
  keep: {type: fact, config: {path: /door/pin, value: "{{ pin }}"}}
  page: {type: file, config: {path: "@/page", content: "pin {{ facts.door.pin | reverse }}"}}
"#,
    )?;
    machine.write("schema.yaml", "properties: {pin: {sensitive: true}}\n")?;
    facts(&machine, &["schema", "/door", "--set", "schema.yaml"]).await?;

    let plan = machine.run(&["plan", "site.yaml", "-v", "-v"]).await?;
    let applied = machine.run(&["apply", "site.yaml", "--confirm", "none", "-v"]).await?;

    assert_eq!(machine.read("page").as_deref(), Some("pin 372819"), "{applied:?}");
    let said = format!("{plan:?}{applied:?}");
    assert!(!said.contains("918273") && !said.contains("372819"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_fact_that_depends_on_what_uses_it_is_refused_with_both_places() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page: {type: file, config: {path: "@/page", content: "{{ facts.seen.size | default(0) }}"}}
  keep: {type: fact, dependencies: [page], config: {path: /seen/size, value: "{{ page.state.size }}"}}
"#,
    )?;

    let refused = machine.run(&["check", "site.yaml"]).await?;

    assert_eq!(refused.code, Some(65), "{refused:?}");
    let expected = [
        "site.yaml:3:53: this fact depends on itself, and may change for ever: page -> keep -> page",
        "\"page\", at site.yaml:2:3, uses it; keep it at a path on which it does not depend",
    ];
    assert!(expected.iter().all(|text| refused.stderr.contains(text)), "{refused:?}");
    Ok(())
}
