//! The messages of protocol 0, which is Deployster's: byte-compatible, and so without extensions.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::messages::{
    self, Answer, CallSpec, Calls, Init, Stale, State, Status, object, require_actions, status,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InitResult {
    #[serde(default)]
    plugs: BTreeMap<String, PlugRequest>,
    #[serde(default)]
    config_schema: Option<Map<String, Value>>,
    state_action: CallSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlugRequest {
    container_path: String,
    #[serde(default)]
    optional: bool,
    #[serde(default = "yes")]
    writable: bool,
}

fn yes() -> bool {
    true
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
}

impl From<ActionSpec> for messages::ActionSpec {
    fn from(spec: ActionSpec) -> Self {
        let ActionSpec { name, description, image, entrypoint, args } = spec;
        let call = CallSpec { image, entrypoint, args };
        Self { name, description, call, changes: Vec::new() }
    }
}

pub(crate) fn read_init(answer: Value) -> Result<Init, String> {
    let init: InitResult = serde_json::from_value(answer).map_err(|error| error.to_string())?;
    let mut plugs = BTreeMap::new();
    for (name, PlugRequest { container_path: path, optional, writable }) in init.plugs {
        if path.is_empty() {
            return Err(format!("the container_path of plug '{name}' is empty"));
        }
        plugs.insert(name, messages::PlugRequest { path, optional, writable });
    }
    init.state_action.require().map_err(|wrong| format!("state_action: {wrong}"))?;
    if init.state_action == CallSpec::default() {
        return Err("state action must not equal the default 'init' action (must have image, \
                    entrypoint, args, or several of them)"
            .to_owned());
    }
    Ok(Init {
        is_v1: false,
        summary: None,
        plugs,
        config_schema: init.config_schema.map(Value::Object),
        dependencies: None,
        calls: Calls { check: init.state_action, ..Calls::default() },
        has_network: true,
        timeouts: (None, None),
        depends_on_files: None,
        sensitive: (Vec::new(), Vec::new()),
    })
}

pub(crate) fn read_answer(mut answer: Map<String, Value>) -> Result<Answer, String> {
    let status = status(&mut answer)?;
    let state = match status {
        Status::Valid => {
            status.require(&answer, &["state"])?;
            State::Valid(object("state", answer.remove("state").unwrap_or_default())?)
        }
        Status::Stale => {
            status.require(&answer, &["actions", "staleState"])?;
            let now = answer.remove("staleState").map(|now| object("staleState", now));
            let actions = answer.remove("actions").unwrap_or_default();
            let actions: Vec<ActionSpec> =
                serde_json::from_value(actions).map_err(|error| format!("actions: {error}"))?;
            if actions.is_empty() {
                return Err("'actions' is empty, and a STALE resource has at least one".to_owned());
            }
            let actions: Vec<_> = actions.into_iter().map(Into::into).collect();
            require_actions(&actions)?;
            State::Stale(Stale { now: now.transpose()?, actions, ..Stale::default() })
        }
    };
    Ok(Answer { state, warnings: Vec::new(), requeue_after: None })
}

/// Returns the input of every call of a type about its resource.
pub(crate) fn input(
    (name, kind): (&str, &str),
    (version, is_verbose): (&str, bool),
    workspace: &str,
) -> Value {
    json!({
        "name": name,
        "type": kind,
        "version": version,
        "verbose": is_verbose,
        "workspace": workspace,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::messages::{Answer, Init, State};

    fn init(answer: Value) -> Result<(), String> {
        Init::read(answer).map(drop)
    }

    fn state(answer: Value) -> Result<(), String> {
        Answer::read(answer, false).map(drop)
    }

    fn refused(result: Result<(), String>, with: &str) {
        let error = result.expect_err(with);
        assert!(error.contains(with), "{error} without {with}");
    }

    #[test]
    fn the_examples_of_the_protocol_are_read() -> Result<(), String> {
        let plug = json!({"container_path": "/p", "optional": false, "writable": false});
        let schema = json!({"type": "object", "additionalProperties": true});
        let with_all = json!({"plugs": {"file": plug, "other": {"container_path": "/o"}},
                              "config_schema": schema, "state_action": {"args": ["state"]}});

        let read = Init::read(with_all)?;

        assert!(!read.plugs["file"].writable && read.plugs["other"].writable);
        assert!(!read.plugs["other"].optional);
        init(json!({"state_action": {"image": "reg:5000/x:1@sha256:0"}}))?;
        state(json!({"status": "VALID", "state": {}}))?;
        let action = json!({"name": "notify", "description": "d", "image": "acme/slack",
                            "entrypoint": "/e", "args": ["--room=x"]});
        let stale = json!({"status": "STALE", "staleState": {"a": 1}, "actions": [action]});
        let State::Stale(stale) = Answer::read(stale, false)?.state else {
            return Err("it is not stale".to_owned());
        };
        assert_eq!(
            (stale.now.is_some(), &*stale.actions[0].call.args),
            (true, &["--room=x".to_owned()][..])
        );
        Ok(())
    }

    #[test]
    fn what_is_not_of_the_protocol_is_refused_with_its_name() {
        refused(init(json!({})), "missing field `state_action`");
        refused(
            init(json!({"state_action": {"args": ["x"]}, "label": 1})),
            "unknown field `label`",
        );
        refused(init(json!({"state_action": {}})), "must not equal the default 'init' action");
        refused(init(json!({"state_action": {"image": ""}})), "'image' is empty");
        refused(init(json!({"state_action": {"args": "x"}})), "expected a sequence");
        refused(
            init(json!({"plugs": {"p": {}}, "state_action": {"args": ["x"]}})),
            "`container_path`",
        );

        refused(
            state(json!({"status": "VALID", "state": {}, "actions": []})),
            "'actions' is forbidden when status is VALID",
        );
        refused(
            state(json!({"status": "VALID", "state": {}, "staleState": {}})),
            "'staleState' is forbidden when status is VALID",
        );
        refused(state(json!({"status": "VALID"})), "'state' is a required property");
        refused(state(json!({"status": "VALID", "state": 3})), "'state' is no object: 3");
        refused(state(json!({"status": "MISSING"})), "\"MISSING\" is no status");
        refused(state(json!({"state": {}})), "'status' is a required property");
        refused(state(json!({"status": "STALE"})), "'actions' is a required property");
        refused(state(json!({"status": "STALE", "actions": []})), "'actions' is empty");
        refused(
            state(json!({"status": "STALE", "actions": [{"name": ""}]})),
            "actions[0]: 'name' is empty",
        );
        refused(
            state(json!({"status": "STALE", "actions": [{"name": "x", "cmd": 1}]})),
            "unknown field `cmd`",
        );
        refused(
            state(json!({"status": "STALE", "state": {}, "actions": [{"name": "x"}]})),
            "'state' is forbidden when status is STALE",
        );
        refused(state(json!([])), "it is no object");
    }
}
