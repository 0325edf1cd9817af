//! Bad input: nothing is executed, and the error says where it is.

use std::fmt::Write;
use std::fs::{self, File};
use std::string::FromUtf8Error;

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::world::{Error, TestResult};

/// The commands that load a site.
const COMMANDS: [&str; 5] = ["check", "plan", "apply", "run", "graph"];

/// The first two lines of a manifest. Its resource would leave a mark if anything of it were
/// executed, guards included.
const MARK: &str = "resources:\n  mark: {type: exec, config: {command: [/bin/sh, -c, ': > @/mark'], \
                    unless: [/bin/sh, -c, ': > @/mark; exit 1']}}\n";

/// Resources that may not follow the one that leaves a mark, and the message about each.
const RESOURCES: &[(&str, &str)] = &[
    ("  a: [", "site.yaml:3:6: not YAML: "),
    ("  a: {type: noop}\n---\nvars: {}", "site.yaml:4:1: a second document begins here"),
    ("  a: {type: noop}\n  a: {type: noop}", "site.yaml:4:3: duplicate key \"a\", first on line 3"),
    ("  a: {type: noop, tpe: x}", "site.yaml:3:19: unknown key \"tpe\""),
    ("  a: {config: {}}", "site.yaml:3:3: resource \"a\" has no \"type\""),
    ("  a: {type: fil}", "site.yaml:3:13: unknown type \"fil\""),
    ("  a: {type: [file]}", "site.yaml:3:13: "),
    ("  a: 3", "site.yaml:3:6: "),
    ("  a: {type: noop, when: yes}", "site.yaml:3:25: \"when\" is true or false, not a text"),
    ("  a: {type: file, config: {path: /a, mdoe: '0644'}}", "site.yaml:3:38: mdoe: "),
    ("  a: {type: file, config: {path: /a, mode: 0644}}", "site.yaml:3:44: \"0644\" is a number"),
    ("  a: {type: file, config: {path: /a, mode: '9999'}}", "site.yaml:3:38: mode: "),
    ("  a: {type: file, config: {path: 7}}", "site.yaml:3:28: path: "),
    ("  a: {type: file, config: {path: a/b}}", "site.yaml:3:28: path: "),
    ("  a: {type: file, config: {path: /a/../b}}", "site.yaml:3:28: path: "),
    ("  a: {type: file, config: {}}", "site.yaml:3:3: path: is missing"),
    ("  a: {type: exec, config: {command: echo}}", "site.yaml:3:28: command: "),
    ("  a: {type: exec, config: {command: [x], timeout: soon}}", "site.yaml:3:42: timeout: "),
    ("  a: {type: noop, dependencies: [b]}", "site.yaml:3:34: unknown resource \"b\""),
    ("  a: {type: noop, notify: [b]}", "site.yaml:3:28: unknown resource \"b\""),
    ("  a: {type: noop, dependencies: [a]}", "site.yaml:3:34: resource \"a\" refers to itself"),
    (
        "  a: {type: noop, dependencies: [b]}\n  b: {type: noop, notify: [c]}\n  c: {type: noop, \
         notify: [a], dependencies: [a]}",
        "site.yaml:3:3: circular dependency: a -> c -> a",
    ),
    (
        "  a: {type: print, config: {message: '{{ 1 + }}'}}",
        "site.yaml:3:46: the expression does not parse: ",
    ),
    (
        "  a: {type: print, config: {message: '{{ nobody }}'}}",
        "site.yaml:3:42: unknown name \"nobody\"",
    ),
    (
        "  a: {type: print, config: {message: 'so {{ vars.nobody }} it is'}}",
        "site.yaml:3:45: unknown variable \"nobody\"",
    ),
    (
        "  a: {type: print, config: {message: 'so {% if %} it is'}}",
        "site.yaml:3:48: the expression does not parse: ",
    ),
    (
        "  a: {type: print, config: {message: '{{ deps.b.state }}'}}",
        "site.yaml:3:42: unknown dependency \"b\"",
    ),
    (
        "  a: {type: noop}\nvars: {x: '{{ y }}', y: '{{ x }}'}",
        "site.yaml:4:8: circular variables: x -> y -> x",
    ),
    ("  a: {type: noop, depends: [mark]}", "site.yaml:3:19: unknown key \"depends\""),
    (
        "  my-a: {type: noop}\n  b: {type: noop, config: {x: '{{ my-a.state }}'}}",
        "site.yaml:4:35: \"my-a\" is taken for a subtraction here",
    ),
    ("  a: {type: noop, \"\u{202e}x\": 1}", "site.yaml:3:19: unknown key \"\\u{202e}x\""),
    ("  a: {type: noop, config: [1]}", "site.yaml:3:27: \"config\" is a map, not a list"),
    ("  a: {type: noop, dependencies: 3}", "site.yaml:3:33: \"dependencies\" is a list"),
    ("  a: {type: noop, config: {x: *none}}", "site.yaml:3:31: not YAML: "),
    ("  a: {type: noop, config: &all [*all]}", "site.yaml:3:33: an alias inside the value"),
    ("  a: {type: noop, config: {x: .nan}}", "site.yaml:3:31: "),
];

