//! Keeps tenants within their limits.

use crate::{BoxError, Cache};

/// Drops the oldest notes of a tenant whenever it has more than `limit`, until `stop` is there.
///
/// # Errors
///
/// When the store cannot be written.
pub async fn sweep(
    cache: Cache,
    tenant: &str,
    limit: usize,
    stop: impl Future<Output = ()>,
) -> Result<(), BoxError> {
    let mut stop = std::pin::pin!(stop);
    let mut added = cache.added();
    cache.keep(tenant, limit).await?;
    tracing::info!(%tenant, limit, "keeps the newest notes");
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            changed = added.changed() => changed?,
        }
        cache.keep(tenant, limit).await?;
    }
}
