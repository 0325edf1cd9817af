//! Updates, and how they are read and written as documents.

use std::fmt;

use serde_json::{Map, Value};

use crate::operation::{Lenience, Operation, described};
use crate::pointer::Pointer;
use crate::violation::{Invalid, Violation, did_you_mean, shown};

/// The most operations in one update.
const MOST_OPERATIONS: usize = 100_000;

/// The longest name of an author, and the longest reason, in characters.
pub const LONGEST_REASON: usize = 1000;

/// The version of the facts: a number from 1 to 9,223,372,036,854,775,807. The author of an update chooses it. It
/// only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// Returns the version with this number; none if the number is out of range.
    pub fn new(number: u64) -> Option<Self> {
        (1..=i64::MAX as u64).contains(&number).then_some(Self(number))
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Reads the version of a document.
    ///
    /// # Errors
    ///
    /// Why the value is no version.
    pub fn of_value(value: &Value) -> Result<Self, String> {
        let range = "a whole number from 1 to 9223372036854775807";
        match value.as_u64().map(Self::new) {
            Some(Some(version)) => Ok(version),
            _ if value.is_number() => Err(format!("a version is {range}, not {value}")),
            _ => Err(format!("a version is {range}, not {}", described(value))),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Operations that are done together or not at all.
///
/// # Examples
///
/// ```
/// use crankcase_facts::Update;
/// use serde_json::json;
///
/// # fn main() -> Result<(), crankcase_facts::Invalid> {
/// let update = Update::read(&json!({
///     "version": 8,
///     "ops": [["TEST", "/mero/globals/n", 4], ["SET", "/mero/globals/n", 8]],
/// }))?;
/// assert_eq!(update.operations.len(), 2);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Update {
    /// The version of the facts after the update. None takes the next one.
    pub version: Option<Version>,
    /// The version that the facts must have before the update. None accepts any.
    pub base_version: Option<u64>,
    /// The author, for the history. None: the sender.
    pub author: Option<String>,
    /// The reason, for the history. None: the reason of the submission.
    pub reason: Option<String>,
    /// Whether missing maps on the way to a path are created. Default false: they are an error.
    pub creates_parents: bool,
    /// Whether a DELETE of a missing fact does nothing. Default false: it is an error.
    pub ignores_missing: bool,
    /// The operations, in order.
    pub operations: Vec<Operation>,
    /// The place of each operation in the document. Empty if the update was not read.
    written: Vec<Written>,
}

/// The places of the parts of an operation in its document.
#[derive(Debug, Clone, PartialEq)]
struct Written {
    path: Pointer,
    data: Pointer,
}

/// The keys of an update.
const KEYS: [&str; 8] = [
    "version",
    "base_version",
    "author",
    "reason",
    "ops",
    "patch",
    "create_parents",
    "ignore_missing",
];

impl Update {
    /// Returns an update with these operations. It takes the next version.
    pub fn of(operations: Vec<Operation>) -> Self {
        Self { operations, ..Self::default() }
    }

    /// Reads `{version, ops: [[OP, PATH, DATA], ...]}` or `{version, patch}`.
    ///
    /// Instead of a triple, an operation may be a map `{op, path, data}`. A `patch` has the operations of RFC 6902.
    /// See [the fields](Self) for the other keys. The key of `creates_parents` is `create_parents`, and the key of
    /// `ignores_missing` is `ignore_missing`.
    ///
    /// # Errors
    ///
    /// All violations, with their places in the document.
    pub fn read(document: &Value) -> Result<Self, Invalid> {
        let update = Self::read_unversioned(document)?;
        match update.version {
            Some(_) => Ok(update),
            None => {
                let message = "an update has a version, which is higher than that of the facts";
                Err(Violation::of_document(&Pointer::root(), message).into())
            }
        }
    }

    /// Reads an update. The version may be missing.
    pub(crate) fn read_unversioned(document: &Value) -> Result<Self, Invalid> {
        let root = Pointer::root();
        let Some(map) = document.as_object() else {
            let message = format!("an update is a map, not {}", described(document));
            return Err(Violation::of_document(&root, message).into());
        };
        let mut reader = Reader { map, violations: Vec::new() };
        reader.check_keys();
        let mut update = Self {
            version: reader.version(),
            base_version: reader.base_version(),
            author: reader.text("author"),
            reason: reader.text("reason"),
            creates_parents: reader.flag("create_parents"),
            ignores_missing: reader.flag("ignore_missing"),
            ..Self::default()
        };
        let (key, read) = reader.body();
        for (index, item) in reader.items(key).iter().enumerate() {
            let at = root.join(key).join(&index.to_string());
            match read(item, &at) {
                Ok((operation, written)) => {
                    update.operations.push(operation);
                    update.written.push(written);
                }
                Err(invalid) => reader.violations.extend(invalid.violations),
            }
        }
        match reader.violations.is_empty() {
            true => Ok(update),
            false => Err(reader.violations.into()),
        }
    }

    /// Returns the update as a document that [`read`](Self::read) reads. Each operation keeps the form in which it
    /// was read, so places in the document stay valid.
    pub fn to_value(&self) -> Value {
        let written = self.written.iter().map(Some).chain(std::iter::repeat(None));
        let operations: Value = self
            .operations
            .iter()
            .zip(written)
            .map(|(operation, at)| operation_as(operation, at))
            .collect();
        let is_patch =
            self.written.first().is_some_and(|it| it.path.segments().next() == Some("patch"));
        let mut map = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        put("version", self.version.map(|version| version.get().into()));
        put("base_version", self.base_version.map(Value::from));
        put("author", self.author.clone().map(Value::from));
        put("reason", self.reason.clone().map(Value::from));
        put("create_parents", self.creates_parents.then_some(Value::Bool(true)));
        put("ignore_missing", self.ignores_missing.then_some(Value::Bool(true)));
        put(if is_patch { "patch" } else { "ops" }, Some(operations));
        Value::Object(map)
    }

    /// Returns the place of the path of an operation. An operation that was not read counts as a triple.
    pub(crate) fn place_of(&self, operation: usize) -> Pointer {
        self.place(operation, |written| &written.path, "1")
    }

    /// Returns the place of a fact in the last operation that wrote it; none if no operation did.
    pub(crate) fn place_of_fact(&self, path: &Pointer) -> Option<Pointer> {
        let mut operations = self.operations.iter().enumerate().rev();
        let (index, operation) = operations.find(|(_, it)| path.is_within(it.path()))?;
        let rest = path.strip_prefix(operation.path())?;
        Some(match operation {
            Operation::Delete(_) | Operation::Move(..) | Operation::Copy(..) => {
                self.place_of(index)
            }
            _ => rest.below(&self.place(index, |written| &written.data, "2")),
        })
    }

    fn place(&self, operation: usize, part: fn(&Written) -> &Pointer, position: &str) -> Pointer {
        match self.written.get(operation) {
            Some(written) => part(written).clone(),
            None => ["ops", &operation.to_string(), position].into_iter().collect(),
        }
    }

    pub(crate) fn lenience(&self) -> Lenience {
        let (creates_parents, ignores_missing) = (self.creates_parents, self.ignores_missing);
        Lenience { creates_parents, ignores_missing }
    }
}

/// Writes an operation in the form in which it was read, or as a triple.
fn operation_as(operation: &Operation, written: Option<&Written>) -> Value {
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

type ReadOperation = fn(&Value, &Pointer) -> Result<(Operation, Written), Invalid>;

struct Reader<'a> {
    map: &'a Map<String, Value>,
    violations: Vec<Violation>,
}

impl<'a> Reader<'a> {
    fn refuse(&mut self, key: &str, message: String) {
        self.violations.push(Violation::of_document(&Pointer::root().join(key), message));
    }

    fn check_keys(&mut self) {
        for key in self.map.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let at = Pointer::root().join(key);
            let help =
                did_you_mean(key, KEYS).unwrap_or_else(|| format!("there are {}", KEYS.join(", ")));
            let violation = Violation::of_document(&at, format!("an update has no key {key:?}"));
            self.violations.push(violation.help(Some(help)));
        }
    }

    fn version(&mut self) -> Option<Version> {
        match self.map.get("version").map(Version::of_value) {
            None => None,
            Some(Ok(version)) => Some(version),
            Some(Err(message)) => {
                self.refuse("version", message);
                None
            }
        }
    }

    fn base_version(&mut self) -> Option<u64> {
        let value = self.map.get("base_version")?;
        // Facts that were never updated have version 0.
        match (value.as_u64(), Version::of_value(value)) {
            (Some(0), _) => Some(0),
            (_, Ok(version)) => Some(version.get()),
            (_, Err(message)) => {
                self.refuse("base_version", message);
                None
            }
        }
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let value = self.map.get(key)?;
        match value.as_str().map(check_reason) {
            Some(Ok(text)) => return Some(text.to_owned()),
            Some(Err(why)) => self.refuse(key, format!("{key:?} {why}")),
            None => self.refuse(key, format!("{key:?} is a text, not {}", described(value))),
        }
        None
    }

    fn flag(&mut self, key: &str) -> bool {
        match self.map.get(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                self.refuse(key, format!("{key:?} is true or false, not {}", described(other)));
                false
            }
        }
    }

    /// Returns the key of the operations, and the function that reads each of them.
    fn body(&mut self) -> (&'static str, ReadOperation) {
        match (self.map.contains_key("ops"), self.map.contains_key("patch")) {
            (true, true) => {
                self.refuse("patch", "an update has \"ops\" or \"patch\", not both".into());
            }
            (false, false) => {
                let message = "an update has \"ops\", or the \"patch\" of RFC 6902";
                self.violations.push(Violation::of_document(&Pointer::root(), message));
            }
            (false, true) => return ("patch", read_patch),
            (true, false) => {}
        }
        ("ops", read_operation)
    }

    fn items(&mut self, key: &str) -> &'a [Value] {
        match self.map.get(key) {
            Some(Value::Array(items)) if items.len() > MOST_OPERATIONS => {
                let count = items.len();
                let message =
                    format!("{count} operations, and an update has at most {MOST_OPERATIONS}");
                self.refuse(key, message);
                &[]
            }
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.refuse(key, format!("{key:?} is a list, not {}", described(other)));
                &[]
            }
            None => &[],
        }
    }
}

/// Checks a text for the history: it must be one line of bounded length.
pub(crate) fn check_reason(text: &str) -> Result<&str, &'static str> {
    if text.chars().count() > LONGEST_REASON {
        return Err("is longer than 1,000 characters");
    }
    if text.chars().any(char::is_control) {
        return Err("has control characters; it is one line");
    }
    Ok(text)
}

/// The names of the operations.
const OPERATIONS: [&str; 4] = ["SET", "INSERT", "DELETE", "TEST"];

/// Reads a triple, or a map `{op, path, data}`.
fn read_operation(item: &Value, at: &Pointer) -> Result<(Operation, Written), Invalid> {
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
fn read_patch(item: &Value, at: &Pointer) -> Result<(Operation, Written), Invalid> {
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
