//! The forms in which operations are written: triples, maps, and the patches of RFC 6902.

use serde_json::{Map, Value};

use crate::operation::{Operation, described};
use crate::pointer::Pointer;
use crate::violation::{Invalid, Violation, did_you_mean, shown};

/// The places of the parts of an operation in its document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    pub(crate) path: Pointer,
    pub(crate) data: Pointer,
}

/// Writes an operation in the form in which it was read, or as a triple.
pub(crate) fn operation_as(operation: &Operation, written: Option<&Written>) -> Value {
    let path = operation.path().to_string();
    let (name, data) = match operation {
        Operation::Set(_, data) => ("SET", Some(data.clone())),
        Operation::Insert(_, data) => ("INSERT", Some(data.clone())),
        Operation::Delete(_) => ("DELETE", None),
        Operation::Test(_, data) => ("TEST", Some(data.clone())),
        Operation::Add(_, data) => ("ADD", Some(data.clone())),
        Operation::Replace(_, data) => ("REPLACE", Some(data.clone())),
        Operation::Move(from, _) => ("MOVE", Some(from.to_string().into())),
        Operation::Copy(from, _) => ("COPY", Some(from.to_string().into())),
    };
    let in_patch = match name {
        "DELETE" => "remove".to_owned(),
        name => name.to_lowercase(),
    };
    let is_in_patch = written.is_some_and(|it| it.path.segments().next() == Some("patch"));
    let is_named = written.is_some_and(|it| it.path.segments().next_back() == Some("path"));
    let has_from = matches!(operation, Operation::Move(..) | Operation::Copy(..));
    let data = data.map(|data| match (is_in_patch, has_from) {
        (true, true) => ("from", data),
        (true, false) => ("value", data),
        (false, _) => ("data", data),
    });
    let op = if is_in_patch { in_patch.into() } else { name.into() };
    if is_named {
        let all = [("op", op), ("path", path.into())].into_iter().chain(data);
        return all.map(|(key, value)| (key.to_owned(), value)).collect();
    }
    [op, path.into()].into_iter().chain(data.map(|(_, data)| data)).collect()
}

/// The names of the operations.
const OPERATIONS: [&str; 4] = ["SET", "INSERT", "DELETE", "TEST"];

/// Reads a triple, or a map `{op, path, data}`.
pub(crate) fn read_operation(item: &Value, at: &Pointer) -> Result<(Operation, Written), Invalid> {
    let (op, path, data, keys) = match item {
        Value::Array(items) => {
            if items.len() > 3 || items.len() < 2 {
                let message =
                    format!("an operation is [OP, PATH, DATA], not {} items", items.len());
                return Err(Violation::of_document(at, message).into());
            }
            (&items[0], &items[1], items.get(2), ["0", "1", "2"])
        }
        Value::Object(map) => {
            check_members(map, &["op", "path", "data"], at)?;
            let (op, path) = (required(map, "op", at)?, required(map, "path", at)?);
            (op, path, map.get("data"), ["op", "path", "data"])
        }
        other => {
            let message = format!("an operation is [OP, PATH, DATA], not {}", described(other));
            return Err(Violation::of_document(at, message).into());
        }
    };
    let [op_at, path_at, data_at] = keys.map(|key| at.join(key));
    let name = op.as_str().unwrap_or_default();
    let path = pointer(path, &path_at)?;
    let with_data = || -> Result<Value, Invalid> {
        data.cloned().ok_or_else(|| Violation::of_document(at, format!("{name} takes data")).into())
    };
    let from = || pointer(&with_data()?, &data_at);
    let operation = match name {
        "SET" => Operation::Set(path, with_data()?),
        "INSERT" => Operation::Insert(path, with_data()?),
        "TEST" => Operation::Test(path, with_data()?),
        "DELETE" if data.is_some_and(|data| !data.is_null()) => {
            return Err(Violation::of_document(&data_at, "DELETE takes no data").into());
        }
        "DELETE" => Operation::Delete(path),
        // The operations of a patch, as `to_value` writes them for an update that was not read.
        "ADD" => Operation::Add(path, with_data()?),
        "REPLACE" => Operation::Replace(path, with_data()?),
        "MOVE" => Operation::Move(from()?, path),
        "COPY" => Operation::Copy(from()?, path),
        _ => {
            let upper = name.to_uppercase();
            let near = did_you_mean(&upper, OPERATIONS);
            let help = near.unwrap_or_else(|| format!("there are {}", OPERATIONS.join(", ")));
            let violation =
                Violation::of_document(&op_at, format!("there is no operation {}", shown(op)));
            return Err(violation.help(Some(help)).into());
        }
    };
    Ok((operation, Written { path: path_at, data: data_at }))
}

/// Reads an operation of RFC 6902.
pub(crate) fn read_patch(item: &Value, at: &Pointer) -> Result<(Operation, Written), Invalid> {
    let Some(map) = item.as_object() else {
        let message = format!("an operation of a patch is a map, not {}", described(item));
        return Err(Violation::of_document(at, message).into());
    };
    check_members(map, &["op", "path", "value", "from"], at)?;
    let op = required(map, "op", at)?;
    let path_at = at.join("path");
    let path = pointer(required(map, "path", at)?, &path_at)?;
    let value = || required(map, "value", at).cloned();
    let from = || pointer(required(map, "from", at)?, &at.join("from"));
    let operation = match op.as_str().unwrap_or_default() {
        "add" => Operation::Add(path, value()?),
        "remove" => Operation::Delete(path),
        "replace" => Operation::Replace(path, value()?),
        "test" => Operation::Test(path, value()?),
        "move" => Operation::Move(from()?, path),
        "copy" => Operation::Copy(from()?, path),
        _ => {
            let names = ["add", "remove", "replace", "test", "move", "copy"];
            let near = did_you_mean(op.as_str().unwrap_or_default(), names);
            let help = near.unwrap_or_else(|| format!("there are {}", names.join(", ")));
            let message = format!("there is no operation {}", shown(op));
            return Err(Violation::of_document(&at.join("op"), message).help(Some(help)).into());
        }
    };
    Ok((operation, Written { path: path_at, data: at.join("value") }))
}

fn check_members(map: &Map<String, Value>, known: &[&str], at: &Pointer) -> Result<(), Invalid> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let near = did_you_mean(key, known.iter().copied());
            let help = near.unwrap_or_else(|| format!("there are {}", known.join(", ")));
            let message = format!("an operation has no key {key:?}");
            Err(Violation::of_document(&at.join(key), message).help(Some(help)).into())
        }
    }
}

fn required<'a>(
    map: &'a Map<String, Value>,
    key: &str,
    at: &Pointer,
) -> Result<&'a Value, Invalid> {
    map.get(key).ok_or_else(|| Violation::of_document(at, format!("{key:?} is missing")).into())
}

fn pointer(value: &Value, at: &Pointer) -> Result<Pointer, Invalid> {
    match value.as_str().map(str::parse) {
        Some(Ok(pointer)) => Ok(pointer),
        Some(Err(error)) => {
            let error: crate::PointerError = error;
            Err(Violation::of_document(at, error.to_string()).value(value).into())
        }
        None => {
            let message = format!("a path is a text, not {}", described(value));
            Err(Violation::of_document(at, message).value(value).into())
        }
    }
}
