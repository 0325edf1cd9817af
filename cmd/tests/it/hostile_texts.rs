//! Texts from elsewhere that are made to mislead: none reaches a terminal as it is, by any command.

use std::collections::BTreeSet;

use crankcase_workers::printable_lines;
use rustix::process::Signal;

use crate::agent::Agent;
use crate::external::program;
use crate::facts::facts;
use crate::machine::Machine;
use crate::world::{Error, TestResult, ran};

/// A text that clears the screen in two ways, turns the text after it, hides parts of it, and begins a line of its own;
/// with the escapes of YAML and JSON.
pub(crate) const HOSTILE: &str =
    r"h\u001b[2Jo\u009b2Js\u202et\u2066i\ufeffl\u200be\u0007\u00ad\nFORGED";

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

/// The arguments with which each command prints the hostile text.
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
    ("metrics", &[&[]]),
    ("why", &[&["/agent/resources/fails"], &["/agent/resources/it"], &["/HOST"]]),
    ("boot", &[&[], &["blame"]]),
    (
        "types",
        &[&[], &["file"], &["program:./it"], &["HOST"], &["test", "HOST", "--config", "HOST"]],
    ),
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
            &["set", "/HOST", "x", "--reason", "HOST"],
            &["set", "/HOST/HOST", "x"],
            &["set", "/HOST", "other HOST", "--text"],
            &["diff", "1"],
            &["version"],
            &["restore", "1", "--dry-run"],
            &["push", "update.yaml"],
            &["load", "HOST"],
            &["schema", "/HOST"],
        ],
    ),
    ("bounce", &[&["/agent/resources/page", "--reason", "HOST"], &["/HOST"]]),
    ("park", &[&["/agent/resources/page", "--reason", "HOST"], &["/HOST"]]),
    ("unpark", &[&["/agent/resources/page", "--reason", "HOST"], &["/HOST"]]),
    ("pause", &[&["/agent/resources/page", "--reason", "HOST"], &["/HOST"]]),
    ("resume", &[&["/agent/resources/page", "--reason", "HOST"], &["/HOST"]]),
];

/// Wrong command lines.
const USAGES: &[&[&str]] =
    &[&["HOST"], &["plan", "--HOST"], &["facts", "get", "HOST"], &["report", "--state", "HOST"]];

/// These commands are not in the table. The test reads the log of `run`; `bootstrap` runs the same agent. `mcp`
/// talks to programs. `page` prints one address. `events` and `top` do not end by themselves: `events` prints
/// with the same code as the others, and the tests of `top` look at its cells.
const OTHERS_OF_FACTS: [&str; 2] = ["watch", "help"];

/// These show names, numbers and other texts, and nothing of the hostile one.
const SILENT: &[&str] = &[
    "check site.yaml",
    "apply site.yaml",
    "apply wrong.yaml",
    "report --counts",
    "report /agent/resources/page",
    "types",
    "types file",
    "graph site.yaml",
    "graph --live",
    "graph --format mermaid --live",
    "graph --format svg --live",
    "history",
    "history page",
    "facts set /HOST x --reason HOST",
    "facts version",
    "bounce /agent/resources/page --reason HOST",
    "park /agent/resources/page --reason HOST",
    "unpark /agent/resources/page --reason HOST",
    "pause /agent/resources/page --reason HOST",
    "resume /agent/resources/page --reason HOST",
];

const OTHERS: [&str; 7] = ["run", "bootstrap", "mcp", "page", "events", "top", "help"];

/// The colours that the printer itself sets.
const COLOURS: [&str; 6] =
    ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[36m", "\u{1b}[90m", "\u{1b}[0m"];

/// Requires that nothing unprintable is in a text, and no line of the hostile text's own.
fn is_printable(said: &str, arguments: &[&str]) {
    let plain = COLOURS.iter().fold(said.to_owned(), |said, colour| said.replace(colour, ""));
    assert_eq!(
        plain.escape_debug().to_string(),
        printable_lines(&plain).escape_debug().to_string(),
        "{arguments:?}"
    );
    // The text of a fact has lines of its own.
    let is_value = arguments.starts_with(&["facts", "get"]);
    assert!(
        is_value || !plain.lines().any(|line| line.starts_with("FORGED")),
        "{arguments:?}: {plain}"
    );
}

/// Runs a command as on a terminal, and returns all that it has said.
async fn tried(machine: &Machine, arguments: &[&str], text: &str) -> Result<String, Error> {
    let arguments: Vec<String> = arguments.iter().map(|it| it.replace("HOST", text)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut program = machine.program(&arguments);
    program.env("CLICOLOR_FORCE", "1");
    let ran = ran(program).await?;
    let said = ran.stdout + &ran.stderr;
    is_printable(&said, &arguments);
    Ok(said)
}

/// Returns the commands that a help lists.
fn listed(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

/// Returns whether the hostile text was shown, escaped.
fn shows_it(said: &str) -> bool {
    ["u{9b}", "u009b", "U0000009b", "x9B"].iter().any(|escape| said.contains(escape))
}

#[tokio::test]
async fn nothing_from_elsewhere_reaches_a_terminal_as_it_is() -> TestResult {
    let machine = Machine::new(&SITE.replace("HOST", HOSTILE))?;
    machine.write("wrong.yaml", &WRONG.replace("HOST", HOSTILE))?;
    machine.write("update.yaml", &format!("\"{HOSTILE}\": 1\n"))?;
    program(&machine, "it", &TYPE.replace("HOST", HOSTILE))?;
    let text: String = serde_json::from_str(&format!("\"{HOSTILE}\""))?;
    facts(&machine, &["set", &format!("/{text}"), &text, "--text"]).await?;
    // While an agent runs, nothing is applied.
    for site in ["site.yaml", "wrong.yaml"] {
        assert!(shows_it(&tried(&machine, &["apply", site], &text).await?), "{site}");
    }
    let (help, help_of_facts) =
        (machine.run(&["--help"]).await?.stdout, facts(&machine, &["--help"]).await?.stdout);
    let tried_here = COMMANDS.iter().map(|(name, _)| *name).chain(OTHERS);
    assert_eq!(tried_here.collect::<BTreeSet<_>>(), listed(&help));
    let ways = COMMANDS.iter().filter(|(name, _)| *name == "facts").flat_map(|(_, ways)| *ways);
    let of_facts = ways.map(|way| way[0]).chain(OTHERS_OF_FACTS);
    assert_eq!(of_facts.collect::<BTreeSet<_>>(), listed(&help_of_facts));

    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["a worker is degraded", "fails"]).await?;
    let mut silent = Vec::new();
    for (command, ways) in COMMANDS {
        for way in *ways {
            for output in ["human", "json", "yaml"] {
                let way = [&[*command], *way, &["--output", output]].concat();
                if !shows_it(&tried(&machine, &way, &text).await?) && output == "human" {
                    silent.push(way[..way.len() - 2].join(" "));
                }
            }
        }
    }
    assert_eq!(silent, SILENT);
    for usage in USAGES {
        assert!(shows_it(&tried(&machine, usage, &text).await?), "{usage:?}");
    }

    agent.signal(Signal::TERM)?;
    let for_people = agent.whole_log().await?;
    let as_json = ["run", "site.yaml", "--log-format", "json"];
    let mut agent = Agent::start_with(&machine, &as_json).await?;
    agent.until_logged(&["a worker is degraded", "fails"]).await?;
    agent.signal(Signal::TERM)?;
    for log in [for_people, agent.whole_log().await?] {
        is_printable(&log, &["run"]);
        assert!(shows_it(&log), "{log}");
    }
    Ok(())
}
