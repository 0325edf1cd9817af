//! Texts from elsewhere that are made to mislead: none reaches a terminal as it is, by any command.

use std::collections::BTreeSet;

use crankcase_workers::is_unprintable;
use rustix::process::Signal;

use crate::agent::Agent;
use crate::external::program;
use crate::facts::facts;
use crate::machine::Machine;
use crate::world::{Error, Ran, TestResult};

/// Clears a screen, in two ways, turns the text after it, and hides. As YAML and JSON escape it.
const HOSTILE: &str = r"h\u001b[2Jo\u009b2Js\u202et\u2066i\ufeffl\u200be\u0007";

/// The hostile text is put in the place of each `HOST`, here and below.
const SITE: &str = r#"vars: {text: "HOST"}
resources:
  page: {type: file, config: {path: "@/HOST", content: "HOST\n"}, notify: [said]}
  said: {type: exec, config: {command: [printf, "%s\n", "HOST"], unless: ["false"]}}
  each: {type: file, for_each: ["HOST"], config: {path: "@/each", content: "{{ facts['HOST'] }} {{ item }}"}}
  fails: {type: exec, config: {command: [sh, -c, "echo HOST >&2; exit 3"], unless: ["false"]}}
  it: {type: "program:./it", config: {key: "HOST"}}
"#;

const WRONG: &str = r#"resources:
  "HOST": {type: "HOST", config: {"HOST": "{{ HOST }}"}}
  page: {type: file, config: {path: "@/page", content: x, "HOST": x, mode: "HOST"}}
"#;

const TYPE: &str = r#"#!/bin/sh
cat > /dev/null
case ${1-init} in
init) printf '%s' '{"protocol": 1, "summary": "HOST", "calls": {"check": {"args": ["check"]}}}' ;;
check) printf '%s' '{"status": "STALE", "planned": {"HOST": "HOST"}, "warnings": ["HOST"],
  "differences": [{"attribute": "HOST", "old": "HOST", "new": "HOST"}],
  "actions": [{"name": "write", "description": "HOST", "args": ["HOST"], "changes": ["HOST"]}]}' ;;
*) printf 'h\033[2Jo\302\2332Js\342\200\256t\n' >&2; exit 1 ;;
esac
"#;

/// The commands, each with ways to have it print what comes from elsewhere.
const COMMANDS: &[(&str, &[&[&str]])] = &[
    ("check", &[&["site.yaml"], &["wrong.yaml"]]),
    ("plan", &[&["site.yaml"], &["wrong.yaml"]]),
    ("apply", &[&["site.yaml"], &["wrong.yaml"]]),
    (
        "report",
        &[
            &[],
            &["--all"],
            &["--counts"],
            &["/agent/resources/page"],
            &["/agent/resources/fails"],
            &["/agent/resources/it"],
            &["/HOST"],
        ],
    ),
    ("why", &[&["/agent/resources/fails"], &["/agent/resources/it"], &["/HOST"]]),
    ("boot", &[&[], &["blame"]]),
    ("types", &[&[], &["file"], &["HOST"], &["test", "HOST", "--config", "HOST"]]),
    (
        "graph",
        &[
            &["site.yaml"],
            &["--live"],
            &["--format", "dot", "--live"],
            &["--format", "mermaid", "--live"],
            &["--format", "svg", "--live"],
        ],
    ),
    ("history", &[&[], &["1"], &["page"], &["fails"], &["it"]]),
    (
        "facts",
        &[
            &["get", "/"],
            &["get", "/HOST"],
            &["get", "/HOST/HOST"],
            &["log"],
            &["explain", "/HOST"],
            &["set", "/HOST", "HOST", "--reason", "HOST"],
            &["set", "/none/HOST", "HOST"],
            &["diff", "1"],
            &["version"],
            &["restore", "1", "--dry-run"],
            &["push", "wrong.yaml"],
            &["load", "HOST"],
            &["schema", "/HOST"],
        ],
    ),
    ("bounce", &[&["/agent/resources/page", "--reason", "HOST"], &["/HOST"]]),
    ("park", &[&["/agent/resources/page", "--reason", "HOST"], &["/HOST"]]),
    ("unpark", &[&["/agent/resources/page", "--reason", "HOST"], &["/HOST"]]),
];

/// Wrong command lines.
const USAGES: &[&[&str]] =
    &[&["HOST"], &["plan", "--HOST"], &["facts", "get", "HOST"], &["report", "--state", "HOST"]];

/// `run` is tried as the agent, and so `bootstrap` is; `mcp` speaks with programs alone; `page`, `events` and
/// `top` print until they are told to end, by what the others print with or what their own tests try.
const OTHERS: [&str; 7] = ["run", "bootstrap", "mcp", "page", "events", "top", "help"];

fn is_printable(ran: &Ran, arguments: &[&str]) {
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let hides = |it: char| is_unprintable(it) && !matches!(it, '\n' | '\t');
    let found = said.lines().find(|line| line.contains(hides));
    assert_eq!(found.map(str::escape_debug).map(|it| it.to_string()), None, "{arguments:?}");
}

/// Runs a command and returns all that it has said.
async fn tried(machine: &Machine, arguments: &[&str], text: &str) -> Result<String, Error> {
    let arguments: Vec<String> = arguments.iter().map(|it| it.replace("HOST", text)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ran = machine.run(&arguments).await?;
    is_printable(&ran, &arguments);
    Ok(ran.stdout + &ran.stderr)
}

#[tokio::test]
async fn nothing_from_elsewhere_reaches_a_terminal_as_it_is() -> TestResult {
    let machine = Machine::new(&SITE.replace("HOST", HOSTILE))?;
    machine.write("wrong.yaml", &WRONG.replace("HOST", HOSTILE))?;
    program(&machine, "it", &TYPE.replace("HOST", HOSTILE))?;
    let text: String = serde_json::from_str(&format!("\"{HOSTILE}\""))?;
    facts(&machine, &["set", &format!("/{text}"), &text, "--text"]).await?;
    let applied = machine.run(&["apply", "site.yaml"]).await?;
    assert!(applied.stdout.contains(r"\u001b"), "{}", applied.stdout);
    is_printable(&applied, &["apply"]);
    let help = machine.run(&["--help"]).await?.stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let listed: BTreeSet<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(
        COMMANDS.iter().map(|(name, _)| *name).chain(OTHERS).collect::<BTreeSet<_>>(),
        listed
    );

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["a worker is degraded", "fails"]).await?;
    for (command, ways) in COMMANDS {
        let mut said = String::new();
        for way in *ways {
            for output in ["human", "json", "yaml"] {
                let way = [&[*command], *way, &["--output", output]].concat();
                said.push_str(&tried(&machine, &way, &text).await?);
            }
        }
        assert!(["u{1b}", "u001b"].iter().any(|it| said.contains(it)), "{command} shows nothing");
    }
    for usage in USAGES {
        let said = tried(&machine, usage, &text).await?;
        assert!(said.contains("u{9b}"), "{said}");
    }

    agent.signal(Signal::TERM)?;
    let for_people = agent.whole_log().await?;
    let as_json = ["run", "site.yaml", "--log-format", "json"];
    let mut agent = Agent::start_with(&machine, &as_json).await?;
    agent.until_logged(&["a worker is degraded", "fails"]).await?;
    agent.signal(Signal::TERM)?;
    for stderr in [for_people, agent.whole_log().await?] {
        is_printable(&Ran { code: None, stdout: String::new(), stderr }, &["run"]);
    }
    Ok(())
}
