use std::panic::resume_unwind;

use crankcase_resources::BoxError;
use tokio::sync::Semaphore;

/// How many threads work on files at a time: each has a stack of its own, and ten thousand resources
/// that begin together would have as many as the runtime allows.
const THREADS: usize = 32;

static FREE: Semaphore = Semaphore::const_new(THREADS);

/// Does blocking work on the blocking pool; its panic goes on here.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, BoxError>
where
    T: Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    let thread = FREE.acquire().await.expect("the semaphore is never closed");
    let task = tokio::task::spawn_blocking(move || {
        // Held by the work: it goes on when nobody waits for it any more.
        let _thread = thread;
        work()
    });
    match task.await {
        Ok(result) => result.map_err(Into::into),
        Err(err) if err.is_panic() => resume_unwind(err.into_panic()),
        Err(err) => Err(err.into()),
    }
}
