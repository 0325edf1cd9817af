//! Updates, and how they are read and written as documents.

use serde_json::{Map, Value};

use crate::operation::{Lenience, Operation, described};
use crate::pointer::Pointer;
use crate::version::{Version, check_reason};
use crate::violation::{Invalid, Violation, did_you_mean};
use crate::written::{Written, operation_as, read_operation, read_patch};

/// The most operations in one update.
const MOST_OPERATIONS: usize = 100_000;

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
