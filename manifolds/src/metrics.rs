//! Metrics on a loopback port.

use std::net::SocketAddr;

use crankcase_engine::{EngineInput, Manifold};
use crankcase_status::{MetricsServer, MoreMetrics};

/// The address at which metrics are served, and the metrics beside those of the engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address, on loopback. Port 0 is one that the system picks.
    pub address: SocketAddr,
    /// The metrics beside those of the engine and its workers.
    pub more: MoreMetrics,
}

/// Returns a manifold that serves the metrics of its engine on a port, in the text format of
/// Prometheus, at `/metrics`.
pub fn manifold(config: Config) -> Manifold {
    Manifold::builder()
        .inputs(EngineInput)
        .start_with(config, |Config { address, more }, engine, _ctx| async move {
            let server = MetricsServer::listen(address, engine, more).await?;
            tracing::info!(address = %server.address(), "metrics are served");
            Ok(server)
        })
        .build()
}
