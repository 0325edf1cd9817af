//! Functions for a worker that runs workers of its own (an owner).
//!
//! An owner tells its workers to stop, tells them of lost inputs, and passes on how they end. It is
//! gone only after they are gone. [`Nested`](crate::Nested) does all of this for a nested engine.

use std::any::Any;

use crate::vocabulary::exit::Panicked;
use crate::worker::stop::{Stop, Stopper};

pub use crate::engine::nested::NestedEngine;
pub use crate::worker::reporter::{Reporter, ReporterError};
pub use crate::worker::stop::cell::Linger;

/// Runs `at_end` when nothing of the worker lingers. If nothing lingers now, runs it at once.
///
/// Call it after the worker's future was dropped. Several functions run in the order of their
/// calls.
pub fn once_gone(stop: &Stop, at_end: impl FnOnce() + Send + 'static) {
    stop.once_gone(at_end);
}

/// Waits until an input of the worker has ended by itself, even if the worker was told to stop.
/// Waits forever if no input ends.
///
/// An input may be lost while the worker stops. An owner passes the loss on with [`lose_input`]
/// until the last of its workers has ended.
///
/// # Cancel safety
///
/// Cancel safe.
pub fn only_input_lost(stop: &Stop) -> impl Future<Output = ()> + Send {
    stop.only_input_lost()
}

/// Tells the worker that an input has ended by itself. Later calls change nothing.
pub fn lose_input(stopper: &Stopper) {
    stopper.lose_input();
}

/// Returns the panic for a payload that [`std::panic::catch_unwind`] caught.
pub fn panic_of(payload: Box<dyn Any + Send>) -> Panicked {
    Panicked::from_payload(payload)
}