/// Returns the texts of manifests that are refused, and the message about each.
fn texts() -> Result<Vec<(Vec<u8>, String)>, Error> {
    let mark = MARK.as_bytes();
    let deep = ["  a: ", &"[".repeat(100_000), &"]".repeat(100_000)].concat();
    let mut bomb = "  a:\n    type: noop\n    config:\n      a0: &a0 [x, x]\n".to_owned();
    for level in 1..40 {
        writeln!(bomb, "      a{level}: &a{level} [*a{0}, *a{0}]", level - 1)?;
    }
    let mut bytes =
        format!("  a:\n    type: noop\n    config:\n      a0: &a0 {}\n", "x".repeat(2_000));
    for level in 1..6 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(bytes, "      a{level}: &a{level} [{aliases}]")?;
    }
    let mut prints = format!("vars: {{large: {}}}\n", "x".repeat(1_000_000));
    prints.push_str(MARK);
    for index in 0..3_000 {
        writeln!(prints, "  r{index}: {{type: print, config: {{message: '{{{{ large }}}}'}}}}")?;
    }
    let in_all = "more than 64 MiB of values in all";
    let mut texts = vec![
        ([mark, bytes.as_bytes()].concat(), format!("site.yaml:11:21: {in_all}")),
        (prints.into_bytes(), format!("site.yaml:68:41: {in_all}")),
        (Vec::new(), "site.yaml:1:1: the file is empty".to_owned()),
        ([mark, b"  a: {type: \xff}"].concat(), "site.yaml:3:13: not UTF-8 at byte ".to_owned()),
        ([mark, deep.as_bytes()].concat(), "site.yaml:3:".to_owned()),
        ([mark, bomb.as_bytes()].concat(), "site.yaml:".to_owned()),
    ];
    let resources = RESOURCES.iter();
    texts.extend(
        resources.map(|(text, said)| ([mark, text.as_bytes(), b"\n"].concat(), (*said).to_owned())),
    );
    Ok(texts)
}

/// Has the site refused by all commands that load it.
async fn is_refused(machine: &Machine, said: &str) -> Result<(), Error> {
    for command in COMMANDS {
        let ran = machine.run(&[command, "site.yaml"]).await?;

        assert_eq!((ran.code, &*ran.stdout), (Some(65), ""), "{command}: {said}: {ran:?}");
        assert!(ran.stderr.contains(said), "{command}: {said}: {ran:?}");
        assert!(ran.stderr.starts_with("site.yaml"), "{command}: {ran:?}");
        assert!(!machine.path("mark").exists(), "{command}: {said}: something was executed");
        assert!(!machine.path("state").exists(), "{command}: {said}: a folder was made");
    }
    Ok(())
}

