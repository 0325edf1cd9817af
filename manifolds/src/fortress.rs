//! The manifold of a fortress.

use crankcase_engine::Manifold;
use crankcase_workers::{Fortress, Owned, Value};

/// Returns a manifold that offers [`Guest`](crankcase_workers::Guest) and
/// [`Guard`](crankcase_workers::Guard) of a fortress, and as a changing output its
/// [`FortressState`](crankcase_workers::FortressState).
///
/// Each worker has a fortress of its own, which is locked at first and ends with the worker. A
/// [`Housing`](crate::Housing) makes others occupy it. When it fails, the next one knows nothing of a
/// guest of the former that has not ended yet; where that must not be, use [`shared`].
pub fn manifold() -> Manifold {
    Manifold::builder()
        .start(|(), _ctx| async { Ok(Fortress::new()) })
        .output(Fortress::guest)
        .output(Fortress::guard)
        .changing(Fortress::state)
        .build()
}

/// Returns a manifold that offers the same fortress in all its workers, as [`manifold`] does.
///
/// The fortress outlives the engine, and can be locked and unlocked outside of it.
pub fn shared(fortress: Fortress) -> Manifold {
    Manifold::builder()
        .start_with(fortress, |fortress, (), _ctx| async move {
            // The fortress is only shown: it must not end with this worker.
            Ok(Owned::new(Value::new(()), fortress))
        })
        .output(|owned| owned.exposed().guest())
        .output(|owned| owned.exposed().guard())
        .changing(|owned| owned.exposed().state())
        .build()
}
