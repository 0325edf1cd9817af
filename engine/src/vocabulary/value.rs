//! Outputs with erased types, and the kinds that know the types.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::mem::needs_drop;
use std::sync::Arc;

use serde::Serializer;

/// One output's value. The task that is started with it clones it out of the `Arc`.
pub(crate) type Value = Arc<dyn Any + Send + Sync>;

/// The size in bytes up to which a value's memory is freed in much less than a time slice of the
/// loop.
const SMALL: usize = 4096;

/// A type that manifolds offer or ask for.
pub struct Kind {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
    is_plain: bool,
}

impl Kind {
    /// Returns the kind of a type.
    pub(crate) fn of<T: Clone + Send + Sync + 'static>() -> &'static Self {
        const {
            let is_plain = !needs_drop::<T>() && size_of::<T>() <= SMALL;
            &Self { id: TypeId::of::<T>, name: type_name::<T>, is_plain }
        }
    }

    /// Whether dropping a value runs no foreign code and frees little memory.
    ///
    /// This is true because only this crate pairs kinds with values, each value with its own type's
    /// kind.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether both are the same type. Compares their addresses first, because these are usually
    /// equal.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.id() == other.id()
    }

    pub(crate) fn id(&self) -> TypeId {
        (self.id)()
    }

    pub(crate) fn name(&self) -> &'static str {
        (self.name)()
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Shortens the name of a type for people who run a program: removes the paths of modules, and an
/// `Arc` around the type.
pub(crate) fn short_name(name: &str) -> String {
    let short = without_modules(name);
    match short.strip_prefix("Arc<").and_then(|inner| inner.strip_suffix('>')) {
        Some(inner) => inner.to_owned(),
        None => short,
    }
}

/// Returns the name of a type without the paths of modules, as reports show it.
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "only the feature `testing` lets others reach it")
)]
pub fn name_of<T>() -> String {
    short_name(type_name::<T>())
}

/// Writes the name of a type in its short form.
pub(crate) fn serialize_short<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&short_name(name))
}

/// Shortens the name of a type to its form in a program that imports all types in it.
pub(crate) fn without_modules(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut start = 0;
    for (end, _) in
        name.match_indices(|sign: char| !sign.is_alphanumeric() && !"_:{}#".contains(sign))
    {
        short.push_str(last_segment(&name[start..end]));
        short.push_str(&name[end..=end]);
        start = end + 1;
    }
    short.push_str(last_segment(&name[start..]));
    short
}

fn last_segment(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns the value as its type.
///
/// # Panics
///
/// Never: the kinds of offers and inputs are compared when a manifold is installed.
pub(crate) fn downcast<T: 'static>(value: &Value) -> &T {
    value.downcast_ref().expect("types are compared at install")
}

/// The values that one worker offers, in the order in which its manifold declares them.
#[derive(Default)]
pub(crate) enum Outputs {
    #[default]
    None,
    One(Value),
    Many(Box<[Value]>),
}

impl Outputs {
    pub(crate) fn get(&self, index: usize) -> Option<&Value> {
        match self {
            Self::None => None,
            Self::One(value) => (index == 0).then_some(value),
            Self::Many(values) => values.get(index),
        }
    }

    pub(crate) fn set(&mut self, index: usize, value: Value) -> Option<Value> {
        let place = match self {
            Self::None => return Some(value),
            Self::One(place) => place,
            Self::Many(values) => &mut values[index],
        };
        Some(std::mem::replace(place, value))
    }
}

impl FromIterator<Value> for Outputs {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return Self::None };
        let Some(second) = values.next() else { return Self::One(first) };
        Self::Many([first, second].into_iter().chain(values).collect())
    }
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(values) => values.len(),
        };
        write!(f, "Outputs({count})")
    }
}

#[cfg(test)]
mod tests {
    use std::any::type_name;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::short_name;

    #[test]
    fn a_short_name_is_what_people_call_the_type() {
        let names = [
            (type_name::<Arc<super::Outputs>>(), "Outputs"),
            (type_name::<Arc<dyn std::error::Error + Send>>(), "dyn Error + Send"),
            (
                type_name::<BTreeMap<String, Option<Arc<str>>>>(),
                "BTreeMap<String, Option<Arc<str>>>",
            ),
            (type_name::<(u8, [String; 2], &str)>(), "(u8, [String; 2], &str)"),
            (type_name::<fn(String) -> ()>(), "fn(String)"),
            ("crate::worker::task::{{closure}}::Local<crate::Inner>", "Local<Inner>"),
            ("schön::Wort", "Wort"),
            ("", ""),
        ];
        for (name, short) in names {
            assert_eq!(short_name(name), short, "{name}");
        }
    }
}
