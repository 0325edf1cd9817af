//! Facts on the command line, without an agent.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::machine::{Machine, within};
use crate::world::{Error, Ran, TestResult, program, ran};

const NO_SITE: &str = "resources: {}\n";

pub(crate) async fn facts(machine: &Machine, arguments: &[&str]) -> Result<Ran, Error> {
    machine.run(&[&["facts"], arguments].concat()).await
}

async fn json_of(machine: &Machine, arguments: &[&str]) -> Result<Value, Error> {
    let ran = facts(machine, &[arguments, &["--output", "json"]].concat()).await?;
    Ok(serde_json::from_str(&ran.stdout)?)
}

#[tokio::test]
async fn facts_are_changed_as_the_page_says() -> TestResult {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/facts.md");
    let page = fs::read_to_string(page)?;
    let (walk, _) = page.split_once("## Updates").ok_or("the page has no updates")?;
    crate::write_a_type::follow(walk).await
}

#[tokio::test]
async fn before_the_first_facts_there_are_none() -> TestResult {
    let machine = Machine::new(NO_SITE)?;

    let version = json_of(&machine, &["version"]).await?;
    let got = facts(&machine, &["get", "/a"]).await?;

    assert_eq!((&version["version"], &version["revision"]), (&json!(0), &json!(0)));
    assert_eq!(got.code, Some(1));
    assert_eq!(
        got.stderr,
        "crankcase: there is no /a; no facts are stored; load some with \"facts load\" or \"bootstrap\"\n"
    );
    assert!(!machine.path("state").exists(), "reading has made something");
    let log = facts(&machine, &["log"]).await?;
    assert_eq!((log.code, &*log.stdout), (Some(0), "nothing is on record\n"));
    Ok(())
}

/// Commands, their input, and the message about it.
const BAD: &[(&str, &str, &str)] = &[
    ("push", "", "input.yaml:1:1: the file is empty"),
    ("push", "version: 9\nops: [[SET, /a", "not YAML"),
    (
        "push",
        "version: 9\nversion: 10\nops: []\n",
        "input.yaml:2:1: duplicate key \"version\", first on line 1",
    ),
    (
        "push",
        "version: -1\nops: []\n",
        "input.yaml:1:1: a version is a whole number from 1 to 9223372036854775807, not -1",
    ),
    ("push", "version: 1.5\nops: []\n", "not 1.5"),
    ("push", "version: 9223372036854775808\nops: []\n", "not 9223372036854775808"),
    ("push", "version: 99999999999999999999\nops: []\n", "is too large for a number of 64 bits"),
    (
        "push",
        "version: 9\nops:\n  - [PUT, /a, 1]\n",
        "input.yaml:3:6: there is no operation \"PUT\"",
    ),
    (
        "push",
        "version: 9\nops:\n  - [SET, /a~2, 1]\n",
        "input.yaml:3:11: \"/a~2\" is no path to a fact: at character 3",
    ),
    (
        "push",
        "version: 9\nops:\n  - [SET, /a/b/x, 1]\n",
        "input.yaml:3:11: /a/b/x: the list has 1 items, counted from 0",
    ),
    (
        "push",
        "version: 9\nops:\n  - {op: SET, path: /c/d, data: 1}\n",
        "input.yaml:3:15: /c: there is no /c",
    ),
    (
        "push",
        "version: 9\npatch:\n  - {op: remove, path: /c}\n",
        "input.yaml:3:18: /c: there is no /c",
    ),
    ("load", "version: 9\nfacts: []\n", "input.yaml:2:1: \"facts\" is a map, not a list"),
];

