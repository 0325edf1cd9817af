//! The threads on which resources do blocking work, and the limit on their number.

use std::panic::resume_unwind;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::error::BoxError;

/// How many threads look at resources and change them at a time: each has a stack of its own, and ten
/// thousand resources that begin together would have as many as the runtime allows.
const THREADS: usize = 64;

static FREE: Semaphore = Semaphore::const_new(THREADS);

/// Waits for one of the threads on which resources block.
pub(crate) async fn thread() -> SemaphorePermit<'static> {
    FREE.acquire().await.expect("the semaphore is never closed")
}

/// Does blocking work for a resource on the runtime's threads for that, at most 64 of them at a time.
///
/// # Errors
///
/// That of the work.
///
/// # Panics
///
/// When the work does.
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
        // OpenResource by the work: it goes on when nobody waits for it any more.
        let _thread = thread;
        work()
    });
    match task.await {
        Ok(result) => result.map_err(Into::into),
        Err(err) if err.is_panic() => resume_unwind(err.into_panic()),
        Err(err) => Err(err.into()),
    }
}
