//! One resource that another resource is made of, as its kind declares it.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::base::shape::Shape;
use crate::declare::declaration::{Config, OnChange};
use crate::declare::known::KnownConfig;
use crate::declare::params::Partial;

/// A resource that another one is made of; see [`Resource::parts`](crate::Resource::parts).
///
/// # Examples
///
/// ```
/// use crankcase_resources::dynamic::Part;
///
/// let folder = Part::new("folder", "file").with("path", "/srv/www/");
/// let page = Part::new("page", "file").with("path", "/srv/www/index.html");
/// let server = Part::new("server", "process").with("command", vec!["httpd"]).told_by("page");
/// # let _ = (folder, page, server);
/// ```
#[derive(Clone, PartialEq)]
pub struct Part {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) config: Config,
    unknown: BTreeSet<String>,
    /// The parts before it, with what their changes mean to it.
    pub(crate) after: Vec<(String, OnChange)>,
}

/// Shows the names of the attributes of the config, and no values.
impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, config, unknown, after } = self;
        let mut shown = f.debug_struct("Part");
        shown.field("name", name).field("kind", kind).field("config", &Shape::of_map(config));
        shown.field("unknown", unknown).field("after", after).finish()
    }
}

impl Part {
    /// Returns a part of this kind with an empty config. Its name is for its owner alone: the resource
    /// goes by `OWNER["NAME"]`.
    pub fn new(name: &str, kind: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            config: Config::new(),
            unknown: BTreeSet::new(),
            after: Vec::new(),
        }
    }

    /// Sets an attribute of the config.
    #[must_use]
    pub fn with(self, attribute: &str, value: impl Into<Value>) -> Self {
        self.with_partial(attribute, Partial::Given(value))
    }

    /// Sets an attribute of the config, as far as its value is known.
    #[must_use]
    pub fn with_partial(mut self, attribute: &str, value: Partial<impl Into<Value>>) -> Self {
        let value = value.given().map(Into::into);
        if value.is_none() {
            self.unknown.insert(attribute.to_owned());
        }
        self.config.insert(attribute.to_owned(), value.unwrap_or_default());
        self
    }

    /// Has it come after another part of the same owner.
    #[must_use]
    pub fn after(mut self, part: &str) -> Self {
        self.after.push((part.to_owned(), OnChange::Check));
        self
    }

    /// Has it come after another part of the same owner, and be notified when that one has changed.
    #[must_use]
    pub fn told_by(mut self, part: &str) -> Self {
        self.after.push((part.to_owned(), OnChange::Notify));
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn known(&self) -> KnownConfig<'_> {
        KnownConfig { config: &self.config, unknown: &self.unknown }
    }
}
