//! Debug texts, which show no values: some of these may be secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use crankcase_resources::dynamic::{Config, Found, KnownConfig, Part, Shape, Stale};
use crankcase_resources::front::{DependencyState, Inputs, Render};
use crankcase_resources::rules::Cause;
use crankcase_resources::{Action, Literal};
use serde_json::{Value, json};

use crate::support::TestResult;

const SECRET: &str = "hunter2";

/// Returns a state with a secret.
fn state() -> Value {
    json!({"key": SECRET})
}

#[test]
fn no_debug_text_shows_a_value_of_a_config_or_a_state() -> TestResult {
    let config = Config::from_iter([("key".to_owned(), SECRET.into())]);
    let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
    let literal = Literal::new(config.clone());
    let (now, then) = (Arc::new(state()), Arc::new(state()));
    let states = [("a", DependencyState::Known(now)), ("b", DependencyState::Foreseen(then))];
    let states = states.map(|(alias, state)| (alias.to_owned(), state));
    let amiss = Stale::new(Some(state())).differs("key", "old", SECRET).after(state());
    let amiss = amiss.action(Action::new("set").with("key", SECRET));
    let cause: Cause = serde_json::from_value(
        json!({"rule": "r", "of": "/key", "before": SECRET, "value": state()}),
    )?;

    for text in [
        format!("{literal:?} {:?}", literal.render(&Inputs::default())?),
        format!("{:?}", literal.declare(Path::new("/"), "page", "file")),
        format!("{known:?} {:?}", Part::new("a", "file").with("key", SECRET)),
        format!("{:?}", Inputs::new(BTreeMap::from(states))),
        format!("{:?} {:?}", Found::Valid(state()), Found::Stale(amiss)),
        format!("{cause:?} {:?}", Shape::of(&state())),
    ] {
        assert!(text.contains("key") && !text.contains(SECRET), "{text}");
    }
    Ok(())
}

/// The types whose derived debug texts show values, by crate: actions and differences, in which
/// secrets are hidden before anybody sees them, the machine, schemas, defaults, and a test kit.
const SHOWN: [(&str, &[&str]); 4] = [
    (
        "resources",
        &[
            "Action",
            "DeclarationFields",
            "Difference",
            "FactSchema",
            "Giver",
            "GiverState",
            "Parameter",
            "Surroundings",
        ],
    ),
    ("manifest", &["SiteSource"]),
    ("kinds", &["Do"]),
    ("external", &["Answered", "Entry", "Init"]),
];

/// Returns the types of a folder that derive `Debug`, and have a field that is a value or a map of
/// values.
fn deriving(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(deriving(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(deriving_in(&fs::read_to_string(path)?));
        }
    }
    Ok(found)
}

/// Returns the words of a line of code.
fn words(line: &str) -> Vec<&str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|it| !it.is_empty()).collect()
}

/// Returns such types of a file.
fn deriving_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut is_derived, mut name) = (false, None);
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("//") {
            continue;
        }
        if line.starts_with("#[") {
            is_derived |= line.starts_with("#[derive(") && words(line).contains(&"Debug");
            continue;
        }
        let item = words(line);
        let keyword = item.iter().position(|word| ["struct", "enum"].contains(word));
        if let Some(keyword) = keyword.filter(|_| std::mem::take(&mut is_derived)) {
            name = item.get(keyword + 1).copied();
        }
        let ty = line.split_once(": ").map_or(line, |(_, ty)| ty);
        let has_values = words(ty).iter().any(|word| ["Value", "Config"].contains(word));
        found.extend(name.filter(|_| has_values).map(str::to_owned));
        if line == "}" || line.ends_with(';') {
            (is_derived, name) = (false, None);
        }
    }
    found
}

#[test]
fn a_type_with_values_derives_no_debug_text() -> TestResult {
    for (name, shown) in SHOWN {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");

        let deriving = deriving(&source)?;

        let shown: BTreeSet<String> = shown.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(deriving, shown, "{name}");
    }
    Ok(())
}
