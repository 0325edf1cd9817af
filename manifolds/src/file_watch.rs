//! The manifold of the worker that watches files.

use std::future::ready;

use crankcase_engine::{ConfigError, Manifold};
use crankcase_workers::{Watcher, WatcherConfig};

/// Returns a manifold that watches files for all others; it offers
/// [`Watches`](crankcase_workers::Watches).
///
/// While the kernel does not watch a path, because of its limits for one, the worker is degraded
/// with the reason, and tries again. Its report says how much is watched.
///
/// # Errors
///
/// When the configuration cannot be used; it names the field at fault.
pub fn manifold(config: WatcherConfig) -> Result<Manifold, ConfigError> {
    config.validate()?;
    let builder = Manifold::builder();
    let started = builder.start_with(config, |config, (), ctx| async move {
        Ok(Watcher::new(config)?.telling(ctx.health().into()))
    });
    let reported = started.output(Watcher::handle).report(|watcher| {
        let watches = watcher.handle();
        move || ready(serde_json::to_value(watches.status()).unwrap_or_default())
    });
    Ok(reported.build())
}
