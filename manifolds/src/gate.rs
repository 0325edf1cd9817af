//! The manifold of a gate.

use crankcase_engine::Manifold;
use crankcase_workers::Gate;

/// Returns a manifold that offers a [`Gate`], its [`Unlocker`](crankcase_workers::Unlocker) and
/// [`Waiter`](crankcase_workers::Waiter), and as a changing output the
/// [`Flag`](crankcase_workers::Flag) that is set once the gate is unlocked.
///
/// Each worker has a gate of its own: a bounce locks it again.
pub fn manifold() -> Manifold {
    offering(Gate::new)
}

/// Returns a manifold that offers the same gate in all its workers, as [`manifold`] does.
///
/// The gate outlives the engine, and can be unlocked outside of it.
pub fn shared(gate: Gate) -> Manifold {
    offering(move || gate.clone())
}

fn offering(gate: impl Fn() -> Gate + Send + Sync + 'static) -> Manifold {
    Manifold::builder()
        .start(move |(), _ctx| std::future::ready(Ok(gate())))
        .output(Gate::clone)
        .output(Gate::unlocker)
        .output(Gate::waiter)
        .changing(Gate::flag)
        .build()
}
