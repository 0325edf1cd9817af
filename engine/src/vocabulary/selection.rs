//! Selections: inputs that ask for a part of a value. All methods run user code.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::value::{Value, downcast};

/// A selection with the type of its part erased.
pub(crate) trait Selection: Send + Sync {
    /// Whether both values have the same part.
    fn is_same(&self, one: &Value, other: &Value) -> bool;

    /// Returns the part as a value of its own.
    fn part_of(&self, whole: &Value) -> Value;
}

impl fmt::Debug for dyn Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Selection")
    }
}

/// Selects a part of a value.
pub(crate) trait Select<P>: Selection {
    fn select(&self, whole: &Value) -> P;

    fn erased(self: Arc<Self>) -> Arc<dyn Selection>;
}

/// A selection by a function.
struct By<T, P, S> {
    select: S,
    types: PhantomData<fn(&T) -> P>,
}

/// Returns the selection that this function makes.
pub(crate) fn by<T, P, S>(select: S) -> Arc<dyn Select<P>>
where
    T: 'static,
    P: PartialEq + Send + Sync + 'static,
    S: Fn(&T) -> P + Send + Sync + 'static,
{
    Arc::new(By { select, types: PhantomData::<fn(&T) -> P> })
}

impl<T, P, S> Selection for By<T, P, S>
where
    T: 'static,
    P: PartialEq + Send + Sync + 'static,
    S: Fn(&T) -> P + Send + Sync,
{
    fn is_same(&self, one: &Value, other: &Value) -> bool {
        (self.select)(downcast(one)) == (self.select)(downcast(other))
    }

    fn part_of(&self, whole: &Value) -> Value {
        Arc::new((self.select)(downcast(whole)))
    }
}

impl<T, P, S> Select<P> for By<T, P, S>
where
    T: 'static,
    P: PartialEq + Send + Sync + 'static,
    S: Fn(&T) -> P + Send + Sync + 'static,
{
    fn select(&self, whole: &Value) -> P {
        (self.select)(downcast(whole))
    }

    fn erased(self: Arc<Self>) -> Arc<dyn Selection> {
        self
    }
}
