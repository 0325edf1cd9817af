use std::fmt;
use std::io;
use std::path::Path;

use serde_json::Value;

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
}

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
        }
    }

    /// Sets what is in the folder at first. By default nothing is.
    pub fn prepared(
        self,
        prepare: impl Fn(&Path) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { prepare: Box::new(prepare), ..self }
    }

    /// Says that another process does its work, which can be killed at any point of it: the next apply has
    /// to mend what a cut has left. By default a cut also has to leave what was there before or after one
    /// of the actions.
    pub fn of_process(self) -> Self {
        Self { is_process: true, ..self }
    }

    /// Adds a way in which the resource may come not to be as declared any more.
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
