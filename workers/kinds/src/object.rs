//! Attributes that are maps with parameters of their own.

use std::collections::BTreeSet;

use crankcase_resources::dynamic::{KnownConfig, Reader, Table, shown};
use crankcase_resources::{Field, Wrong};
use serde_json::Value;

/// Reads a map with these parameters. The error has all that is wrong with it.
pub(crate) fn read<T>(
    value: &Value,
    table: &Table,
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, String>,
) -> Result<T, Wrong> {
    let Value::Object(map) = value else {
        let names = table.names().collect::<Vec<_>>().join(", ");
        return Err(format!("{} is not a map of {names}", shown(value)).into());
    };
    let unknown = BTreeSet::new();
    let mut reader = Reader::new(table, &KnownConfig { config: map, unknown: &unknown });
    let taken = take(&mut reader);
    let errors: Vec<_> = reader.into_errors().iter().map(ToString::to_string).collect();
    match errors.is_empty() {
        true => taken.map_err(Wrong::from),
        false => Err(errors.join("; ").into()),
    }
}

/// Reads a parameter that need not be given.
pub(crate) fn optional<T: Field>(reader: &mut Reader<'_>, name: &str) -> Option<T> {
    reader.field::<Option<T>>(name).given().flatten()
}

/// Returns the one that is given of some choices.
pub(crate) fn only<T>(
    choices: impl IntoIterator<Item = (&'static str, Option<T>)>,
) -> Result<T, String> {
    let (mut names, mut given) = (Vec::new(), Vec::new());
    for (name, choice) in choices {
        names.push(name);
        given.extend(choice);
    }
    match given.pop() {
        Some(choice) if given.is_empty() => Ok(choice),
        _ => Err(format!("give one of {}", names.join(", "))),
    }
}
