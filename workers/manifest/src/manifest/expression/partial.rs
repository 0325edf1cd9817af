//! The states that a plan knows in part.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minijinja::value::{Enumerator, Object, Value};

/// Whether an evaluation has asked for something that is not known: then its result is worth nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Missed(Arc<AtomicBool>);

impl Missed {
    /// Returns whether it has.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The known attributes of a state.
pub(crate) struct Partial {
    pub(super) known: BTreeMap<String, Value>,
    missed: Missed,
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.known.keys()).finish()
    }
}

impl Partial {
    /// Returns the state as a value. A read of another attribute, or of all attributes, sets
    /// `missed`.
    pub(crate) fn value(known: BTreeMap<String, Value>, missed: &Missed) -> Value {
        Value::from_object(Self { known, missed: missed.clone() })
    }
}

impl Object for Partial {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let known = key.as_str().and_then(|name| self.known.get(name));
        if known.is_none() {
            self.missed.set();
        }
        known.cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.missed.set();
        Enumerator::Empty
    }
}
