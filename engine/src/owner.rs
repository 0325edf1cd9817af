//! What a worker needs that runs workers of its own, besides what every worker has.
//!
//! An owner tells its workers to stop and of lost inputs, passes on how they end, and is not gone
//! before they are. [`Nested`](crate::Nested) does all of that for an engine in an engine.

use std::any::Any;

use crate::vocabulary::exit::Panicked;
use crate::worker::stop::{Stop, Stopper};

pub use crate::engine::nested::NestedEngine;
pub use crate::worker::stop::cell::Linger;

/// Runs `at_end` when nothing of the worker lingers any more, which may be at once.
///
/// Call it once the worker's future has been dropped. The functions of several calls run in the
/// order of the calls.
pub fn once_gone(stop: &Stop, at_end: impl FnOnce() + Send + 'static) {
    stop.once_gone(at_end);
}

/// Waits until an input of the worker has ended by itself, whether the worker was told to stop or
/// not; for ever if none does.
///
/// An input may also be lost while a worker stops. An owner passes the loss on by [`lose_input`]
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

/// Returns the panic behind the payload that [`std::panic::catch_unwind`] caught.
pub fn panic_of(payload: Box<dyn Any + Send>) -> Panicked {
    Panicked::from_payload(payload)
}
