use std::panic::resume_unwind;

use crankcase_resources::BoxError;

/// Does blocking work on the blocking pool; its panic goes on here.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, BoxError>
where
    T: Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Into::into),
        Err(err) if err.is_panic() => resume_unwind(err.into_panic()),
        Err(err) => Err(err.into()),
    }
}
