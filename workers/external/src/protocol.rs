//! The protocols: the choice of the one that an answer follows, and both as JSON Schemas.

use serde_json::Value;

use crate::messages::{Answer, Init};
use crate::{v0, v1};

/// Returns the JSON Schema (draft 2020-12) of a protocol, 0 or 1, with a definition for each message:
/// `init_input`, `init_answer` and so on.
pub fn protocol(version: u8) -> Option<Value> {
    let schema = match version {
        0 => include_str!("../schemas/protocol-0.json"),
        1 => include_str!("../schemas/protocol-1.json"),
        _ => return None,
    };
    serde_json::from_str(schema).ok()
}

impl Init {
    /// Reads the answer of a type to the question how it works.
    ///
    /// # Errors
    ///
    /// If the answer does not follow its protocol: the text says where.
    pub(crate) fn read(answer: Value) -> Result<Self, String> {
        match answer.get("protocol") {
            None => v0::read_init(answer),
            Some(version) if *version == 1 => v1::read_init(answer),
            Some(version) => Err(format!("there is no protocol {version}; there are 0 and 1")),
        }
    }
}

impl Answer {
    /// Reads the answer of a type about a resource.
    ///
    /// # Errors
    ///
    /// If the answer does not follow its protocol: the text says where.
    pub(crate) fn read(answer: Value, is_v1: bool) -> Result<Self, String> {
        let Value::Object(answer) = answer else { return Err("it is no object".to_owned()) };
        if is_v1 { v1::read_answer(answer) } else { v0::read_answer(answer) }
    }
}

#[cfg(test)]
mod tests {
    use jsonschema::Validator;
    use serde_json::{Value, json};

    use super::protocol;
    use crate::messages::{Answer, Init};

    /// Returns the validator of a message of a protocol.
    fn schema(version: u8, message: &str) -> Validator {
        let mut schema = protocol(version).unwrap_or_default();
        schema["$ref"] = format!("#/$defs/{message}").into();
        jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Requires that the schema and the reader accept and refuse the same messages.
    fn agree(schema: &Validator, read: impl Fn(Value) -> bool, base: &Value, changes: &[Value]) {
        for change in changes {
            let mut message = base.clone();
            for (key, value) in change.as_object().into_iter().flatten() {
                match (value, message.as_object_mut()) {
                    (Value::String(text), Some(map)) if text == "REMOVED" => drop(map.remove(key)),
                    (value, Some(map)) => drop(map.insert(key.clone(), value.clone())),
                    (_, None) => {}
                }
            }
            assert_eq!(schema.is_valid(&message), read(message.clone()), "{message}");
        }
    }

    #[test]
    fn the_schemas_say_what_is_read_of_a_first_answer() {
        let read = |answer| Init::read(answer).is_ok();
        agree(
            &schema(0, "init_answer"),
            read,
            &json!({"state_action": {"args": ["state"]}}),
            &[
                json!({}),
                json!({"state_action": "REMOVED"}),
                json!({"state_action": {}}),
                json!({"state_action": {"args": []}}),
                json!({"state_action": {"image": ""}}),
                json!({"state_action": {"image": "x", "entrypoint": "y"}}),
                json!({"state_action": {"image": "x", "label": "y"}}),
                json!({"config_schema": {}}),
                json!({"config_schema": true}),
                json!({"plugs": {"p": {"container_path": "/p"}}}),
                json!({"plugs": {"p": {"container_path": ""}}}),
                json!({"plugs": {"p": {}}}),
                json!({"plugs": {"p": {"container_path": "/p", "optional": 1}}}),
                json!({"label": "x"}),
            ],
        );
        let base = json!({"protocol": 1, "calls": {"check": {"args": ["check"]}}});
        agree(
            &schema(1, "init_answer"),
            read,
            &base,
            &[
                json!({}),
                json!({"protocol": 3}),
                json!({"calls": {}}),
                json!({"calls": {"check": {}}}),
                json!({"calls": {"check": {"args": ["c"]}, "delete": {"args": ["d"]}, "reverse": {"args": ["r"]}}}),
                json!({"calls": {"check": {"args": ["c"]}, "reverse": {"args": ["r"]}}}),
                json!({"calls": {"check": {"args": ["c"]}, "watch": {"entrypoint": ""}}}),
                json!({"dependencies": {"a": {}, "b": {"type": "x", "optional": true}}}),
                json!({"dependencies": {"a": {"kind": "x"}}}),
                json!({"network": true}),
                json!({"depends_on_files": []}),
                json!({"depends_on_files": ["a", "/b"]}),
                json!({"depends_on_files": [""]}),
                json!({"depends_on_files": "a"}),
                json!({"network": "host"}),
                json!({"timeouts": {"check": "1m"}}),
                json!({"timeouts": {"look": "1m"}}),
                json!({"sensitive": {"config": ["/a"], "state": []}}),
                json!({"sensitive": {"config": ["a"]}}),
                json!({"plugs": {"p": {"path": "/p", "writable": true}}}),
                json!({"plugs": {"p": {"container_path": "/p"}}}),
                json!({"state_action": {"args": ["x"]}}),
                json!({"summary": 3}),
            ],
        );
    }

    #[test]
    fn the_schemas_say_what_is_read_of_a_resource() {
        let action = json!([{"name": "make"}]);
        let changes = [
            json!({}),
            json!({"status": "REMOVED"}),
            json!({"status": "MISSING"}),
            json!({"state": {}}),
            json!({"staleState": {}}),
            json!({"staleState": []}),
            json!({"actions": []}),
            json!({"actions": "REMOVED"}),
            json!({"actions": [{"name": ""}]}),
            json!({"actions": [{"name": "x", "description": "d", "image": "i", "args": ["a"]}]}),
            json!({"actions": [{"name": "x", "description": ""}]}),
            json!({"actions": [{"name": "x", "cmd": "y"}]}),
            json!({"extra": 1}),
        ];
        let valid = [
            json!({}),
            json!({"state": "REMOVED"}),
            json!({"state": 1}),
            json!({"actions": []}),
            json!({"staleState": {}}),
        ];
        for (version, name) in [(0, "state_answer"), (1, "check_answer")] {
            let schema = schema(version, name);
            let read = |answer| Answer::read(answer, version == 1).is_ok();
            let stale = json!({"status": "STALE", "actions": action});
            agree(&schema, read, &stale, &changes);
            agree(&schema, read, &json!({"status": "VALID", "state": {}}), &valid);
        }
        let schema = schema(1, "check_answer");
        let read = |answer| Answer::read(answer, true).is_ok();
        agree(
            &schema,
            read,
            &json!({"status": "STALE", "actions": action}),
            &[
                json!({"staleState": null, "planned": {"a": 1}, "replace": true}),
                json!({"actions": [], "replace": true}),
                json!({"actions": [], "replace": false}),
                json!({"planned": 1}),
                json!({"differences": [{"attribute": "a", "old": 1, "new": null}]}),
                json!({"differences": [{"attribute": "a"}]}),
                json!({"warnings": ["w"], "requeue_after": "1m"}),
                json!({"warnings": "w"}),
            ],
        );
    }
}
