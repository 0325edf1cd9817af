//! The arguments of a tool.

use rmcp::model::JsonObject;
use serde_json::Value;

use crate::exit::{ExitError, USAGE};

/// The arguments that were not taken yet.
pub(super) struct Asked(JsonObject);

impl Asked {
    pub(super) fn new(arguments: JsonObject) -> Self {
        Self(arguments)
    }

    pub(super) fn text(&mut self, name: &str) -> anyhow::Result<Option<String>> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(usage(&format!("{name:?} is a text, not {other}"))),
        }
    }

    pub(super) fn required(&mut self, name: &str) -> anyhow::Result<String> {
        let missing = || usage(&format!("the argument {name:?} is missing"));
        self.text(name)?.ok_or_else(missing)
    }

    /// Takes a whole number from 0 to `most`.
    pub(super) fn number(&mut self, name: &str, most: u64) -> anyhow::Result<Option<u64>> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number <= most) {
                Some(number) => Ok(Some(number)),
                None => {
                    let text = format!("{name:?} is a whole number from 0 to {most}, not {value}");
                    Err(usage(&text))
                }
            },
        }
    }

    /// Refuses what no tool has taken.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(usage(&format!("there is no argument {name:?}"))),
        }
    }
}

fn usage(text: &str) -> anyhow::Error {
    ExitError::new(USAGE, text).into()
}
