//! Facts that are wrong for resources: only these resources are degraded.

use std::os::unix::fs::PermissionsExt;

use crate::agent::Agent;
use crate::facts::facts;
use crate::machine::Machine;
use crate::world::{Error, TestResult};

const SITE: &str = r#"vars: {listen: "port {{ port }}", port: "{{ facts.port + 0 }}"}
resources:
  door: {type: file, config: {path: "@/door", content: "open\n", mode: "{{ facts.mode }}"}}
  conf: {type: file, config: {path: "@/conf", content: "{{ listen }}\n"}}
  limits: {type: file, config: {path: "@/limits", template: limits.j2}}
  motd: {type: file, notify: [door], config: {path: "@/motd", content: "{{ facts.motd }}\n"}}
  sign: {type: file, dependencies: [door], config: {path: "@/sign", content: "{{ facts.motd }}\n"}}
  slow: {type: file, meta: {poll: "{{ facts.poll }}"}, config: {path: "@/slow", content: "slow\n"}}
  home:
    type: file
    for_each: "{{ facts.users }}"
    config: {path: "@/{{ item }}", content: "of {{ item }}\n"}
"#;

const FACTS: &str = "version: 1\nfacts: {mode: '0600', port: 80, limit: 7, motd: hello, poll: 1h, users: [ada, brian]}\n";

/// Files that are removed when they leave the site.
const REVERSED: &str = r#"  back:
    type: file
    for_each: "{{ facts.users }}"
    meta: {reverse: true}
    config: {path: "@/back-{{ item }}", content: "of {{ item }}\n"}
"#;

async fn machine() -> Result<Machine, Error> {
    machine_with("").await
}

/// Returns a machine with the site and more resources.
async fn machine_with(more: &str) -> Result<Machine, Error> {
    let machine = Machine::new(&format!("{SITE}{more}"))?;
    machine.write("limits.j2", "at most {{ facts.limit + 1 }}\n")?;
    machine.write("facts.yaml", FACTS)?;
    facts(&machine, &["load", "facts.yaml"]).await?;
    Ok(machine)
}

/// Wrong facts: the path, the value, the resource that uses the fact, and a part of the message about it.
const WRONG: [(&str, &str, &str, &str); 5] = [
    ("/mode", "banana", "door", "is not a mode"),
    ("/limit", "[]", "limits", "limits.j2:1:"),
    ("/port", "[]", "conf", "variable \"port\" is wrong"),
    ("/poll", "banana", "slow", "is not a duration"),
    ("/users", "5", "home", "\"for_each\" is a list of texts or a map, not a number"),
];

/// Files whose configs use facts, and their contents.
const KEPT: [(&str, &str); 3] = [("door", "open\n"), ("conf", "port 80\n"), ("slow", "slow\n")];

