//! The manifold that notices workers that have fallen silent.

use std::sync::Arc;

use crankcase_engine::{ConfigError, Manifold};
use crankcase_workers::{Heartbeat, HeartbeatConfig, HeartbeatStatus};
use tokio::sync::watch;

use crate::detail::following;

/// Returns a manifold that offers a [`Pulse`](crankcase_workers::Pulse), which those who are to be
/// watched have as an input, join and beat.
///
/// When one of them falls silent, the heartbeat bounces and all of them with it: those that have
/// hung are dropped after their grace, and started again. So give each group of workers that are to
/// go down together a heartbeat of its own. The report counts what was missed, over all bounces.
///
/// # Errors
///
/// When the configuration cannot be used; it names the field at fault.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use crankcase_engine::{Manifold, Name};
/// use crankcase_manifolds::heartbeat;
/// use crankcase_workers::{HeartbeatConfig, Pulse};
///
/// const HEARTBEAT: Name<Pulse> = Name::new("heartbeat");
///
/// # fn main() -> Result<(), crankcase_engine::ConfigError> {
/// let heartbeat = heartbeat::manifold(HeartbeatConfig::new(Duration::from_secs(30)))?;
/// let poller = Manifold::builder().inputs(HEARTBEAT).run(|pulse, up| async move {
///     let stop = up.ready(());
///     let beat = pulse.join("poller");
///     while !stop.is_stopped() {
///         // One piece of work.
///         beat.beat();
///         # break;
///     }
///     Ok(())
/// });
/// # drop((heartbeat, poller));
/// # Ok(())
/// # }
/// ```
pub fn manifold(config: HeartbeatConfig) -> Result<Manifold, ConfigError> {
    config.validate()?;
    // What the workers of all generations count in.
    let before = Arc::new(watch::Sender::new(watch::channel(HeartbeatStatus::default()).1));
    let started =
        Manifold::builder().start_with((config, before), |(config, before), (), _ctx| async move {
            let last = before.borrow().borrow().clone();
            let heartbeat = Heartbeat::new(config)?.counting_on(&last);
            before.send_replace(heartbeat.status());
            Ok(heartbeat)
        });
    Ok(started.output(Heartbeat::pulse).report(|heartbeat| following(heartbeat.status())).build())
}
