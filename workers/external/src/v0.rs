//! The messages of protocol 0, which is Deployster's: byte-compatible, and so without extensions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What a type answers when it is asked how it works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InitResult {
    #[serde(default)]
    pub(crate) plugs: BTreeMap<String, PlugRequest>,
    #[serde(default)]
    pub(crate) config_schema: Option<Map<String, Value>>,
    pub(crate) state_action: CallSpec,
}

/// A file of the machine that a type asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlugRequest {
    pub(crate) container_path: String,
    #[serde(default)]
    pub(crate) optional: bool,
    #[serde(default = "yes")]
    pub(crate) writable: bool,
}

fn yes() -> bool {
    true
}

/// How a program is called: the type's own one if no image is named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) entrypoint: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
}

/// An action that makes a resource as declared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActionSpec {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    entrypoint: Option<String>,
    #[serde(default)]
    args: Vec<String>,
}

/// How a resource was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    Valid(Map<String, Value>),
    Stale { now: Option<Map<String, Value>>, actions: Vec<ActionSpec> },
}

impl InitResult {
    /// Reads an answer.
    ///
    /// # Errors
    ///
    /// What in it is not of the protocol.
    pub(crate) fn read(answer: Value) -> Result<Self, String> {
        let init: Self = serde_json::from_value(answer).map_err(|error| error.to_string())?;
        let paths = init.plugs.iter().filter(|(_, plug)| plug.container_path.is_empty());
        if let Some((name, _)) = paths.into_iter().next() {
            return Err(format!("the container_path of plug '{name}' is empty"));
        }
        init.state_action.require().map_err(|wrong| format!("state_action: {wrong}"))?;
        if init.state_action == CallSpec::default() {
            return Err("state action must not equal the default 'init' action (must have image, \
                        entrypoint, args, or several of them)"
                .to_owned());
        }
        Ok(init)
    }
}

impl CallSpec {
    fn require(&self) -> Result<(), String> {
        let texts = [("image", &self.image), ("entrypoint", &self.entrypoint)];
        match texts.into_iter().find(|(_, text)| text.as_deref() == Some("")) {
            Some((name, _)) => Err(format!("'{name}' is empty")),
            None => Ok(()),
        }
    }
}

impl ActionSpec {
    /// Returns how the action is called.
    pub(crate) fn call(&self) -> CallSpec {
        let (image, entrypoint) = (self.image.clone(), self.entrypoint.clone());
        CallSpec { image, entrypoint, args: self.args.clone() }
    }
}

impl State {
    /// Reads an answer.
    ///
    /// # Errors
    ///
    /// What in it is not of the protocol.
    pub(crate) fn read(answer: Value) -> Result<Self, String> {
        let Value::Object(mut answer) = answer else {
            return Err("it is no object".to_owned());
        };
        let status = answer.remove("status").ok_or("'status' is a required property")?;
        let (required, optional) = match status.as_str() {
            Some("VALID") => ("state", None),
            Some("STALE") => ("actions", Some("staleState")),
            _ => return Err(format!("{status} is no status; there are VALID and STALE")),
        };
        let is_known = |key: &String| key == required || Some(key.as_str()) == optional;
        if let Some(key) = answer.keys().find(|key| !is_known(key)) {
            return Err(match key.as_str() {
                "actions" | "state" | "staleState" => {
                    format!(
                        "'{key}' is forbidden when status is {}",
                        status.as_str().unwrap_or_default()
                    )
                }
                _ => format!("Additional properties are not allowed ('{key}' was unexpected)"),
            });
        }
        let value = answer.remove(required);
        let value = value.ok_or_else(|| format!("'{required}' is a required property"))?;
        if required == "state" {
            return Ok(Self::Valid(object("state", value)?));
        }
        let now = answer.remove("staleState").map(|now| object("staleState", now)).transpose()?;
        let actions: Vec<ActionSpec> =
            serde_json::from_value(value).map_err(|error| format!("actions: {error}"))?;
        if actions.is_empty() {
            return Err("'actions' is empty, and a STALE resource has at least one".to_owned());
        }
        for (at, action) in actions.iter().enumerate() {
            let wrong = match action {
                ActionSpec { name, .. } if name.is_empty() => Err("'name' is empty".to_owned()),
                ActionSpec { description: Some(text), .. } if text.is_empty() => {
                    Err("'description' is empty".to_owned())
                }
                action => action.call().require(),
            };
            wrong.map_err(|wrong| format!("actions[{at}]: {wrong}"))?;
        }
        Ok(Self::Stale { now, actions })
    }
}

fn object(name: &str, value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(format!(
            "'{name}' is no object: {}",
            crankcase_resources::cut_after(&other.to_string(), 100)
        )),
    }
}

/// What every call of a type is told of its resource.
pub(crate) fn init_input(
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

    use super::{InitResult, State};

    fn init(answer: Value) -> Result<(), String> {
        InitResult::read(answer).map(drop)
    }

    fn state(answer: Value) -> Result<(), String> {
        State::read(answer).map(drop)
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

        let read = InitResult::read(with_all)?;

        assert!(!read.plugs["file"].writable && read.plugs["other"].writable);
        assert!(!read.plugs["other"].optional);
        init(json!({"state_action": {"image": "reg:5000/x:1@sha256:0"}}))?;
        state(json!({"status": "VALID", "state": {}}))?;
        let action = json!({"name": "notify", "description": "d", "image": "acme/slack",
                            "entrypoint": "/e", "args": ["--room=x"]});
        let stale = json!({"status": "STALE", "staleState": {"a": 1}, "actions": [action]});
        let State::Stale { now: Some(_), actions } = State::read(stale)? else {
            return Err("it is not stale".to_owned());
        };
        assert_eq!(actions[0].call().args, ["--room=x"]);
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
