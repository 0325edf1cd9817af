//! The manifold of the worker that watches files.

use crankcase_engine::{ConfigError, Manifold};
use crankcase_workers::{Watcher, WatcherConfig};

/// Returns a manifold that watches files for all others; it offers
/// [`Watches`](crankcase_workers::Watches).
///
/// # Errors
///
/// When the configuration cannot be used; it names the field at fault.
pub fn manifold(config: WatcherConfig) -> Result<Manifold, ConfigError> {
    config.validate()?;
    let builder = Manifold::builder();
    let started =
        builder.start_with(config, |config, (), _ctx| async move { Ok(Watcher::new(config)?) });
    Ok(started.output(Watcher::handle).build())
}
