//! The arguments of a tool.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::answer::Refusal;

/// The arguments that were not taken yet.
pub(super) struct Asked(JsonObject);

impl Asked {
    pub(super) fn new(arguments: JsonObject) -> Self {
        Self(arguments)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(Refusal::usage(format!("{name:?} is a text, not {other}"))),
        }
    }

    pub(super) fn required(&mut self, name: &str) -> Result<String, Refusal> {
        let missing = || Refusal::usage(format!("the argument {name:?} is missing"));
        self.text(name)?.ok_or_else(missing)
    }

    /// Takes a whole number from 0 to `most`.
    pub(super) fn number(&mut self, name: &str, most: u64) -> Result<Option<u64>, Refusal> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number <= most) {
                Some(number) => Ok(Some(number)),
                None => {
                    let message =
                        format!("{name:?} is a whole number from 0 to {most}, not {value}");
                    Err(Refusal::usage(message))
                }
            },
        }
    }

    /// Refuses what no tool has taken.
    pub(super) fn finish(self) -> Result<(), Refusal> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Refusal::usage(format!("there is no argument {name:?}"))),
        }
    }
}
