//! The parameters of a config or the attributes of a state, described as a table.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::error::Wrong;
use crate::base::text::nearest;
use crate::declare::params::field::Field;
use crate::declare::params::ty::Type;

/// The parameters of a config, or the attributes of a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Table {
    /// What they are the parameters of, in words that end without a full stop.
    #[serde(default)]
    pub doc: String,
    /// What there is, in the order in which it is shown.
    pub parameters: Vec<Parameter>,
    /// Whether there may be others; no by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_open: bool,
}

impl Table {
    /// Returns a table of these parameters and no others.
    pub fn new(doc: &str, parameters: Vec<Parameter>) -> Self {
        Self { doc: doc.to_owned(), parameters, is_open: false }
    }

    /// Returns the table of any attributes.
    pub fn open() -> &'static Self {
        static OPEN: Table = Table { doc: String::new(), parameters: Vec::new(), is_open: true };
        &OPEN
    }

    /// Returns the parameter with this name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Returns the name that is nearest to one that is not there.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.names())
    }

    /// Accepts a map that has all required parameters, and only right values.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn accept(&self, map: &Map<String, Value>) -> Result<(), Wrong> {
        let given = |name: &str| map.get(name).filter(|value| !value.is_null());
        let mut strange = map.keys().filter(|name| !self.is_open && self.get(name).is_none());
        if let Some(name) = strange.next() {
            return Err(self.refuse(name));
        }
        for parameter in &self.parameters {
            match given(&parameter.name) {
                Some(value) => parameter.ty.accept(value)?,
                None if parameter.is_required => {
                    return Err(format!("\"{}\" is missing", parameter.name).into());
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Returns the error of a name that is not in the table.
    pub(crate) fn refuse(&self, name: &str) -> Wrong {
        let nearest = self.nearest(name);
        let hint = nearest.map_or_else(
            || format!("there are {}", self.names().collect::<Vec<_>>().join(", ")),
            |nearest| format!("did you mean \"{nearest}\"?"),
        );
        let (value, suggestion) = (Some(name.to_owned()), nearest.map(str::to_owned));
        let message = format!("there is no such attribute; {hint}");
        Wrong { value, suggestion, ..message.into() }
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|parameter| parameter.name.as_str())
    }
}

/// One parameter of a config, or attribute of a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What its value may be.
    #[serde(rename = "value")]
    pub ty: Type,
    /// Whether it must be given.
    #[serde(default)]
    pub is_required: bool,
    /// What it is when it is not given, if that is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The unit of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether it is shown to nobody.
    #[serde(default)]
    pub is_sensitive: bool,
    /// Whether other users of the machine see it, as the words of a command.
    #[serde(default)]
    pub is_exposed: bool,
    /// Whether it is the config's attribute of the same name, and so known when a manifest is
    /// loaded; for states.
    #[serde(default)]
    pub is_declared: bool,
    /// Its meaning, in words that end without a full stop.
    pub doc: String,
}

impl Parameter {
    /// Returns the parameter of a type that is neither declared nor has a default or a unit.
    pub fn of<T: Field>(name: &str, doc: &str) -> Self {
        Self {
            name: name.to_owned(),
            ty: T::ty(),
            is_required: T::absent().is_none(),
            default: None,
            unit: None,
            is_sensitive: T::SENSITIVE,
            is_exposed: T::EXPOSED,
            is_declared: false,
            doc: doc.to_owned(),
        }
    }

    /// Sets what else the derive knows.
    #[doc(hidden)]
    #[must_use]
    pub fn with(self, default: Option<Value>, unit: Option<String>, is_declared: bool) -> Self {
        let is_required = self.is_required && default.is_none();
        Self { is_required, default, unit, is_declared, ..self }
    }
}