#[tokio::test]
async fn a_bad_manifest_is_refused_by_every_command_before_anything_is_executed() -> TestResult {
    let machine = Machine::new(MARK)?;
    for (text, said) in texts()? {
        let text = String::from_utf8(text)
            .map(|text| machine.text(&text).into_bytes())
            .unwrap_or_else(FromUtf8Error::into_bytes);
        fs::write(machine.path("site.yaml"), text)?;
        is_refused(&machine, &said).await?;
    }

    // The mark is one that would have been left.
    machine.write("site.yaml", MARK)?;
    let ran = machine.run(&["plan", "site.yaml"]).await?;
    assert_eq!((ran.code, machine.path("mark").exists()), (Some(0), true), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_no_regular_file_of_16_mib_is_refused_by_every_command() -> TestResult {
    let machine = Machine::new(MARK)?;
    let path = machine.path("site.yaml");

    fs::remove_file(&path)?;
    is_refused(&machine, "site.yaml: cannot read the file: it does not exist").await?;

    fs::create_dir(&path)?;
    is_refused(&machine, "site.yaml: the folder holds no *.yaml, *.yml or *.json file").await?;

    // One that is named is read.
    machine.fifo("site.yaml/pipe.yaml")?;
    is_refused(&machine, "site.yaml/pipe.yaml: not a regular file").await?;

    fs::remove_dir_all(&path)?;
    File::create(&path)?.set_len(100 * 1024 * 1024)?;
    is_refused(&machine, "site.yaml: the file is larger than 16 MiB").await
}

#[tokio::test]
async fn variables_that_cannot_be_used_are_refused_by_every_command() -> TestResult {
    let machine = Machine::new(MARK)?;
    machine.write("list.yaml", "[a]\n")?;
    machine.fifo("pipe")?;

    for (arguments, said) in [
        (["--var-file", "none.yaml"], "none.yaml: cannot read the file: it does not exist\n"),
        (["--var-file", "list.yaml"], "list.yaml:1:1: "),
        (["--var-file", "pipe"], "pipe: not a regular file\n"),
        (["--var", "rot=x"], "--var: no manifest has a variable \"rot\"\n"),
        (["--var", "vars=x"], "\"vars\""),
        (["--var", "7=x"], "\"7\""),
    ] {
        for command in COMMANDS {
            let ran = machine.run(&[&[command, "site.yaml"], &arguments[..]].concat()).await?;

            assert_eq!((ran.code, &*ran.stdout), (Some(65), ""), "{command}: {ran:?}");
            assert!(ran.stderr.contains(said), "{command}: {said}: {ran:?}");
            assert!(!machine.path("mark").exists(), "{command}: something was executed");
        }
    }
    Ok(())
}

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once_with_the_line_and_the_nearest_name() -> TestResult
{
    let machine = Machine::new(
        "resources:\n  a: {type: file, config: {path: a, mdoe: x}}\n  b: {type: noop, dependencies: \
         [aa]}\n",
    )?;

    let ran = machine.run(&["check", "site.yaml"]).await?;

    let expected = r#"site.yaml:2:28: path: "a" is not absolute; begin it with /
  |   a: {type: file, config: {path: a, mdoe: x}}
  |                            ^
site.yaml:2:37: mdoe: there is no such attribute; did you mean "mode"?
  |   a: {type: file, config: {path: a, mdoe: x}}
  |                                     ^
site.yaml:3:34: unknown resource "aa"
  |   b: {type: noop, dependencies: [aa]}
  |                                  ^
  help: did you mean "a"?
"#;
    assert_eq!((ran.code, &*ran.stderr), (Some(65), expected), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn a_line_that_would_look_otherwise_than_it_is_is_not_shown() -> TestResult {
    let machine = Machine::new("resources:\n  a: {type: nope} # \u{202e}der\n")?;

    let ran = machine.run(&["check", "site.yaml"]).await?;

    let expected = "site.yaml:2:13: unknown type \"nope\"\n  help: there are exec, fact, file, noop, print, \
                    process\n";
    assert_eq!((ran.code, &*ran.stderr), (Some(65), expected), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_data_where_data_is_asked_for() -> TestResult {
    let machine = Machine::new(
        "resources:\n  a: {type: file, config: {path: /a, mdoe: x, mode: 7}}\n  b: {tpe: noop}\n",
    )?;
    machine.write("other.yaml", "vars: {root: /srv}\n")?;

    for command in COMMANDS {
        let arguments = [command, "site.yaml", "other.yaml", "none.yaml"];
        let ran = machine.run(&[&arguments[..], &["--output", "json"]].concat()).await?;

        let said: Value = serde_json::from_str(&ran.stdout)?;
        let problem = |place: [Value; 3], message: &str, more: [Value; 3]| {
            let ([file, line, column], [help, value, suggestion]) = (place, more);
            json!({"file": file, "line": line, "column": column, "message": message, "help": help,
                "value": value, "suggestion": suggestion})
        };
        let no = Value::Null;
        let at = |line: u32, column: u32| [json!("site.yaml"), line.into(), column.into()];
        let expected = json!({
            "format": 1,
            "valid": false,
            "resources": null,
            "problems": [
                problem(
                    [json!("none.yaml"), no.clone(), no.clone()],
                    "cannot read the file: it does not exist",
                    [no.clone(), no.clone(), no.clone()],
                ),
                problem(
                    at(2, 38),
                    "mdoe: there is no such attribute; did you mean \"mode\"?",
                    [no.clone(), json!("mdoe"), json!("mode")],
                ),
                problem(
                    at(2, 47),
                    "mode: 7 is a number; quote it and write it in octal, as \"0644\"",
                    [no.clone(), json!("7"), no.clone()],
                ),
                problem(at(3, 3), "resource \"b\" has no \"type\"", [no.clone(), no.clone(), no.clone()]),
                problem(
                    at(3, 7),
                    "unknown key \"tpe\" in resource \"b\"",
                    [json!("did you mean \"type\"?"), json!("tpe"), json!("type")],
                ),
            ],
            "omitted": 0,
        });
        assert_eq!((ran.code, &*ran.stderr), (Some(65), ""), "{command}: {ran:?}");
        assert_eq!(said, expected, "{command}");
    }
    Ok(())
}

#[tokio::test]
async fn a_valid_site_is_data_too() -> TestResult {
    let machine = Machine::new("resources: {a: {type: noop}}\n")?;

    let json = machine.run(&["check", "site.yaml", "--output", "json", "--quiet"]).await?;
    let yaml = machine.run(&["check", "site.yaml", "--output", "yaml"]).await?;

    let expected =
        json!({"format": 1, "valid": true, "resources": 1, "problems": [], "omitted": 0});
    assert_eq!(serde_json::from_str::<Value>(&json.stdout)?, expected, "{json:?}");
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml.stdout)?, expected, "{yaml:?}");
    Ok(())
}
