//! The threads on which resources do blocking work, and the limit on their number.

use std::panic::resume_unwind;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::error::BoxError;

/// How many threads may work on resources at the same time. Each has a stack of its own. Without
/// this bound, ten thousand resources that begin together would take all threads that the runtime
/// allows.
const THREADS: usize = 64;

static FREE: Semaphore = Semaphore::const_new(THREADS);

/// Waits for one of the threads on which resources block.
pub(crate) async fn thread() -> SemaphorePermit<'static> {
    FREE.acquire().await.expect("the semaphore is never closed")
}

/// Does blocking work for a resource on the runtime's threads for blocking work, at most 64 at a
/// time.
///
/// # Errors
///
/// When the work fails.
///
/// # Panics
///
/// When the work panics.
///
/// # Cancel safety
///
/// Dropping the future ends the wait. Work that has begun goes on.
pub async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, BoxError>
where
    T: Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    let thread = thread().await;
    let task = tokio::task::spawn_blocking(move || {
        // Held by the work, which goes on when nobody waits for it any more.
        let _thread = thread;
        work()
    });
    match task.await {
        Ok(result) => result.map_err(Into::into),
        Err(err) if err.is_panic() => resume_unwind(err.into_panic()),
        Err(err) => Err(err.into()),
    }
}
