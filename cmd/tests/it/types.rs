//! The types of resources, and the page that describes them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::machine::Machine;
use crate::world::{Error, TestResult};

const INTRODUCTION: &str = "# Types of resources\n\nWhat `crankcase types` says of each built-in type; with \
                            `--output json` it gives the same as data, with a JSON Schema.\nThe \
                            [reference of the manifest](manifest.md) says how each behaves.\n";

/// Writes the page from what the program says.
fn page(types: &Value) -> Result<String, Error> {
    let mut page = INTRODUCTION.to_owned();
    for kind in types.as_array().into_iter().flatten() {
        write!(page, "\n## `{}`\n\n{}.\n", text(&kind["name"]), text(&kind["summary"]))?;
        for (title, table) in [("attribute", &kind["parameters"]), ("state", &kind["state"])] {
            if table["is_open"] == true {
                write!(page, "\nThe {title} may be anything.\n")?;
                continue;
            }
            write!(page, "\n| {title} | value | default | meaning |\n| --- | --- | --- | --- |\n")?;
            for row in table["parameters"].as_array().into_iter().flatten() {
                let default = match &row["default"] {
                    Value::Null if row["is_required"] == true && title == "attribute" => {
                        "required".to_owned()
                    }
                    Value::Null => String::new(),
                    default => format!("`{default}`"),
                };
                let (name, meaning) = (text(&row["name"]), text(&row["doc"]));
                let value = noun(&row["value"]);
                writeln!(page, "| `{name}` | {value} | {default} | {meaning} |")?;
            }
        }
        let actions = kind["actions"].as_array().into_iter().flatten();
        for (index, action) in actions.enumerate() {
            if index == 0 {
                page += "\n| action | meaning |\n| --- | --- |\n";
            }
            writeln!(page, "| `{}` | {} |", text(&action["name"]), text(&action["doc"]))?;
        }
    }
    Ok(page)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn noun(ty: &Value) -> String {
    serde_json::from_value::<crankcase_resources::Type>(ty.clone())
        .map_or_else(|err| err.to_string(), |ty| ty.noun())
}

#[tokio::test]
async fn the_page_of_types_says_what_the_program_says() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;

    let ran = machine.run(&["types", "--output", "json"]).await?;

    let page = page(&serde_json::from_str::<Value>(&ran.stdout)?["types"])?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/types.md");
    if std::env::var_os("CRANKCASE_WRITE_PAGES").is_some() {
        fs::write(&path, &page)?;
    }
    let written = fs::read_to_string(path)?;
    assert!(page == written, "CRANKCASE_WRITE_PAGES=1 writes it anew:\n{page}");
    Ok(())
}

#[tokio::test]
async fn a_type_is_shown_with_its_parameters_and_its_state() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;

    let [all, one, none] =
        [&["types"][..], &["types", "print"], &["types", "flie"]].map(|line| machine.run(line));

    let (all, one, none) = (all.await?, one.await?, none.await?);
    assert!(all.stdout.contains("\nfile      keeps a file with its content"), "{all:?}");
    let expected = "print: puts a message into the log, once per apply and when notified\n\nparameters:\n  \
                    message     what to print\n              a text; required\n\nstate, for \
                    expressions:\n  message     what to print\n              a text; required\n\nactions:\n  \
                    print         puts the message into the log\n";
    assert_eq!(one.stdout, expected);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("there is no type \"flie\"; did you mean \"file\"?"), "{none:?}");
    Ok(())
}

#[tokio::test]
async fn the_schema_of_a_type_takes_values_and_expressions() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;

    let ran = machine.run(&["types", "file", "--output", "json"]).await?;

    let kind: Value = serde_json::from_str(&ran.stdout)?;
    let state = &kind["schema"]["properties"]["state"];
    assert_eq!(state["anyOf"][0]["enum"], serde_json::json!(["exists", "absent"]));
    assert_eq!(state["anyOf"][1]["pattern"], r"\{[{%]");
    assert_eq!(kind["schema"]["required"], serde_json::json!(["path"]));
    assert_eq!(kind["schema"]["additionalProperties"], false);
    Ok(())
}
