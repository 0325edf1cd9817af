//! Debug texts, which show no values: some of these may be secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crankcase_resources::{
    Action, Amiss, Cause, Config, DependencyState, Found, Inputs, KnownConfig, Literal, Part,
    Render, Shape,
};
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
    let amiss = Amiss::new(Some(state())).differs("key", "old", SECRET).after(state());
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
