//! The values of expressions, made of JSON and turned back into it.

use std::collections::BTreeMap;

use crankcase_resources::front::UNUSABLE;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::{Map, Number};

use crate::manifest::bounds::size_of;
use crate::manifest::expression::budget::{Budget, MAX_DEPTH, TOO_DEEP};

/// Makes a value for expressions.
pub(crate) fn from_json(value: &serde_json::Value) -> Value {
    Value::from(Serde(value))
}

/// Makes a value of a state. An attribute that the state says is unusable is an error for whatever uses it.
pub(crate) fn from_state(state: &serde_json::Value) -> Value {
    let (Some(attributes), Some(unusable)) = (state.as_object(), state[UNUSABLE].as_object())
    else {
        return from_json(state);
    };
    let known = attributes.iter().map(|(name, value)| (name.as_str(), from_json(value)));
    let reasons = unusable.iter().filter_map(|(name, why)| Some((name, why.as_str()?)));
    let unusable =
        reasons.filter(|(name, _)| !attributes.contains_key(*name)).map(|(name, why)| {
            let error =
                Error::new(ErrorKind::InvalidOperation, format!("{name} cannot be used: {why}"));
            (name.as_str(), Value::from(error))
        });
    known.chain(unusable).collect::<BTreeMap<_, _>>().into()
}

/// Returns the error that a value stands for.
pub(super) fn no_value(value: &Value) -> String {
    // minijinja gives the error in no other way.
    let text = value.to_string();
    let error = text.strip_prefix("<invalid value: ").and_then(|text| text.strip_suffix('>'));
    let error = error.unwrap_or(&text);
    let kind = format!("{}: ", ErrorKind::InvalidOperation);
    format!("the result is no value: {}", error.strip_prefix(&kind).unwrap_or(error))
}

/// Refuses a value that stands for an error, or holds one: such values have no order. It was walked through
/// before, so it is no deeper than values may be.
pub(super) fn require_values(value: &Value) -> Result<(), String> {
    match value.kind() {
        ValueKind::Invalid => Err(no_value(value)),
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter().into_iter().flatten().try_for_each(|item| require_values(&item))
        }
        ValueKind::Map => value.try_iter().into_iter().flatten().try_for_each(|key| {
            let inner = value.get_item(&key);
            inner.map_or(Ok(()), |inner| require_values(&inner))
        }),
        _ => Ok(()),
    }
}

/// Takes the result of an expression. Undefined is refused, at every depth.
pub(crate) fn to_json(value: &Value, budget: &mut Budget) -> Result<serde_json::Value, String> {
    convert(value, 0, budget)
}

/// Returns how many bytes a value counts in its site.
pub(crate) fn size(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => size_of(text.len()),
        serde_json::Value::Array(items) => items.iter().map(size).sum::<usize>() + size_of(0),
        serde_json::Value::Object(map) => {
            map.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>() + size_of(0)
        }
        _ => size_of(0),
    }
}

fn convert(value: &Value, depth: usize, budget: &mut Budget) -> Result<serde_json::Value, String> {
    if depth > MAX_DEPTH {
        return Err(TOO_DEEP.to_owned());
    }
    budget.steps(1)?;
    budget.value(value.as_str().map_or(0, str::len))?;
    match value.kind() {
        ValueKind::None => Ok(serde_json::Value::Null),
        ValueKind::Bool => Ok(value.is_true().into()),
        ValueKind::Number => number(value).map(Into::into),
        ValueKind::String => Ok(value.as_str().unwrap_or_default().into()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|err| err.to_string())?;
            items.map(|item| convert(&item, depth + 1, budget)).collect()
        }
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter().map_err(|err| err.to_string())? {
                let Some(name) = key.as_str() else {
                    return Err(format!("the key of a map is a text, not {key}"));
                };
                let inner = value.get_item(&key).map_err(|err| err.to_string())?;
                budget.value(name.len())?;
                map.insert(name.to_owned(), convert(&inner, depth + 1, budget)?);
            }
            Ok(map.into())
        }
        ValueKind::Undefined => Err("the result holds an undefined value".to_owned()),
        ValueKind::Invalid => Err(no_value(value)),
        other => Err(format!("the result is {other}, which is no plain value")),
    }
}

fn number(value: &Value) -> Result<Number, String> {
    if value.is_integer() {
        if let Some(number) = value.as_i64() {
            return Ok(number.into());
        }
        return match u64::try_from(value.clone()) {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(format!("{value} is too large for a number of 64 bits")),
        };
    }
    let number = f64::try_from(value.clone()).map_err(|err| err.to_string())?;
    Number::from_f64(number).ok_or_else(|| format!("{value} is not a finite number"))
}
