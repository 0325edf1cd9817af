//! The manifold of a value that others read and set.

use crankcase_engine::Manifold;
use crankcase_workers::{Value, ValueHandle};

/// Returns a manifold that offers a value as a changing output, and the
/// [`ValueHandle`] that sets it.
///
/// Each worker begins with the value that is given here.
pub fn manifold<T>(value: T) -> Manifold
where
    T: Clone + PartialEq + Send + Sync + 'static,
{
    Manifold::builder()
        .start_with(value, |value, (), _ctx| async move { Ok(Value::new(value)) })
        .output(Value::handle)
        .changing(|value| value.handle().subscribe())
        .build()
}

/// Returns a manifold that offers what a handle holds, as [`manifold`] does.
///
/// The value outlives its workers, and can be set outside of the engine.
pub fn shared<T>(handle: ValueHandle<T>) -> Manifold
where
    T: Clone + PartialEq + Send + Sync + 'static,
{
    Manifold::builder()
        .start_with(handle, |handle, (), _ctx| async move { Ok(Value::of(handle)) })
        .output(Value::handle)
        .changing(|value| value.handle().subscribe())
        .build()
}
