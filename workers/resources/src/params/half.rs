use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::attributes::AttributeError;
use crate::declaration::Config;
use crate::params::field::Field;
use crate::params::table::Table;
use crate::text::{cut, shown};

/// A value as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub enum Half<T> {
    /// It is known, and right.
    Given(T),
    /// It becomes known when the resources with these aliases were changed; without aliases, after
    /// the resource itself was.
    Unknown(Vec<String>),
    /// It is wrong, and that was said.
    Wrong,
}

impl<T> Half<T> {
    /// Returns a value that is known only after the resource was changed.
    pub fn later() -> Self {
        Self::Unknown(Vec::new())
    }

    /// Returns the value, if it is known.
    pub fn given(self) -> Option<T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Unknown(_) | Self::Wrong => None,
        }
    }

    /// Returns a view of the value, if it is known.
    pub fn as_given(&self) -> Option<&T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Unknown(_) | Self::Wrong => None,
        }
    }
}

/// Reads a config parameter by parameter, and collects all that is wrong with it.
///
/// A value that is null counts as not given.
#[derive(Debug)]
pub struct Reader<'a> {
    table: &'a Table,
    values: &'a Config,
    /// The parameters that are not known yet, each with the aliases of the resources that it uses.
    unknown: &'a BTreeMap<String, Vec<String>>,
    errors: Vec<AttributeError>,
}

impl<'a> Reader<'a> {
    /// Returns a reader; names that are not in the table are wrong.
    pub fn new(
        table: &'a Table,
        values: &'a Config,
        unknown: &'a BTreeMap<String, Vec<String>>,
    ) -> Self {
        let strange = values.keys().filter(|name| !table.is_open && table.get(name).is_none());
        let errors = strange.map(|name| AttributeError::of(name, table.refuse(name))).collect();
        Self { table, values, unknown, errors }
    }

    /// Reads one parameter.
    pub fn field<T: Field>(&mut self, name: &str) -> Half<T> {
        if let Some(aliases) = self.unknown.get(name) {
            return Half::Unknown(aliases.clone());
        }
        let parameter = self.table.get(name);
        let default = parameter.and_then(|parameter| parameter.default.as_ref());
        let given = self.values.get(name).filter(|value| !value.is_null());
        let Some(value) = given.or(default) else {
            return T::absent().map_or_else(|| self.wrong(name, "is missing"), Half::Given);
        };
        match T::take(value) {
            Ok(value) => Half::Given(value),
            Err(mut wrong) => {
                wrong.value = wrong.value.or_else(|| Some(written(value)));
                self.errors.push(AttributeError::of(name, wrong));
                Half::Wrong
            }
        }
    }

    fn wrong<T>(&mut self, name: &str, message: &str) -> Half<T> {
        self.errors.push(AttributeError::new(name, message.to_owned()));
        Half::Wrong
    }

    /// Returns all that is wrong.
    pub fn into_errors(self) -> Vec<AttributeError> {
        self.errors
    }
}

/// Returns a value as it was written if it is a text, else as JSON.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text),
        value => shown(value),
    }
}

/// Collects what is known of a config or a state.
#[derive(Debug, Default)]
pub struct Writer {
    /// The values that are known.
    pub(crate) values: Map<String, Value>,
    /// The names of the others, each with the aliases of the resources that it waits for.
    pub(crate) unknown: BTreeMap<String, Vec<String>>,
}

impl Writer {
    /// Writes one parameter.
    pub fn field<T: Field>(&mut self, name: &str, value: &Half<T>) {
        match value {
            Half::Given(value) => {
                self.values.insert(name.to_owned(), value.give());
            }
            Half::Unknown(aliases) => {
                self.unknown.insert(name.to_owned(), aliases.clone());
            }
            Half::Wrong => {}
        }
    }
}
