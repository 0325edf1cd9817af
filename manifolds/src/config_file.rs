//! The manifold of a configuration in a file.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Backoff, BoxError, ConfigError, Manifold, Name};
use crankcase_workers::{ConfigFile, ConfigFileConfig, LastGood, Watches};
use serde::de::DeserializeOwned;

use crate::detail::following;

/// Returns a manifold that offers what a file says, as an `Arc<T>` that changes with the file.
///
/// `validate` judges each version. One that is bad is refused: the value before stays on offer, also
/// over a bounce, and the worker is degraded with file, line and column. While the file is bad from
/// the beginning the worker fails, and is tried again after at most 5 s, before jitter; set another
/// [`Backoff`](Manifold::backoff) to change that.
///
/// `watches` is what tells that files have changed; it may come, go and come again.
///
/// # Errors
///
/// When the configuration cannot be used; it names the field at fault.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use crankcase_engine::{Engine, Name};
/// use crankcase_manifolds::{config_file, file_watch};
/// use crankcase_workers::{ConfigFileConfig, WatcherConfig, Watches};
///
/// #[derive(Debug, PartialEq, serde::Deserialize)]
/// struct Limits {
///     depth: usize,
/// }
///
/// const WATCHES: Name<Watches> = Name::new("watches");
/// const LIMITS: Name<Arc<Limits>> = Name::new("limits");
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("limits.yaml");
/// # std::fs::write(&path, "depth: 3")?;
/// let validate = |limits: &Limits| match limits.depth {
///     0 => Err("depth is 0; expected at least 1".into()),
///     _ => Ok(()),
/// };
/// let limits = config_file::manifold(ConfigFileConfig::new(&path), WATCHES, validate)?;
///
/// let engine = Engine::builder().build()?;
/// engine.install(WATCHES, file_watch::manifold(WatcherConfig::default())?).await?;
/// engine.install(LIMITS, limits).await?;
/// assert_eq!(engine.output(LIMITS).await?.depth, 3);
/// engine.stop().await?;
/// # Ok(())
/// # }
/// ```
pub fn manifold<T>(
    config: ConfigFileConfig,
    watches: Name<Watches>,
    validate: impl Fn(&T) -> Result<(), BoxError> + Send + Sync + 'static,
) -> Result<Manifold, ConfigError>
where
    T: DeserializeOwned + PartialEq + Send + Sync + 'static,
{
    config.validate()?;
    let validate = Arc::new(validate);
    let manifold = Manifold::builder()
        .inputs(watches.live())
        .start_with(
            (config, validate, LastGood::none()),
            |(config, validate, last), watches, ctx| async move {
                let validate = move |value: &T| validate(value);
                let (stop, watches) = (ctx.stop(), watches.into());
                let file = ConfigFile::load(stop, config, validate, watches, last).await?;
                Ok(file.telling(ctx.health().into()))
            },
        )
        .changing(ConfigFile::follow)
        .report(|file| following(file.status()))
        .build();
    Ok(manifold.backoff(Backoff::default().max(Duration::from_secs(5))))
}