#[tokio::test]
async fn a_wrong_fact_degrades_what_uses_it_and_nothing_else() -> TestResult {
    let machine = machine().await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    for (number, (fact, value, resource, said)) in WRONG.into_iter().enumerate() {
        facts(&machine, &["set", fact, value]).await?;
        agent.until_logged(&["a worker is degraded", resource, said]).await?;
        facts(&machine, &["set", "/motd", &number.to_string()]).await?;
        // One of them notifies a resource that is wrong, and one depends on it.
        for file in ["motd", "sign"] {
            machine.until(file, |text| text == format!("{number}\n")).await?;
        }
    }

    // Each resource is kept by the last facts that were right for it.
    let kept = [
        ("door", "open\n"),
        ("limits", "at most 8\n"),
        ("conf", "port 80\n"),
        ("slow", "slow\n"),
        ("ada", "of ada\n"),
    ];
    for (file, content) in kept {
        std::fs::remove_file(machine.path(file))?;
        machine.until(file, |text| text == content).await?;
    }
    let right = [
        ("/mode", "'0640'"),
        ("/limit", "8"),
        ("/port", "81"),
        ("/poll", "2h"),
        ("/users", "[ada, cyd]"),
    ];
    for (fact, value) in right {
        let set = facts(&machine, &["set", fact, value]).await?;
        assert_eq!(set.code, Some(0), "{set:?}");
    }
    machine.until("limits", |text| text == "at most 9\n").await?;
    machine.until("conf", |text| text == "port 81\n").await?;
    machine.until("cyd", |text| text == "of cyd\n").await?;
    agent.until_logged(&["released: it is not kept any more", "brian"]).await?;
    for (.., resource, _) in WRONG {
        agent.until_each_logged([&["a worker is well again", resource][..]]).await?;
    }
    let report = machine.run(&["report", "--exit-status"]).await?;
    assert_eq!(report.code, Some(0), "{report:?}");
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_fact_behind_a_variable_needs_no_load() -> TestResult {
    let machine = machine().await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    // The load at the start may take over the first change, and is logged before the second one is.
    facts(&machine, &["set", "/motd", "first"]).await?;
    machine.until("motd", |text| text == "first\n").await?;
    facts(&machine, &["set", "/port", "81"]).await?;
    agent.until_logged(&["resources are declared again"]).await?;
    let loads = agent.count_logged("the manifest was loaded again");

    machine.until("conf", |text| text == "port 81\n").await?;
    facts(&machine, &["set", "/port", "[]"]).await?;
    agent.until_logged(&["a worker is degraded", "conf", "variable \"port\" is wrong"]).await?;
    facts(&machine, &["set", "/port", "82"]).await?;
    machine.until("conf", |text| text == "port 82\n").await?;
    agent.until_logged(&["a worker is well again", "conf"]).await?;

    let loads_after = agent.count_logged("the manifest was loaded again");
    assert_eq!(loads_after, loads, "{}", agent.seen());
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn what_is_notified_while_a_fact_is_wrong_is_refreshed_once_it_is_right() -> TestResult {
    let site = r#"resources:
  page: {type: file, notify: [reload], config: {path: "@/page", content: "{{ facts.page }}\n"}}
  reload:
    type: exec
    config: {command: [/bin/sh, -c, "echo $N >> @/ran"], env: {N: "n{{ facts.n + 1 }}"}, creates: "@/site.yaml"}
"#;
    let machine = Machine::new(site)?;
    facts(&machine, &["set", "/", "{page: one, n: 1}"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    assert_eq!(machine.lines("ran", 1).await?, ["n2"]);

    facts(&machine, &["set", "/n", "[]"]).await?;
    agent.until_logged(&["a worker is degraded", "reload"]).await?;
    for page in ["two", "three"] {
        facts(&machine, &["set", "/page", page]).await?;
        machine.until("page", |text| text == format!("{page}\n")).await?;
    }
    facts(&machine, &["set", "/n", "5"]).await?;

    assert_eq!(machine.lines("ran", 2).await?, ["n2", "n6"]);
    agent.until_logged(&["a worker is well again", "reload"]).await?;
    agent.clean_kill(&machine).await?;
    assert_eq!(machine.lines("ran", 2).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn an_agent_starts_with_wrong_facts_and_keeps_all_else() -> TestResult {
    let machine = machine_with(REVERSED).await?;
    let kept = machine.run(&["apply", "site.yaml"]).await?;
    assert_eq!(kept.code, Some(0), "{kept:?}");
    for (fact, value, ..) in WRONG {
        facts(&machine, &["set", fact, value]).await?;
    }
    facts(&machine, &["set", "/motd", "new"]).await?;

    let check = machine.run(&["check", "site.yaml"]).await?;
    let mut agent = Agent::start(&machine).await?;
    machine.until("motd", |text| text == "new\n").await?;
    for (.., resource, said) in WRONG {
        agent.until_each_logged([&["a worker is degraded", resource, said][..]]).await?;
    }

    assert_eq!(check.code, Some(65), "{check:?}");
    assert_eq!(agent.count_logged("not kept any more"), 0);
    agent.clean_kill(&machine).await?;
    assert_eq!(machine.read("back-brian").as_deref(), Some("of brian\n"), "it is not put back");
    Ok(())
}

#[tokio::test]
async fn a_change_says_whom_it_degrades() -> TestResult {
    let machine = machine().await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    for (fact, value, resource, said) in WRONG {
        let before = facts(&machine, &["version"]).await?;
        let trial = facts(&machine, &["set", fact, value, "--dry-run"]).await?;
        let strict = facts(&machine, &["set", fact, value, "--strict"]).await?;
        let strict_trial = facts(&machine, &["set", fact, value, "--strict", "--dry-run"]).await?;
        let after = facts(&machine, &["version"]).await?;
        let made = facts(&machine, &["set", fact, value]).await?;

        for (ran, code) in [(&trial, 0), (&made, 0), (&strict, 65), (&strict_trial, 65)] {
            let told = format!("{}{}", ran.stdout, ran.stderr);
            let is_told = |line: &str| line.contains(resource) && line.contains(said);
            assert_eq!(ran.code, Some(code), "{told}");
            assert!(told.lines().any(is_told), "{told}");
        }
        assert!(trial.stdout.contains("would degrade"), "{}", trial.stdout);
        assert!(made.stdout.contains("  degrades"), "{}", made.stdout);
        assert_eq!(after.stdout, before.stdout);
        facts(&machine, &["restore", "1"]).await?;
    }

    let right = facts(&machine, &["set", "/motd", "new", "--strict"]).await?;
    agent.clean_kill(&machine).await?;
    let alone = facts(&machine, &["set", "/motd", "newer", "--strict"]).await?;
    assert_eq!((right.code, alone.code), (Some(0), Some(69)), "{right:?} {alone:?}");
    assert!(!right.stdout.contains("degrades"), "{}", right.stdout);
    Ok(())
}

#[tokio::test]
async fn a_fact_for_which_the_manifest_is_refused_holds_up_no_other() -> TestResult {
    let site = r#"resources:
  door: {type: "{{ facts.kind }}", config: {path: "@/door", content: "open\n"}}
  motd: {type: file, config: {path: "@/motd", content: "{{ facts.motd }}\n"}}
"#;
    let machine = Machine::new(site)?;
    facts(&machine, &["set", "/", "{kind: file, motd: hello}"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    facts(&machine, &["set", "/kind", "banana"]).await?;
    agent.until_logged(&["the new manifest is rejected", "banana"]).await?;
    facts(&machine, &["set", "/motd", "new"]).await?;
    machine.until("motd", |text| text == "new\n").await?;
    facts(&machine, &["set", "/kind", "file"]).await?;
    agent.until_logged(&["a worker is well again", "site"]).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn what_is_wrong_at_the_start_is_kept_as_it_was_when_it_was_right() -> TestResult {
    let machine = machine().await?;
    for is_agent in [false, true] {
        // It is on record whether it was applied or kept.
        if is_agent {
            let mut agent = Agent::start(&machine).await?;
            agent.until_logged(&["the site is settled"]).await?;
            agent.clean_kill(&machine).await?;
        } else {
            let applied = machine.run(&["apply", "site.yaml"]).await?;
            assert_eq!(applied.code, Some(0), "{applied:?}");
        }
        let wrong = WRONG.into_iter().filter(|wrong| KEPT.iter().any(|kept| kept.0 == wrong.2));
        for (fact, value, ..) in wrong.clone() {
            facts(&machine, &["set", fact, value]).await?;
        }
        for (file, _) in KEPT {
            std::fs::remove_file(machine.path(file))?;
        }

        let mut agent = Agent::start(&machine).await?;

        for (file, content) in KEPT {
            machine.until(file, |text| text == content).await?;
        }
        for (.., resource, said) in wrong {
            agent.until_each_logged([&["a worker is degraded", resource, said][..]]).await?;
        }
        let mode = std::fs::metadata(machine.path("door"))?.permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        for (fact, value) in [("/mode", "'0600'"), ("/port", "80"), ("/poll", "1h")] {
            facts(&machine, &["set", fact, value]).await?;
        }
        for (file, _) in KEPT {
            agent.until_each_logged([&["a worker is well again", file][..]]).await?;
        }
        agent.clean_kill(&machine).await?;
    }
    Ok(())
}
