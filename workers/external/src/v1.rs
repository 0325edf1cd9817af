//! The messages of protocol 1, which a type opts into by `"protocol": 1` in its first answer.

use std::collections::BTreeMap;
use std::time::Duration;

use crankcase_resources::Difference;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::messages::{
    self, Answer, CallSpec, Calls, Init, Stale, State, Status, Wanted, object, require_actions,
    status,
};

/// How many files an answer may depend on.
const MOST_FILES: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InitResult {
    #[serde(rename = "protocol")]
    _protocol: u8,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    config_schema: Option<Map<String, Value>>,
    #[serde(default)]
    dependencies: Option<BTreeMap<String, Wanted>>,
    #[serde(default)]
    plugs: BTreeMap<String, PlugRequest>,
    #[serde(default)]
    network: bool,
    #[serde(default)]
    timeouts: Timeouts,
    #[serde(default)]
    sensitive: Sensitive,
    #[serde(default)]
    depends_on_files: Option<Vec<String>>,
    calls: CallSpecs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlugRequest {
    path: String,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    writable: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Timeouts {
    #[serde(default)]
    check: Option<String>,
    #[serde(default)]
    action: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Sensitive {
    #[serde(default)]
    config: Vec<String>,
    #[serde(default)]
    state: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallSpecs {
    check: CallSpec,
    #[serde(default)]
    delete: Option<CallSpec>,
    #[serde(default)]
    reverse: Option<CallSpec>,
    #[serde(default)]
    watch: Option<CallSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionSpec {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    entrypoint: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    changes: Vec<String>,
}

impl From<ActionSpec> for messages::ActionSpec {
    fn from(spec: ActionSpec) -> Self {
        let ActionSpec { name, description, image, entrypoint, args, changes } = spec;
        Self { name, description, call: CallSpec { image, entrypoint, args }, changes }
    }
}

pub(crate) fn read_init(answer: Value) -> Result<Init, String> {
    let init: InitResult = serde_json::from_value(answer).map_err(|error| error.to_string())?;
    let mut plugs = BTreeMap::new();
    for (name, PlugRequest { path, optional, writable }) in init.plugs {
        if path.is_empty() {
            return Err(format!("the path of plug '{name}' is empty"));
        }
        plugs.insert(name, messages::PlugRequest { path, optional, writable });
    }
    let CallSpecs { check, delete, reverse, watch } = init.calls;
    let calls = Calls { check, delete, reverse, watch };
    let others = [("delete", &calls.delete), ("reverse", &calls.reverse), ("watch", &calls.watch)];
    let named = others.into_iter().filter_map(|(name, call)| Some((name, call.as_ref()?)));
    for (name, call) in named.chain([("check", &calls.check)]) {
        call.require().map_err(|wrong| format!("calls.{name}: {wrong}"))?;
        if *call == CallSpec::default() {
            return Err(format!(
                "calls.{name}: it has to differ from the first call, which has no \
                                image, entrypoint or args"
            ));
        }
    }
    if calls.reverse.is_some() && calls.delete.is_none() {
        return Err("calls.reverse: what was not there before is deleted, so calls.delete has to \
                    be there too"
            .to_owned());
    }
    for pointer in init.sensitive.config.iter().chain(&init.sensitive.state) {
        if !pointer.starts_with('/') {
            return Err(format!("sensitive: \"{pointer}\" is no JSON pointer; it begins with /"));
        }
    }
    let files = init.depends_on_files.iter().flatten();
    if files.clone().count() > MOST_FILES || files.clone().any(String::is_empty) {
        return Err(format!(
            "depends_on_files: it has at most {MOST_FILES} paths, none of them empty"
        ));
    }
    let Timeouts { check, action } = init.timeouts;
    Ok(Init {
        is_v1: true,
        summary: init.summary,
        plugs,
        config_schema: init.config_schema.map(Value::Object),
        dependencies: init.dependencies,
        calls,
        has_network: init.network,
        timeouts: (duration("timeouts.check", check)?, duration("timeouts.action", action)?),
        depends_on_files: init.depends_on_files,
        sensitive: (init.sensitive.config, init.sensitive.state),
    })
}

pub(crate) fn read_answer(mut answer: Map<String, Value>) -> Result<Answer, String> {
    let status = status(&mut answer)?;
    let warnings = take::<Vec<String>>(&mut answer, "warnings")?.unwrap_or_default();
    let requeue_after = take::<String>(&mut answer, "requeue_after")?;
    let requeue_after = duration("requeue_after", requeue_after)?;
    let state = match status {
        Status::Valid => {
            status.require(&answer, &["state"])?;
            State::Valid(object("state", answer.remove("state").unwrap_or_default())?)
        }
        Status::Stale => State::Stale(read_stale(status, answer)?),
    };
    Ok(Answer { state, warnings, requeue_after })
}

fn read_stale(status: Status, mut answer: Map<String, Value>) -> Result<Stale, String> {
    let keys = ["actions", "staleState", "differences", "planned", "replace"];
    status.require(&answer, &keys)?;
    let now = answer.remove("staleState").filter(|now| !now.is_null());
    let planned = answer.remove("planned").map(|planned| object("planned", planned));
    let differences = take::<Vec<Difference>>(&mut answer, "differences")?.unwrap_or_default();
    let is_replaced = take::<bool>(&mut answer, "replace")?.unwrap_or_default();
    let actions = take::<Vec<ActionSpec>>(&mut answer, "actions")?.unwrap_or_default();
    let actions: Vec<_> = actions.into_iter().map(Into::into).collect();
    if actions.is_empty() && !is_replaced {
        return Err("'actions' is empty, and a STALE resource has at least one".to_owned());
    }
    require_actions(&actions)?;
    let now = now.map(|now| object("staleState", now)).transpose()?;
    Ok(Stale { now, differences, planned: planned.transpose()?, is_replaced, actions })
}

fn take<T: serde::de::DeserializeOwned>(
    answer: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, String> {
    let value = answer.remove(name).filter(|value| !value.is_null());
    let value = value.map(serde_json::from_value).transpose();
    value.map_err(|error| format!("{name}: {error}"))
}

fn duration(name: &str, text: Option<String>) -> Result<Option<Duration>, String> {
    let parse = |text: String| {
        humantime::parse_duration(&text)
            .ok()
            .filter(|it| !it.is_zero())
            .ok_or_else(|| format!("{name}: \"{text}\" is no duration; write one as \"30s\""))
    };
    text.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use crate::messages::{Answer, Init, State};

    fn refused(result: Result<impl Sized, String>, with: &str) {
        let error = result.err().unwrap_or_default();
        assert!(error.contains(with), "{error} without {with}");
    }

    fn init(more: &Value) -> Result<Init, String> {
        let mut init = json!({"protocol": 1, "calls": {"check": {"args": ["check"]}}});
        for (key, value) in more.as_object().into_iter().flatten() {
            init[key] = value.clone();
        }
        Init::read(init)
    }

    #[test]
    fn a_type_says_how_it_works() -> Result<(), String> {
        let all = json!({"summary": "a disk", "config_schema": {}, "network": true,
            "dependencies": {"net": {"type": "acme/net", "optional": true}, "any": {}},
            "depends_on_files": ["disk.py"], "plugs": {"key": {"path": "/key"}}, "timeouts": {"check": "30s", "action": "10m"},
            "sensitive": {"config": ["/password"], "state": ["/token"]},
            "calls": {"check": {"args": ["check"]}, "delete": {"args": ["delete"]},
                      "reverse": {"args": ["reverse"]}, "watch": {"args": ["watch"]}}});

        let init = init(&all)?;

        assert!(init.is_v1 && init.has_network && !init.plugs["key"].writable);
        assert_eq!(init.timeouts, (Some(Duration::from_secs(30)), Some(Duration::from_secs(600))));
        Ok(())
    }

    #[test]
    fn what_is_not_of_the_protocol_is_refused_with_its_name() {
        refused(Init::read(json!({"protocol": 2})), "there is no protocol 2; there are 0 and 1");
        refused(init(&json!({"calls": {}})), "missing field `check`");
        refused(init(&json!({"calls": {"check": {}}})), "calls.check: it has to differ");
        refused(init(&json!({"state_action": {}})), "unknown field `state_action`");
        refused(
            init(&json!({"timeouts": {"check": "soon"}})),
            "timeouts.check: \"soon\" is no duration",
        );
        refused(init(&json!({"sensitive": {"config": ["x"]}})), "\"x\" is no JSON pointer");
        refused(init(&json!({"depends_on_files": [""]})), "depends_on_files: it has at most 1000");
        let reverse = json!({"calls": {"check": {"args": ["c"]}, "reverse": {"args": ["r"]}}});
        refused(init(&reverse), "calls.delete has to be there too");

        let answer = |answer: Value| Answer::read(answer, true);
        refused(
            answer(json!({"status": "VALID", "state": {}, "planned": {}})),
            "'planned' is forbidden when status is VALID",
        );
        refused(answer(json!({"status": "STALE", "actions": []})), "'actions' is empty");
        refused(answer(json!({"status": "VALID", "state": {}, "warnings": 1})), "warnings: ");
        refused(
            answer(json!({"status": "VALID", "state": {}, "requeue_after": "0s"})),
            "requeue_after: ",
        );
        refused(answer(json!({"status": "STALE", "actions": [], "replace": 1})), "replace: ");
    }

    #[test]
    fn an_answer_has_more_than_in_protocol_0() -> Result<(), String> {
        let stale = json!({"status": "STALE", "staleState": null, "replace": true, "actions": [],
            "differences": [{"attribute": "size", "old": 1, "new": 2}], "planned": {"size": 2},
            "warnings": ["old"], "requeue_after": "10m"});

        let answer = Answer::read(stale, true)?;

        assert_eq!(answer.requeue_after, Some(Duration::from_secs(600)));
        let State::Stale(stale) = answer.state else { return Err("it is valid".to_owned()) };
        assert_eq!((stale.now, stale.is_replaced, stale.differences.len()), (None, true, 1));
        Ok(())
    }
}
