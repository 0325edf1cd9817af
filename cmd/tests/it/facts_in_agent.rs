//! Facts that an agent uses.

use std::fmt::Write as _;

use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::agent::Agent;
use crate::facts::facts;
use crate::machine::{Machine, within};
use crate::world::{Error, TestResult};

const SITE: &str = r#"vars: {port: "{{ facts.web.port }}"}
resources:
  conf: {type: file, config: {path: "@/conf", content: "port {{ port }}\n"}}
  motd: {type: file, config: {path: "@/motd", template: "@/motd.j2"}}
  home:
    type: file
    for_each: "{{ facts.users }}"
    when: "{{ facts.homes }}"
    config: {path: "@/{{ item }}", content: "of {{ item }}\n"}
"#;

const FACTS: &str =
    "version: 1\nfacts: {web: {port: 80}, users: [ada, brian], homes: true, motd: hello}\n";

fn machine() -> Result<Machine, Error> {
    let machine = Machine::new(SITE)?;
    machine.write("motd.j2", "{{ facts.motd }}, {{ facts.users | length }} of you\n")?;
    machine.write("facts.yaml", FACTS)?;
    Ok(machine)
}

#[tokio::test]
async fn a_changed_fact_moves_what_uses_it() -> TestResult {
    let machine = machine()?;
    facts(&machine, &["load", "facts.yaml"]).await?;
    let mut agent = Agent::start(&machine).await?;
    machine.until("motd", |text| text == "hello, 2 of you\n").await?;
    machine.until("conf", |text| text == "port 80\n").await?;

    let set = facts(&machine, &["set", "/web/port", "81", "--reason", "why not"]).await?;
    assert_eq!(set.stdout, "version 1 -> 2: 1 change\n  ~ /web/port: 80 -> 81\n");
    machine.until("conf", |text| text == "port 81\n").await?;
    facts(&machine, &["set", "/users", "[ada, cyd, dora]"]).await?;
    machine.until("dora", |text| text == "of dora\n").await?;
    machine.until("motd", |text| text == "hello, 3 of you\n").await?;

    let log = facts(&machine, &["log", "/web", "--output", "json"]).await?;
    let log: Value = serde_json::from_str(&log.stdout)?;
    let who = log["entries"][0]["who"].as_str().unwrap_or_default().to_owned();
    assert!(who.starts_with("ada (uid "), "the agent says who asked: {who}");
    agent.until_logged(&["released: it is not kept any more"]).await?;
    agent
        .until_each_logged([
            &["conf: changed: ", "the fact /web/port has changed"][..],
            &["motd: changed: ", "the fact /users has changed"],
            &["dora", ": changed: ", "why: the fact /users has changed"],
        ])
        .await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn facts_under_which_the_manifest_is_wrong_are_shown_and_the_old_site_is_kept() -> TestResult
{
    let machine = machine()?;
    facts(&machine, &["load", "facts.yaml"]).await?;
    let mut agent = Agent::start(&machine).await?;
    machine.until("conf", |text| text == "port 80\n").await?;

    facts(&machine, &["set", "/web", "--delete"]).await?;

    agent.until_logged(&["a worker is degraded", "facts has no \"web\""]).await?;
    assert_eq!(machine.read("conf").as_deref(), Some("port 80\n"));
    facts(&machine, &["set", "/web", "{port: 90}"]).await?;
    machine.until("conf", |text| text == "port 90\n").await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn of_a_thousand_resources_on_a_thousand_facts_one_is_rendered_again() -> TestResult {
    let (mut site, mut document) =
        ("resources:\n".to_owned(), "version: 1\nfacts:\n  many:\n".to_owned());
    for index in 0..1000 {
        writeln!(
            site,
            "  r{index}: {{type: noop, config: {{value: \"{{{{ facts.many.f{index} }}}}\"}}}}"
        )?;
        writeln!(document, "    f{index}: {index}")?;
    }
    let machine = Machine::new(&site)?;
    machine.write("facts.yaml", &document)?;
    facts(&machine, &["load", "facts.yaml"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;

    facts(&machine, &["set", "/many/f7", "new"]).await?;

    agent.until_logged(&["the site is kept", "new: 0", "renewed: 1;", "differ: r7;"]).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn bootstrap_loads_the_facts_and_keeps_the_site() -> TestResult {
    let machine = machine()?;
    let bootstrap = &["bootstrap", "-f", "facts.yaml", "site.yaml"][..];
    let left = machine.run(&[bootstrap, &["--until-settled"]].concat()).await?;
    assert_eq!(left.code, Some(0), "{left:?}");
    assert!(left.stderr.contains("the facts are loaded; before: 0; version: 1"), "{left:?}");
    assert!(left.stdout.starts_with("4 resources: 4 as declared"), "{left:?}");

    let mut agent = Agent::start_with(&machine, bootstrap).await?;
    agent.until_logged(&["the site is settled"]).await?;
    assert_eq!(agent.count_logged("the facts are loaded already; version: 1"), 1);
    facts(&machine, &["set", "/motd", "hi"]).await?;
    machine.until("motd", |text| text == "hi, 2 of you\n").await?;

    let again = machine.run(bootstrap).await?;
    assert_eq!(again.code, Some(0), "what was set beside the document changes nothing: {again:?}");
    assert!(again.stderr.contains("the facts are loaded already; version: 1"), "{again:?}");
    machine.write("facts.yaml", &FACTS.replace("80", "8080"))?;
    let another = machine.run(bootstrap).await?;
    assert_eq!(another.code, Some(75), "{another:?}");
    assert!(another.stderr.contains("version 1 was loaded with other facts"), "{another:?}");
    machine
        .write("facts.yaml", &FACTS.replace("version: 1", "version: 2").replace("80", "8080"))?;
    let older = machine.run(bootstrap).await?;
    assert_eq!(older.code, Some(0), "{older:?}");
    assert!(
        older.stderr.contains("is left alone; version: 2; stored: 2; otherwise: /motd, /web/port"),
        "{older:?}"
    );
    machine
        .write("facts.yaml", &FACTS.replace("version: 1", "version: 5").replace("80", "8080"))?;
    let newer = machine.run(bootstrap).await?;
    assert_eq!(newer.code, Some(0), "{newer:?}");
    machine.until("conf", |text| text == "port 8080\n").await?;
    assert_eq!(
        machine.read("motd").as_deref(),
        Some("hi, 2 of you\n"),
        "what was set beside stays"
    );
    agent.signal(Signal::TERM)?;
    assert_eq!(agent.ended(&machine).await?.code, Some(0));
    Ok(())
}

#[tokio::test]
async fn bootstrap_with_a_document_that_is_older_than_the_facts_starts_the_agent() -> TestResult {
    let machine = machine()?;
    let newer = FACTS.replace("version: 1", "version: 7").replace("80", "90");
    machine.write("newer.yaml", &newer)?;
    facts(&machine, &["load", "newer.yaml"]).await?;

    let mut agent =
        Agent::start_with(&machine, &["bootstrap", "-f", "facts.yaml", "site.yaml"]).await?;

    let said = ["is left alone", "version: 1; stored: 7; otherwise: /web/port"];
    agent.until_logged(&said).await?;
    machine.until("conf", |text| text == "port 90\n").await?;
    assert_eq!(facts(&machine, &["version"]).await?.stdout, "7\n");
    agent.clean_kill(&machine).await?;
    let refused = facts(&machine, &["load", "facts.yaml"]).await?;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn an_agent_and_its_commands_need_no_store_of_facts() -> TestResult {
    let machine =
        Machine::new("resources: {page: {type: file, config: {path: '@/page', content: hi}}}\n")?;
    let file = machine.path("state/facts.db");

    let applied = machine.run(&["apply", "site.yaml", "--confirm", "none"]).await?;
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let schemas = facts(&machine, &["schema"]).await?;
    assert!(schemas.stdout.contains("/rules  by crankcase"), "{schemas:?}");
    assert!(!file.exists(), "the agent has stored something");
    let wrong = facts(&machine, &["set", "/rules", "{a: {attempts: 0}}"]).await?;
    assert_eq!(wrong.code, Some(65), "{wrong:?}");
    assert!(!file.exists(), "what is refused is not stored");

    let set = facts(&machine, &["set", "/rules", "{a: {attempts: 1}}"]).await?;
    assert_eq!(set.stdout, "version 0 -> 1: 1 change\n  + /rules: {\"a\":{\"attempts\":1}}\n");
    agent.clean_kill(&machine).await?;
    let schemas = facts(&machine, &["schema"]).await?;
    assert!(schemas.stdout.contains("/rules  by crankcase"), "{schemas:?}");
    Ok(())
}

#[tokio::test]
async fn bootstrap_stores_no_facts_for_a_site_that_cannot_be_loaded() -> TestResult {
    let machine = Machine::new(SITE)?;
    machine.write("facts.yaml", "version: 1\nfacts: {web: {prot: 80}}\n")?;
    for (site, with) in [("site.yaml", "facts.web has no \"port\""), ("-", "can be read only once")]
    {
        let facts_from = if site == "-" { "-" } else { "facts.yaml" };
        let refused = machine.run(&["bootstrap", "-f", facts_from, site]).await?;
        assert!(matches!(refused.code, Some(64 | 65)), "{refused:?}");
        assert!(refused.stderr.contains(with), "{refused:?}");
        assert!(!machine.path("state/facts.db").exists(), "nothing was stored");
    }
    Ok(())
}

#[tokio::test]
async fn a_resource_puts_its_fact_back_and_no_secret_into_it() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  seen: {type: fact, config: {path: /seen/x, value: 1}}
  told: {type: fact, dependencies: [seen], config: {path: /told, value: {pin: "{{ facts.door.pin }}"}}}
"#,
    )?;
    machine.write("schema.yaml", "properties: {pin: {sensitive: true}}\n")?;
    facts(&machine, &["set", "/door", "{pin: swordfish}"]).await?;
    facts(&machine, &["schema", "/door", "--set", "schema.yaml"]).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["/told: a secret would be shown to everybody who reads facts"]).await?;
    let got = facts(&machine, &["get", "/"]).await?;
    assert_eq!(got.stdout, "door:\n  pin: (sensitive)\nseen:\n  x: 1\n");

    facts(&machine, &["schema", "/told", "--set", "schema.yaml"]).await?;
    let mut watching = machine.begin(&["facts", "watch", "/seen/x"])?;
    let mut said = BufReader::new(watching.stderr.take().ok_or("no stderr")?).lines();
    within(said.next_line()).await??.ok_or("nothing is followed")?;
    let mut told = BufReader::new(watching.stdout.take().ok_or("no stdout")?).lines();
    facts(&machine, &["set", "/seen", "--delete", "--overwrite", "/seen"]).await?;

    let mut last = String::new();
    while !last.ends_with("own by resource seen") {
        last = within(told.next_line()).await??.ok_or("it ended")?;
    }
    watching.kill().await?;
    // What a layer of this host says is not what the resource keeps.
    let name = machine.run(&["facts", "explain", "/seen/x", "--output", "json"]).await?;
    let name: Value = serde_json::from_str(&name.stdout)?;
    let over = serde_json::json!({"host": {name["host"].as_str().unwrap_or_default(): {"facts": {"seen": {"x": 5}}}}});
    facts(&machine, &["set", "/layers", &over.to_string()]).await?;
    agent.clean_kill(&machine).await?;
    let applied = machine.run(&["apply", "site.yaml", "--confirm", "none"]).await?;
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(!applied.stdout.contains("seen (fact)"), "{applied:?}");
    Ok(())
}

#[tokio::test]
async fn a_fact_that_is_made_of_itself_is_refused() -> TestResult {
    for (value, other) in [
        ("{{ (facts.n | default(0)) + 1 }}", "{{ 1 }}"),
        ("{{ facts.m }}", "{{ facts.n }}"),
        ("{{ count }}", "{{ 1 }}"),
    ] {
        let machine = Machine::new(&format!(
            "vars: {{count: \"{{{{ facts.n | default(0) }}}}\"}}\nresources:\n  \
             n: {{type: fact, config: {{path: /n, value: \"{value}\"}}}}\n  \
             m: {{type: fact, config: {{path: /m, value: \"{other}\"}}}}\n  \
             c: {{type: print, config: {{message: \"{{{{ count }}}}\"}}}}\n"
        ))?;
        facts(&machine, &["set", "/", "{n: 1, m: 2}"]).await?;
        let refused = machine.run(&["check", "site.yaml"]).await?;
        assert_eq!(refused.code, Some(65), "{value}: {refused:?}");
        assert!(refused.stderr.contains("this fact depends on itself"), "{value}: {refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_fact_is_kept_at_a_path() -> TestResult {
    for path in ["seen/x", "/", "", "/a//b", "/a~2"] {
        let machine = Machine::new(&format!(
            "resources:\n  n: {{type: fact, config: {{path: \"{path}\", value: 1}}}}\n"
        ))?;
        let refused = machine.run(&["check", "site.yaml"]).await?;
        assert_eq!(refused.code, Some(65), "{refused:?}");
        let expected = format!("site.yaml:2:28: path: \"{path}\" is no path to a fact");
        assert!(refused.stderr.contains(&expected), "{refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn secret_facts_are_hidden_in_plans() -> TestResult {
    let machine = Machine::new(
        "resources:\n  key: {type: file, config: {path: \"@/key\", content: \"pin {{ facts.door.pin }}\"}}\n",
    )?;
    machine.write("schema.yaml", "properties: {pin: {sensitive: true}}\n")?;
    facts(&machine, &["set", "/door", "{pin: swordfish}"]).await?;
    facts(&machine, &["schema", "/door", "--set", "schema.yaml"]).await?;

    let plan = machine.run(&["plan", "site.yaml", "-v", "-v"]).await?;
    let apply = machine.run(&["apply", "site.yaml", "--confirm", "none"]).await?;

    let said = format!("{plan:?}{apply:?}");
    assert!(said.contains("(sensitive)") && !said.contains("swordfish"), "{said}");
    assert_eq!(machine.read("key").as_deref(), Some("pin swordfish"));
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_out_of_date_when_its_facts_have_changed() -> TestResult {
    let machine = machine()?;
    facts(&machine, &["load", "facts.yaml"]).await?;
    machine.run(&["plan", "site.yaml", "-o", "saved"]).await?;
    facts(&machine, &["set", "/unused", "1"]).await?;
    machine.run(&["plan", "site.yaml", "-o", "again"]).await?;
    facts(&machine, &["set", "/web/port", "81"]).await?;

    let refused = machine.run(&["apply", "saved", "--confirm", "none"]).await?;

    assert_eq!(refused.code, Some(75), "{refused:?}");
    facts(&machine, &["set", "/web/port", "80"]).await?;
    let applied = machine.run(&["apply", "saved", "--confirm", "none"]).await?;
    assert_eq!(applied.code, Some(0), "{applied:?}");
    Ok(())
}

#[tokio::test]
async fn how_resources_are_kept_is_set_by_facts_while_the_agent_runs() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page:
    type: file
    meta: {poll: "{{ facts.poll }}"}
    config: {path: "@/page", content: "{{ facts.text }}"}
"#,
    )?;
    machine.write("facts.yaml", "version: 1\nfacts: {text: one, poll: 1h}\n")?;
    let mut agent =
        Agent::start_with(&machine, &["bootstrap", "-f", "facts.yaml", "site.yaml"]).await?;
    machine.until("page", |text| text == "one").await?;

    let wrong = facts(&machine, &["set", "/agent", "{resources: {all: {noop: perhaps}}}"]).await?;
    assert_eq!(wrong.code, Some(65), "{wrong:?}");
    assert!(
        wrong.stderr.contains("/agent/resources/all/noop: the value is not of type \"boolean\""),
        "{wrong:?}"
    );
    for (wrong, with) in [
        ("{all: {backoff: {initial: 1h}}}", "the facts at /agent/resources are wrong"),
        ("{by_name: {pgae: {noop: true}}}", "there is no resource \"pgae\""),
    ] {
        let set = facts(&machine, &["set", "/agent", &format!("{{resources: {wrong}}}")]).await?;
        assert_eq!(set.code, Some(0), "{set:?}");
        agent.until_logged(&["a worker is degraded", with]).await?;
        let plan = machine.run(&["plan", "site.yaml"]).await?;
        assert!(plan.code == Some(0) && plan.stderr.contains(with), "{plan:?}");
    }
    let hands_off = "{resources: {by_name: {page: {noop: true}}}}";
    let set = facts(&machine, &["set", "/agent", hands_off]).await?;
    assert_eq!(set.code, Some(0), "{set:?}");
    agent.until_logged(&["the site is kept", "renewed: 1;"]).await?;
    facts(&machine, &["set", "/text", "two"]).await?;
    agent.until_logged(&["the site is kept", "renewed: 1;"]).await?;
    let report = machine.run(&["report"]).await?;
    assert!(report.stdout.contains("0 as declared"), "{report:?}");
    assert_eq!(machine.read("page").as_deref(), Some("one"));

    facts(&machine, &["set", "/agent/resources/by_name/page/noop", "false"]).await?;
    machine.until("page", |text| text == "two").await?;
    facts(&machine, &["set", "/poll", "2h"]).await?;
    agent.until_logged(&["the site is kept", "renewed: 1;"]).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn the_wait_after_a_failure_is_a_fact() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page: {type: exec, config: {command: "echo x >> @/tries; exit 1", shell: true}}
"#,
    )?;
    let hour = "{resources: {all: {backoff: {initial: 1h, max: 1h}}}}";
    facts(&machine, &["set", "/agent", hour]).await?;
    let agent = Agent::start(&machine).await?;
    machine.lines("tries", 1).await?;

    let soon = "{resources: {all: {backoff: {initial: 10ms, factor: 1, jitter: 0}}}}";
    facts(&machine, &["set", "/agent", soon]).await?;

    machine.lines("tries", 5).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_host_that_is_not_as_its_facts_say_is_told() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    let mut agent = Agent::start(&machine).await?;

    facts(
        &machine,
        &[
            "set",
            "/agent",
            "{host: {processors: 100000, disks: [{name: nosuch}]}}",
            "--create-parents",
        ],
    )
    .await?;

    agent
        .until_logged(&[
            "a worker is degraded",
            "/agent/host/processors is declared as 100000, and ",
            "/agent/host/disks/0: {\"name\":\"nosuch\"} is declared, and was not found",
        ])
        .await?;
    let report = machine.run(&["report", "--exit-status"]).await?;
    assert_eq!(report.code, Some(1), "{report:?}");
    assert!(report.stdout.contains("host_matches  running, degraded"), "{report:?}");
    facts(&machine, &["set", "/agent/host", "--delete"]).await?;
    let mut code = machine.run(&["report", "--exit-status"]).await?.code;
    while code != Some(0) {
        code = machine.run(&["report", "--exit-status"]).await?.code;
    }
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_resource_keeps_a_fact_that_is_the_agents_own() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page: {type: file, config: {path: "@/page", content: "hello\n"}}
  seen:
    type: fact
    dependencies: [page]
    config: {path: /seen/page, value: {size: "{{ page.state.size }}"}}
"#,
    )?;
    let plan = machine.run(&["plan", "site.yaml"]).await?;
    assert!(plan.stdout.contains("~ seen (fact) would change"), "{plan:?}");
    let applied = machine.run(&["apply", "site.yaml", "--confirm", "none"]).await?;
    assert_eq!(applied.code, Some(0), "{applied:?}");
    let got = facts(&machine, &["get", "/seen/page/size"]).await?;
    assert_eq!(got.stdout, "6\n");
    let again =
        machine.run(&["apply", "site.yaml", "--confirm", "none", "--detailed-exitcode"]).await?;
    assert_eq!(again.code, Some(0), "{again:?}");

    let explained = facts(&machine, &["explain", "/seen/page/size"]).await?;
    assert!(
        explained.stdout.contains("written by resource seen, a part of the agent"),
        "{explained:?}"
    );
    let refused = facts(&machine, &["set", "/seen/page/size", "7"]).await?;
    assert_eq!(refused.code, Some(75));
    assert_eq!(
        refused.stderr,
        "crankcase: facts of others would be overwritten: /seen/page is of resource seen; name what is to be \
         overwritten with --overwrite PATH\n"
    );
    let forced = facts(&machine, &["set", "/seen/page/size", "7", "--overwrite", "/seen"]).await?;
    assert!(
        forced.stdout.contains("overwritten: /seen/page, which resource seen had written"),
        "{forced:?}"
    );
    let failed = machine.run(&["apply", "site.yaml", "--confirm", "none"]).await?;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stdout.contains("/seen/page is of a user"), "{failed:?}");
    Ok(())
}
