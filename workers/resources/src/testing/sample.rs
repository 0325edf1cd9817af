//! A config of a kind to be checked, with the folder that it starts from and its drifts.

use std::fmt;
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::report::found::Found;

/// Something done to a folder.
pub(super) type Doing = Box<dyn Fn(&Path) -> io::Result<()> + Send + Sync>;

/// A config of a kind, and the world around it: a folder, which is new and empty for each check.
///
/// # Examples
///
/// ```
/// use crankcase_resources::testing::Sample;
/// use serde_json::json;
///
/// Sample::new("lamp", "a lamp that was off", |folder| json!({"path": folder.join("lamp")}))
///     .prepared(|folder| std::fs::write(folder.join("lamp"), "off"))
///     .drift("it burnt out", |folder| std::fs::write(folder.join("lamp"), "off"));
/// ```
#[must_use]
pub struct Sample {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) config: Box<dyn Fn(&Path) -> Value + Send + Sync>,
    pub(super) prepare: Doing,
    pub(super) drifts: Vec<(String, Doing)>,
    pub(super) is_lasting: bool,
    pub(super) is_process: bool,
    pub(super) volatile: Vec<String>,
    pub(super) write_limit: Option<WriteLimit>,
}

/// A function that limits how many bytes a process may write to a file.
pub(super) type WriteLimit = Box<dyn Fn(Option<u64>) + Send + Sync>;

impl Sample {
    /// Returns a sample of this kind, with a name for messages, whose config is made for a folder.
    pub fn new(
        kind: &str,
        name: &str,
        config: impl Fn(&Path) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            config: Box::new(config),
            prepare: Box::new(|_| Ok(())),
            drifts: Vec::new(),
            is_lasting: true,
            is_process: false,
            volatile: Vec::new(),
            write_limit: None,
        }
    }

    /// Sets what is in the folder at first. By default nothing is.
    pub fn prepared(
        self,
        prepare: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { prepare: Box::new(prepare), ..self }
    }

    /// Says that another process does its work, which can be killed at any point of it: the next
    /// apply has to repair what a cut has left. By default a cut also has to leave what was there
    /// before or after one of the actions.
    pub fn of_process(self) -> Self {
        Self { is_process: true, ..self }
    }

    /// Leaves something out of all comparisons because it differs each time, as a time does: an attribute of the state,
    /// or a path in the folder, with all that is below it.
    pub fn volatile(mut self, name: &str) -> Self {
        self.volatile.push(name.to_owned());
        self
    }

    /// Sets a function that limits how many bytes the process of the actions may write to a file; a process that writes
    /// more is killed. `None` is no limit. With this function, each action is cut off within its writes, and each file
    /// must then be as it is before or after one of the actions. By default no action is cut off within its writes.
    pub fn limited_by(self, limit: impl Fn(Option<u64>) + Send + Sync + 'static) -> Self {
        Self { write_limit: Some(Box::new(limit)), ..self }
    }

    /// Adds a way in which the resource may drift.
    pub fn drift(
        mut self,
        name: &str,
        drift: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.drifts.push((name.to_owned(), Box::new(drift)));
        self
    }

    /// Says that what is done does not last: the next apply does it again.
    pub fn in_each_run(self) -> Self {
        Self { is_lasting: false, ..self }
    }
}

impl Sample {
    /// Returns whether an attribute of the state differs each time.
    pub(super) fn is_volatile(&self, attribute: &str) -> bool {
        self.volatile.iter().any(|name| name == attribute)
    }

    /// Returns what was found without what differs each time.
    pub(super) fn lasting(&self, found: Found) -> Found {
        let lasting = |state: Value| match state {
            Value::Object(mut map) => {
                map.retain(|name, _| !self.is_volatile(name));
                Value::Object(map)
            }
            state => state,
        };
        match found {
            Found::Valid(state) => Found::Valid(lasting(state)),
            Found::Stale(mut amiss) => {
                amiss.current = amiss.current.map(lasting);
                amiss.differences.retain(|differs| !self.is_volatile(&differs.attribute));
                Found::Stale(amiss)
            }
            found => found,
        }
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample").field("kind", &self.kind).field("name", &self.name).finish()
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.kind, self.name)
    }
}
