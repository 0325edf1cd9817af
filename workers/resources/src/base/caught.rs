//! Catching what the code of a kind may throw.
use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;

use crankcase_workers::printable;

/// A panic of a kind's code.
#[derive(Debug, thiserror::Error)]
#[error("panicked: {message}")]
pub(crate) struct PanickedError {
    message: String,
}

impl PanickedError {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&'static str>().copied())
            .unwrap_or("a value that is not text");
        Self { message: printable(message) }
    }
}

/// Calls `function` and catches its panic.
///
/// What the panic left half done belongs to the one resource that is failed for it, so it is safe
/// to go on.
pub(crate) fn caught<T>(function: impl FnOnce() -> T) -> Result<T, PanickedError> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|payload| PanickedError::new(&*payload))
}

/// Awaits `future` and catches its panic.
pub(crate) async fn caught_async<F: Future>(future: F) -> Result<F::Output, PanickedError> {
    let mut future = pin!(future);
    poll_fn(|context| match caught(|| future.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(panicked) => std::task::Poll::Ready(Err(panicked)),
    })
    .await
}
