//! Outputs with their types erased, and what knows the types.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::sync::Arc;

/// One output's value. It is cloned out of its `Arc` in the task that is started with it.
pub(crate) type Value = Arc<dyn Any + Send + Sync>;

/// A type that manifolds offer or ask for.
pub struct Kind {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl Kind {
    /// Returns the kind of a type.
    pub(crate) fn of<T: Clone + Send + Sync + 'static>() -> &'static Self {
        const { &Self { id: TypeId::of::<T>, name: type_name::<T> } }
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

/// Returns the value as what it is.
///
/// # Panics
///
/// Never: what a manifold offers and what others ask of it are compared at install.
pub(crate) fn downcast<T: 'static>(value: &Value) -> &T {
    value.downcast_ref().expect("types are compared at install")
}

/// What one worker offers, in the order its manifold declares.
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
