//! The manifold of a flag that anyone may set.
//!
//! A [`gate`](crate::gate) offers a flag too, and so does every manifold with a changing output of
//! the type [`Flag`]. A [`Housing`](crate::Housing) asks for it.

use crankcase_engine::Manifold;
use crankcase_workers::{Flag, ValueHandle};

use crate::value;

/// Returns a manifold that offers a [`Flag`] as a changing output, and the [`ValueHandle`] that sets
/// it.
///
/// Each worker begins with the flag that is given here.
pub fn manifold(flag: Flag) -> Manifold {
    value::manifold(flag)
}

/// Returns a manifold that offers the flag that a handle holds, as [`manifold`] does.
///
/// The flag outlives its workers, and can be set outside of the engine.
pub fn shared(handle: ValueHandle<Flag>) -> Manifold {
    value::shared(handle)
}