#[tokio::test]
async fn bad_input_is_refused_with_its_place_and_changes_nothing() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    facts(&machine, &["set", "/a", "{b: [1]}"]).await?;
    let deep = format!("version: 9\nfacts: {{a: {}1{}}}\n", "[".repeat(80), "]".repeat(80));
    let large = format!("version: 9\nfacts: {{a: {}}}\n", "x".repeat(17 << 20));
    for (command, text, with) in BAD.iter().copied().chain([
        ("load", &*deep, "nested deeper than 64 levels"),
        ("load", &*large, "the file is larger than 16 MiB"),
    ]) {
        machine.write("input.yaml", text)?;
        let ran = facts(&machine, &[command, "input.yaml"]).await?;
        assert_eq!((ran.code, &*ran.stdout), (Some(65), ""), "{text:.80}: {ran:?}");
        assert!(ran.stderr.contains(with), "{} without {with}", ran.stderr);
    }
    machine.write("input.yaml", "version: 9\nops: [[TEST, /a/b, [2]]]\n")?;
    let tested = facts(&machine, &["push", "input.yaml"]).await?;
    assert_eq!(
        (tested.code, tested.stderr.contains("/a/b: another value is there")),
        (Some(75), true)
    );
    let usage = facts(&machine, &["set", "/a//b", "1"]).await?;
    assert_eq!(usage.code, Some(64));
    let reason = facts(&machine, &["set", "/a", "1", "--reason", "a\nb"]).await?;
    assert_eq!(reason.code, Some(64));
    assert_eq!(json_of(&machine, &["get"]).await?["value"], json!({"a": {"b": [1]}}));
    Ok(())
}

#[tokio::test]
async fn what_stands_against_a_change_is_data_too() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    machine.write("one.yaml", "version: 1\nfacts: {a: 1, b: 1}\n")?;
    facts(&machine, &["load", "one.yaml"]).await?;
    facts(&machine, &["set", "/a", "2"]).await?;

    let stale = json_of(&machine, &["load", "one.yaml"]).await?;
    assert_eq!(
        (&stale["code"], &stale["given_version"], &stale["stored_version"]),
        (&json!("conflict"), &json!(1), &json!(2))
    );
    let unexpected = facts(&machine, &["set", "/a", "3", "--expect-version", "1"]).await?;
    assert_eq!(unexpected.code, Some(75));
    assert_eq!(
        unexpected.stderr,
        "crankcase: the facts have version 2, and version 1 was expected\n"
    );
    machine.write("three.yaml", "version: 3\nfacts: {a: 3, b: 1}\n")?;
    let merged = json_of(&machine, &["load", "--merge", "three.yaml"]).await?;
    assert_eq!(merged["conflicts"], json!([{"path": "/a", "base": 1, "document": 3, "stored": 2}]));
    machine.write("three.yaml", "version: 3\nfacts: {a: 1, c: 1}\n")?;
    let merged = facts(&machine, &["load", "--merge", "three.yaml"]).await?;
    assert_eq!(merged.stdout, "version 2 -> 3: 2 changes\n  - /b: 1\n  + /c: 1\n");
    Ok(())
}

#[tokio::test]
async fn secrets_are_in_no_output() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    machine.write(
        "schema.yaml",
        "properties: {pin: {type: string, sensitive: true}, n: {type: integer}}\n",
    )?;
    facts(&machine, &["set", "/door", "{pin: swordfish, n: 1}"]).await?;
    facts(&machine, &["schema", "/door", "--set", "schema.yaml"]).await?;
    let layers =
        "{role: {r: {door: {pin: perch-fish}}}, host: {h: {facts: {door: {pin: bass-fish}}}}}";
    facts(&machine, &["set", "/layers", layers]).await?;
    machine.write("bad.yaml", "version: 50\nfacts:\n  door: {pin: trout-fish, n: many}\n")?;
    machine.write("worse.yaml", "version: 50\nfacts:\n  door:\n    pin: [carp-fish]\n")?;
    let mut said = String::new();
    for arguments in [
        &["get"][..],
        &["get", "/door/pin"],
        &["set", "/door/pin", "sturgeon-fish"],
        &["log"],
        &["diff", "0"],
        &["explain", "/door/pin"],
        &["get", "/layers/host/h/facts/door/pin"],
        &["get", "/door", "--host", "h"],
        &["explain", "/door/pin", "--host", "h"],
        &["set", "/layers/role/r/door/pin", "cod-fish"],
        &["load", "bad.yaml"],
        &["load", "worse.yaml"],
        &["set", "/door/pin", "[herring-fish]"],
        &["set", "/door", "{pin: plaice-fish, n: [x]}"],
        &["restore", "1"],
    ] {
        for format in ["human", "json", "yaml"] {
            let ran = facts(&machine, &[arguments, &["--output", format]].concat()).await?;
            said.push_str(&format!("{}{}", ran.stdout, ran.stderr));
        }
    }
    assert!(said.contains("(sensitive)") && !said.contains("fish"), "{said}");
    Ok(())
}

