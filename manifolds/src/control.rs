//! The control socket.

use std::sync::Arc;

use crankcase_engine::{Engine, Exit, Manifold};
use crankcase_status::{ConfigError, Control, ControlConfig, StateLock};

/// What the control socket is for, and where it is.
#[derive(Clone)]
pub struct Config {
    /// The state folder that it is in.
    pub lock: Arc<StateLock>,
    /// The engine that is reported.
    pub engine: Engine,
    /// What clients may cost.
    pub bounds: ControlConfig,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Returns a manifold that answers on the control socket.
///
/// Install it in an engine that outlives the one it reports, so that this one can be asked until
/// its end.
///
/// # Errors
///
/// When the bounds cannot be used; it names the field at fault.
pub fn manifold(config: Config) -> Result<Manifold, ConfigError> {
    config.bounds.validate()?;
    let manifold = Manifold::builder()
        .start_with(config, |config, (), _ctx| async move {
            let Config { lock, engine, bounds } = config;
            let control = Control::listen(&lock, engine, bounds)?;
            tracing::info!(path = %control.path().display(), "the control socket listens");
            Ok(control)
        })
        .build()
        .filter(|exit: Exit| {
            tracing::error!(error = %exit, "the control socket failed");
            Err(exit)
        });
    Ok(manifold)
}
