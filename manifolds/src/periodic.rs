//! The manifold of work that is done again and again.

use crankcase_engine::input::Inputs;
use crankcase_engine::{ConfigError, Manifold, Outcome};
use crankcase_workers::{Periodic, PeriodicConfig, Turn};

use crate::detail::following;

/// Returns a manifold that does `work` in turns, with a clone of its inputs' values in each.
///
/// It offers nothing. Its report says how many turns were done and skipped, whether one is being
/// done now, and how long the last one took.
///
/// # Errors
///
/// When the configuration cannot be used; it names the field at fault.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use crankcase_engine::Name;
/// use crankcase_manifolds::periodic;
/// use crankcase_workers::PeriodicConfig;
///
/// const STORE: Name<String> = Name::new("store");
///
/// # fn main() -> Result<(), crankcase_engine::ConfigError> {
/// let config = PeriodicConfig::new(Duration::from_secs(60));
/// let sweeper = periodic::manifold(config, STORE, |store: String, _turn| async move {
///     println!("sweeping {store}");
///     Ok(())
/// })?;
/// # drop(sweeper);
/// # Ok(())
/// # }
/// ```
pub fn manifold<I, F, W>(
    config: PeriodicConfig,
    inputs: I,
    work: F,
) -> Result<Manifold, ConfigError>
where
    I: Inputs,
    I::Values: Clone + Sync,
    F: Fn(I::Values, Turn) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = Outcome> + Send + 'static,
{
    config.validate()?;
    let started = Manifold::builder().inputs(inputs).start_with(
        (config, work),
        |(config, work), values: I::Values, _ctx| async move {
            Ok(Periodic::new(config, move |turn| work(values.clone(), turn))?)
        },
    );
    Ok(started.report(|periodic| following(periodic.stats())).build())
}