#[tokio::test]
async fn an_input_is_a_file_a_folder_or_standard_input() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    fs::create_dir(machine.path("all"))?;
    machine.write("all/1.yaml", "version: 1\nfacts: {a: {x: 1}}\n")?;
    machine.write("all/2.json", "{\"facts\": {\"a\": {\"y\": 2}, \"b\": 3}}\n")?;

    let loaded = facts(&machine, &["load", "all"]).await?;
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert_eq!(json_of(&machine, &["get"]).await?["value"], json!({"a": {"x": 1, "y": 2}, "b": 3}));

    machine.write("all/2.json", "{\"facts\": {\"a\": {\"x\": 2}}}\n")?;
    let twice = facts(&machine, &["load", "all"]).await?;
    assert_eq!(
        twice.stderr.lines().next(),
        Some("all/2.json:1:18: duplicate key \"x\", first in all/1.yaml:2:13")
    );
    Ok(())
}

#[tokio::test]
async fn of_many_at_once_each_is_made_or_refused() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    facts(&machine, &["set", "/all", "{}"]).await?;
    let mut children = Vec::new();
    for index in 0..8 {
        machine.write(
            &format!("{index}.yaml"),
            &format!("version: 5\nops: [[SET, /all/n{index}, {index}]]\n"),
        )?;
        children.push(machine.begin(&["facts", "push", &format!("{index}.yaml")])?);
    }
    let mut made = 0;
    for child in children {
        let ran = machine.ended(child).await?;
        assert!(matches!(ran.code, Some(0 | 75)), "{ran:?}");
        assert!(!ran.stderr.contains("is held by process"), "each waits for the others: {ran:?}");
        made += usize::from(ran.code == Some(0));
    }
    let value = json_of(&machine, &["get", "/all"]).await?;
    assert_eq!((made, value["value"].as_object().map(serde_json::Map::len)), (1, Some(1)));
    Ok(())
}

#[tokio::test]
async fn of_many_changes_at_once_none_is_lost_and_each_says_its_versions() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    facts(&machine, &["set", "/all", "{}"]).await?;
    let mut versions = Vec::new();

    for round in 0..4 {
        let begin =
            |index: u32| machine.begin(&["facts", "set", &format!("/all/r{round}n{index}"), "1"]);
        let children = (0..8).map(begin).collect::<Result<Vec<_>, _>>()?;
        for child in children {
            let ran = machine.ended(child).await?;
            let said = ran.stdout.split_once(": 1 change\n").map(|(said, _)| said);
            let said = said.and_then(|said| said.strip_prefix("version ")?.split_once(" -> "));
            let (before, after) = said.ok_or_else(|| format!("{ran:?}"))?;
            versions.push((before.parse::<u64>()?, after.parse::<u64>()?));
        }
    }

    versions.sort_unstable();
    assert_eq!(versions, (1..33).map(|before| (before, before + 1)).collect::<Vec<(u64, u64)>>());
    let value = json_of(&machine, &["get", "/all"]).await?;
    assert_eq!(value["value"].as_object().map(serde_json::Map::len), Some(32));
    Ok(())
}

#[tokio::test]
async fn a_damaged_store_is_named_by_every_command() -> TestResult {
    let machine =
        Machine::new("resources: {a: {type: print, config: {message: \"{{ facts.a }}\"}}}\n")?;
    facts(&machine, &["set", "/a", "1"]).await?;
    fs::write(machine.path("state/facts.db"), "no facts at all, but a text that is long enough")?;
    for arguments in [
        &["facts", "get"][..],
        &["facts", "set", "/a", "1"],
        &["plan", "site.yaml"],
        &["run", "site.yaml"],
    ] {
        let ran = machine.run(arguments).await?;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("state/facts.db are damaged"), "{ran:?}");
    }
    assert!(fs::read_to_string(machine.path("state/facts.db"))?.starts_with("no facts"));
    Ok(())
}

