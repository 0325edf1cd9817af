//! The messages that both protocols share.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crankcase_resources::Difference;
use crankcase_resources::dynamic::Shape;
use crankcase_resources::front::add_secret;
use crankcase_workers::Secrets;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The call of a program: of the type's own one if no image is named.
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

impl CallSpec {
    /// Requires that no part that is given is empty.
    pub(crate) fn require(&self) -> Result<(), String> {
        let texts = [("image", &self.image), ("entrypoint", &self.entrypoint)];
        match texts.into_iter().find(|(_, text)| text.as_deref() == Some("")) {
            Some((name, _)) => Err(format!("'{name}' is empty")),
            None => Ok(()),
        }
    }
}

/// A file of the machine that a type asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlugRequest {
    pub(crate) path: String,
    pub(crate) optional: bool,
    pub(crate) writable: bool,
}

/// How a type works.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Init {
    pub(crate) is_v1: bool,
    pub(crate) summary: Option<String>,
    pub(crate) plugs: BTreeMap<String, PlugRequest>,
    pub(crate) config_schema: Option<Value>,
    /// The resources that its resources may depend on, by alias; any if it does not say.
    pub(crate) dependencies: Option<BTreeMap<String, Wanted>>,
    pub(crate) calls: Calls,
    /// Whether the type needs a network.
    pub(crate) has_network: bool,
    /// How long a look and an action may take, if it says so.
    pub(crate) timeouts: (Option<Duration>, Option<Duration>),
    /// The files that this answer depends on besides the program, if it says so.
    pub(crate) depends_on_files: Option<Vec<String>>,
    /// JSON pointers to the secrets in configs and in states.
    pub(crate) sensitive: (Vec<String>, Vec<String>),
}

impl Init {
    /// Adds the sensitive values of a config to the secrets.
    pub(crate) fn hide(&self, config: &Map<String, Value>, secrets: &Secrets) {
        hide(config, &self.sensitive.0, secrets);
    }

    /// Returns whether a config has a sensitive value.
    pub(crate) fn has_secrets(&self, config: &Map<String, Value>) -> bool {
        let config = Value::Object(config.clone());
        self.sensitive.0.iter().any(|pointer| config.pointer(pointer).is_some())
    }

    /// Returns all calls, by their names in the answer.
    pub(crate) fn named_calls(&self) -> impl Iterator<Item = (&'static str, &CallSpec)> {
        let Calls { check, delete, reverse, watch } = &self.calls;
        let check = (if self.is_v1 { "calls.check" } else { "state_action" }, check);
        let others = [("calls.delete", delete), ("calls.reverse", reverse), ("calls.watch", watch)];
        let others = others.into_iter().filter_map(|(name, call)| Some((name, call.as_ref()?)));
        std::iter::once(check).chain(others)
    }
}

/// A dependency of the resources of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Its type without a tag; any if it is not given.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) optional: bool,
}

/// The calls of a type for its tasks beside its actions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Calls {
    pub(crate) check: CallSpec,
    pub(crate) delete: Option<CallSpec>,
    pub(crate) reverse: Option<CallSpec>,
    pub(crate) watch: Option<CallSpec>,
}

/// An action that makes a resource as declared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ActionSpec {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) call: CallSpec,
    /// The attributes that it changes, if the type says so.
    pub(crate) changes: Vec<String>,
}

/// The answer of a type about a resource.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) state: State,
    pub(crate) warnings: Vec<String>,
    /// When it is to be looked at again.
    pub(crate) requeue_after: Option<Duration>,
}

/// Whether a resource is as declared.
#[derive(Clone, PartialEq)]
pub(crate) enum State {
    Valid(Map<String, Value>),
    Stale(Stale),
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid(state) => f.debug_tuple("Valid").field(&Shape::of_map(state)).finish(),
            Self::Stale(stale) => f.debug_tuple("Stale").field(stale).finish(),
        }
    }
}

impl State {
    /// Adds the values that are sensitive by the type's first answer to the secrets.
    pub(crate) fn hide(&self, init: &Init, secrets: &Secrets) {
        let states: Vec<_> = match self {
            Self::Valid(state) => vec![state],
            Self::Stale(Stale { now, planned, .. }) => now.iter().chain(planned).collect(),
        };
        states.into_iter().for_each(|state| hide(state, &init.sensitive.1, secrets));
    }
}

fn hide(values: &Map<String, Value>, pointers: &[String], secrets: &Secrets) {
    let values = Value::Object(values.clone());
    for value in pointers.iter().filter_map(|pointer| values.pointer(pointer)) {
        add_secret(value, secrets);
    }
}

/// A resource that is not as declared.
#[derive(Clone, PartialEq, Default)]
pub(crate) struct Stale {
    /// Its state; none if it does not exist.
    pub(crate) now: Option<Map<String, Value>>,
    pub(crate) differences: Vec<Difference>,
    /// Its state after the actions, as far as it is known.
    pub(crate) planned: Option<Map<String, Value>>,
    /// Whether the resource must be deleted before its actions.
    pub(crate) is_replaced: bool,
    pub(crate) actions: Vec<ActionSpec>,
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Stale");
        shown.field("now", &self.now.as_ref().map(Shape::of_map));
        shown.field("planned", &self.planned.as_ref().map(Shape::of_map)).finish_non_exhaustive()
    }
}

/// Takes the status out of an answer.
pub(crate) fn status(answer: &mut Map<String, Value>) -> Result<Status, String> {
    let status = answer.remove("status").ok_or("'status' is a required property")?;
    match status.as_str() {
        Some("VALID") => Ok(Status::Valid),
        Some("STALE") => Ok(Status::Stale),
        _ => Err(format!("{status} is no status; there are VALID and STALE")),
    }
}

/// Whether a resource is as declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Valid,
    Stale,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Stale => "STALE",
        }
    }

    /// Requires that an answer has only these keys, and the first of them.
    pub(crate) fn require(self, answer: &Map<String, Value>, keys: &[&str]) -> Result<(), String> {
        let strange = answer.keys().find(|key| !keys.contains(&key.as_str()));
        if let Some(key) = strange {
            let is_known = ["actions", "state", "staleState", "planned", "differences", "replace"];
            return Err(match is_known.contains(&key.as_str()) {
                true => format!("'{key}' is forbidden when status is {}", self.word()),
                false => {
                    format!("Additional properties are not allowed ('{key}' was unexpected)")
                }
            });
        }
        let required = keys.first().filter(|key| !answer.contains_key(**key));
        required.map_or(Ok(()), |key| Err(format!("'{key}' is a required property")))
    }
}

/// Takes an object.
pub(crate) fn object(name: &str, value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(map) => Ok(map),
        other => {
            let shown = crankcase_resources::dynamic::cut_after(&other.to_string(), 100);
            Err(format!("'{name}' is no object: {shown}"))
        }
    }
}

/// Requires that an action has a name, and that no part of it that is given is empty.
pub(crate) fn require_actions(actions: &[ActionSpec]) -> Result<(), String> {
    for (at, action) in actions.iter().enumerate() {
        let wrong = match action {
            ActionSpec { name, .. } if name.is_empty() => Err("'name' is empty".to_owned()),
            ActionSpec { description: Some(text), .. } if text.is_empty() => {
                Err("'description' is empty".to_owned())
            }
            action => action.call.require(),
        };
        wrong.map_err(|wrong| format!("actions[{at}]: {wrong}"))?;
    }
    Ok(())
}
