//! Secrets in values.

use std::borrow::Cow;

use crankcase_workers::Secrets;
use serde_json::{Map, Value};

use crate::declare::params::{HIDDEN, Table};

/// Takes the sensitive attributes of a config, or of a state, for secrets.
pub(crate) fn note_secrets(values: &Map<String, Value>, table: &Table, secrets: &Secrets) {
    for parameter in table.parameters.iter().filter(|parameter| parameter.is_sensitive) {
        if let Some(value) = values.get(&parameter.name) {
            add_secret(value, secrets);
        }
    }
}

/// Returns whether a config, or a state, has a sensitive attribute.
pub(crate) fn has_sensitive(values: &Map<String, Value>, table: &Table) -> bool {
    let mut sensitive = table.parameters.iter().filter(|parameter| parameter.is_sensitive);
    sensitive.any(|parameter| values.contains_key(&parameter.name))
}

/// Takes all texts and numbers of a value for secrets.
pub fn add_secret(value: &Value, secrets: &Secrets) {
    match value {
        Value::String(text) => secrets.add(text),
        Value::Number(number) => secrets.add(&number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| add_secret(item, secrets)),
        Value::Object(map) => map.values().for_each(|value| add_secret(value, secrets)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Takes for secrets what is hidden in a value where it is shown.
pub(crate) fn add_hidden((value, shown): (&Value, &Value), secrets: &Secrets) {
    match (value, shown) {
        (_, Value::String(text)) if text == HIDDEN => add_secret(value, secrets),
        (Value::Object(values), Value::Object(shown)) => {
            let both = values.iter().filter_map(|(name, value)| Some((value, shown.get(name)?)));
            both.for_each(|both| add_hidden(both, secrets));
        }
        (Value::Array(values), Value::Array(shown)) => {
            values.iter().zip(shown).for_each(|both| add_hidden(both, secrets));
        }
        _ => {}
    }
}

/// Returns what some keys lead to.
pub(crate) fn at<'a>(value: &'a Value, keys: &[String]) -> Option<&'a Value> {
    keys.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}

/// Hides the secrets in a value.
pub(crate) fn redact_value(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => redact_text(text, secrets),
        Value::Number(number) => {
            if let Cow::Owned(redacted) = secrets.redact(&number.to_string()) {
                *value = redacted.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_value(item, secrets)),
        Value::Object(map) => map.values_mut().for_each(|value| redact_value(value, secrets)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Hides the secrets in a text.
pub(crate) fn redact_text(text: &mut String, secrets: &Secrets) {
    if let Cow::Owned(redacted) = secrets.redact(text) {
        *text = redacted;
    }
}