#[tokio::test]
async fn a_shell_completes_the_paths_of_facts() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    facts(&machine, &["set", "/web", "{port: 80, path: /srv}"]).await?;
    facts(&machine, &["set", "/width", "8"]).await?;
    machine.write(
        "hostile.json",
        "{\"port\": 80, \"path\": \"/srv\", \"z$(id)\": 1, \"\u{7f}\": 1, \"a b\": 1}",
    )?;
    facts(&machine, &["set", "/web", "--file", "hostile.json"]).await?;
    let state = machine.path("state");
    for (typed, completed) in [
        ("/", "/web/\u{b}/width"),
        ("/wi", "/width"),
        ("/web/p", "/web/path\u{b}/web/port"),
        ("/web/", "/web/path\u{b}/web/port"),
    ] {
        let mut shell = program(&["--", "crankcase", "--state-dir"]);
        shell.arg(&state).args(["facts", "get", typed]);
        shell
            .env("CRANKCASE_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", "5")
            .env("_CLAP_IFS", "\u{b}");
        assert_eq!(ran(shell).await?.stdout, completed, "{typed}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_elsewhere_is_told_without_a_place() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    facts(&machine, &["set", "/", "{hosts: {h1: 1}, refs: {r: h1}}"]).await?;
    machine.write("schema.yaml", "additionalProperties: {references: /hosts/*}\n")?;
    facts(&machine, &["schema", "/refs", "--set", "schema.yaml"]).await?;
    machine.write("update.yaml", "version: 9\nops:\n  - [DELETE, /hosts/h1]\n")?;
    for arguments in [&["set", "/hosts/h1", "--delete"][..], &["push", "update.yaml"]] {
        let refused = facts(&machine, arguments).await?;
        assert_eq!(refused.code, Some(65), "{refused:?}");
        let said = refused.stderr.trim_start_matches("crankcase: ");
        assert_eq!(said, "/refs/r: there is no \"h1\" at /hosts/*\n", "{arguments:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_text_is_taken_as_it_is() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    for text in ["sword #fish", "two\nlines\n", "@sw0rd", "12345678", "", "- a\n"] {
        machine.write("text", text)?;
        let set = facts(&machine, &["set", "/door", "--text", "--file", "text"]).await?;
        assert_eq!(set.code, Some(0), "{set:?}");
        assert_eq!(json_of(&machine, &["get", "/door"]).await?["value"], json!(text));
        facts(&machine, &["set", "/door", "--text", "--", text]).await?;
        assert_eq!(json_of(&machine, &["get", "/door"]).await?["value"], json!(text));
    }
    facts(&machine, &["set", "/door", "--text", "two\nlines"]).await?;
    assert_eq!(facts(&machine, &["get", "/door/"]).await?.stdout, "two\nlines\n");
    facts(&machine, &["set", "/n", "-5"]).await?;
    assert_eq!(json_of(&machine, &["get", "/n"]).await?["value"], json!(-5));
    Ok(())
}

#[tokio::test]
async fn a_text_that_cannot_be_read_is_wrong_input() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    fs::write(machine.path("bytes"), b"abc\xff")?;
    fs::write(machine.path("large"), vec![b'x'; 16 * 1024 * 1024 + 1])?;
    for (file, with) in [
        ("none", "cannot read none: No such file"),
        (".", "cannot read .: Is a directory"),
        ("bytes", "bytes is no text: byte 3 and what follows is not UTF-8"),
        ("large", "large is larger than 16 MiB"),
    ] {
        let refused = facts(&machine, &["set", "/a", "--text", "--file", file]).await?;
        assert_eq!(refused.code, Some(65), "{refused:?}");
        assert!(refused.stderr.contains(with), "{refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_damaged_history_is_not_restored() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    for value in ["1", "2", "3"] {
        facts(&machine, &["set", "/a", value]).await?;
    }
    let (file, good) = (machine.path("state/facts.db"), br#"[["/a",[1],[2]]]"#);
    let mut bytes = fs::read(&file)?;
    let at = bytes.windows(good.len()).position(|it| it == good).ok_or("no such entry")?;
    bytes[at + 8] = b'9';
    fs::write(&file, bytes)?;

    for arguments in [["restore", "1"], ["diff", "1"]] {
        let refused = facts(&machine, &arguments).await?;
        assert_eq!(refused.code, Some(65), "{refused:?}");
        assert!(refused.stderr.contains("the entry of version 2"), "{refused:?}");
    }
    assert_eq!(facts(&machine, &["restore", "2"]).await?.code, Some(0));
    assert_eq!(facts(&machine, &["get", "/a"]).await?.stdout, "2\n");

    let (mut bytes, bad) = (fs::read(&file)?, br#"[["/a",[9],[2]]]"#);
    let at = bytes.windows(bad.len()).position(|it| it == bad).ok_or("no such entry")?;
    bytes[at] = b'\xff';
    fs::write(&file, bytes)?;
    let log = facts(&machine, &["log"]).await?;
    assert_eq!(log.code, Some(65), "{log:?}");
    assert!(log.stdout.contains("version 3  ") && !log.stdout.contains("version 2  "), "{log:?}");
    assert!(log.stderr.contains("the entry of version 2"), "{log:?}");
    Ok(())
}

#[tokio::test]
async fn each_change_at_a_path_is_followed() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    facts(&machine, &["set", "/", "{a: {x: 1}, b: 1}"]).await?;
    let mut watching = machine.begin(&["facts", "watch", "/a"])?;
    let mut said = BufReader::new(watching.stderr.take().ok_or("no stderr")?).lines();
    let first = within(said.next_line()).await??;
    assert_eq!(first.as_deref(), Some("following the facts from version 1"));

    for (path, value) in [("/a/x", "9"), ("/b", "2"), ("/a/x", "1")] {
        facts(&machine, &["set", path, value, "--reason", "try"]).await?;
    }

    let mut told = BufReader::new(watching.stdout.take().ok_or("no stdout")?).lines();
    let mut lines = Vec::new();
    for _ in 0..4 {
        lines.push(within(told.next_line()).await??.ok_or("it ended")?);
    }
    assert!(lines[0].starts_with("version 2  ") && lines[0].ends_with("update by ada: try"));
    assert!(lines[2].starts_with("version 4  "), "{lines:?}");
    assert_eq!((&*lines[1], &*lines[3]), ("  ~ /a/x: 1 -> 9", "  ~ /a/x: 9 -> 1"));
    watching.kill().await?;
    Ok(())
}

#[tokio::test]
async fn what_a_layer_hides_is_explained() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    let all =
        "{list: [{a: 1}], ntp: {opts: {x: 1}}, layers: {host: {h1: {facts: {ntp: {opts: no}}}}}}";
    facts(&machine, &["set", "/", all]).await?;

    let explained = facts(&machine, &["explain", "/ntp/opts/x", "--host", "h1"]).await?;

    let effects: Vec<_> = explained.stdout.lines().map(|it| &it[..6]).collect();
    assert!(effects.contains(&"hides ") && effects.contains(&"hidden"), "{explained:?}");
    assert!(explained.stdout.contains("(/layers/host/h1/facts/ntp/opts)"), "{explained:?}");
    let item = facts(&machine, &["explain", "/list/0/a", "--host", "h1"]).await?;
    assert!(item.stdout.starts_with("counts  site: 1  (/list/0/a)"), "{item:?}");
    let got = facts(&machine, &["get", "/ntp/opts/x", "--host", "h1"]).await?;
    assert_eq!(got.code, Some(1));
    assert!(got.stderr.contains("nothing is in /ntp/opts"), "{got:?}");
    Ok(())
}

#[tokio::test]
async fn versions_are_compared_at_a_path_that_comes_or_goes() -> TestResult {
    let machine = Machine::new(NO_SITE)?;
    facts(&machine, &["set", "/a", "{b: {c: 1}}"]).await?;
    facts(&machine, &["set", "/a", "--delete"]).await?;

    let diff = facts(&machine, &["diff", "0", "1", "--at", "/a/b/c"]).await?;
    assert_eq!(diff.stdout, "  + /a/b/c: 1\n");
    let gone = facts(&machine, &["diff", "1", "2", "--at", "/a/b"]).await?;
    assert_eq!(gone.stdout, "  - /a/b: {\"c\":1}\n");
    for arguments in [["diff", "1", "99"], ["restore", "99", "--dry-run"]] {
        let missing = facts(&machine, &arguments).await?;
        assert_eq!(missing.code, Some(1), "{missing:?}");
    }
    let conflict = "version: 9\nfacts: {a: 1}\n";
    machine.write("one.yaml", conflict)?;
    facts(&machine, &["load", "one.yaml"]).await?;
    facts(&machine, &["set", "/a", "2"]).await?;
    machine.write("one.yaml", &conflict.replace('9', "19").replace("a: 1", "a: 3"))?;
    let both = facts(&machine, &["load", "--merge", "one.yaml"]).await?;
    assert_eq!(both.code, Some(75), "{both:?}");
    let values = "/a: the last document says 1, the new one 3, the store 2";
    assert!(both.stderr.contains(values), "{both:?}");
    Ok(())
}
