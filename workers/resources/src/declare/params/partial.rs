//! Configs with values that become known later, and how they are read and written.

use std::fmt;

use serde_json::{Map, Value};

use crate::base::error::AttributeError;
use crate::base::shape::Shape;
use crate::base::text::{cut, shown};
use crate::declare::known::KnownConfig;
use crate::declare::params::field::{Field, HIDDEN};
use crate::declare::params::table::Table;

/// A value as far as it is known.
#[derive(Clone, PartialEq)]
pub enum Partial<T> {
    /// It is known, and right.
    Given(T),
    /// It becomes known later.
    Unknown,
    /// It is wrong, and that was said.
    Wrong,
}

/// Shows whether it is known, and no value.
impl<T> fmt::Debug for Partial<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given(_) => "Given",
            Self::Unknown => "Unknown",
            Self::Wrong => "Wrong",
        })
    }
}

impl<T> Partial<T> {
    /// Returns the value, if it is known.
    pub fn given(self) -> Option<T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Unknown | Self::Wrong => None,
        }
    }

    /// Returns a view of it.
    pub fn as_ref(&self) -> Partial<&T> {
        match self {
            Self::Given(value) => Partial::Given(value),
            Self::Unknown => Partial::Unknown,
            Self::Wrong => Partial::Wrong,
        }
    }

    /// Returns what the value is mapped to, if it is known.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Partial<U> {
        match self {
            Self::Given(value) => Partial::Given(map(value)),
            Self::Unknown => Partial::Unknown,
            Self::Wrong => Partial::Wrong,
        }
    }

    /// Returns whether it becomes known later.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// Returns a view of the value, if it is known.
    pub fn as_given(&self) -> Option<&T> {
        self.as_ref().given()
    }
}

/// Reads a config parameter by parameter, and collects all that is wrong with it.
///
/// A value that is null counts as not given.
#[derive(Debug)]
pub struct Reader<'a> {
    table: &'a Table,
    known: KnownConfig<'a>,
    errors: Vec<AttributeError>,
}

impl<'a> Reader<'a> {
    /// Returns a reader; names that are not in the table are wrong.
    pub fn new(table: &'a Table, known: &KnownConfig<'a>) -> Self {
        let names = known.config.keys();
        let strange = names.filter(|name| !table.is_open && table.get(name).is_none());
        let errors = strange.map(|name| AttributeError::of(name, table.refuse(name))).collect();
        Self { table, known: *known, errors }
    }

    /// Reads one parameter.
    pub fn field<T: Field>(&mut self, name: &str) -> Partial<T> {
        if !self.known.is_known(name) {
            return Partial::Unknown;
        }
        let parameter = self.table.get(name);
        let default = parameter.and_then(|parameter| parameter.default.as_ref());
        let given = self.known.config.get(name).filter(|value| !value.is_null());
        let Some(value) = given.or(default) else {
            return T::absent().map_or_else(|| self.wrong(name, "is missing"), Partial::Given);
        };
        match T::take(value) {
            Ok(value) => Partial::Given(value),
            Err(mut wrong) => {
                let also = std::mem::take(&mut wrong.also);
                wrong.value = wrong.value.or_else(|| Some(shown_value(value)));
                if T::SENSITIVE {
                    wrong.value = Some(HIDDEN.to_owned());
                }
                let errors = [wrong].into_iter().chain(also);
                self.errors.extend(errors.map(|wrong| AttributeError::of(name, wrong)));
                Partial::Wrong
            }
        }
    }

    fn wrong<T>(&mut self, name: &str, message: &str) -> Partial<T> {
        self.errors.push(AttributeError::new(name, message.to_owned()));
        Partial::Wrong
    }

    /// Returns all that is wrong.
    pub fn into_errors(self) -> Vec<AttributeError> {
        self.errors
    }
}

/// Returns a value as it was written if it is a text, else as JSON.
pub(crate) fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text),
        value => shown(value),
    }
}

/// Collects what is known of a config or a state.
#[derive(Default)]
pub struct Writer {
    pub(crate) values: Map<String, Value>,
    /// Writes only what this table of a state marks as declared.
    pub(crate) declared: Option<&'static Table>,
}

/// Shows the names of what was written, and no values.
impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Writer");
        shown.field("values", &Shape::of_map(&self.values)).finish_non_exhaustive()
    }
}

impl Writer {
    /// Writes one parameter, if it is known.
    pub fn field<T: Field>(&mut self, name: &str, value: &Partial<T>) {
        let is_declared = |table: &Table| table.get(name).is_some_and(|it| it.is_declared);
        if let Partial::Given(value) = value
            && self.declared.is_none_or(is_declared)
        {
            self.values.insert(name.to_owned(), value.give());
        }
    }
}
