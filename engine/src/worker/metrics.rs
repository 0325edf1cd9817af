//! The interface for metrics of workers.

use std::time::Duration;

use crate::vocabulary::exit::EndKind;

/// Counts and times what workers do. Every method does nothing by default.
///
/// Called in the workers' tasks. A method that blocks delays the worker, not the engine.
pub trait Metrics: Send + Sync {
    /// Called when a worker is up. `took` is the duration of its start.
    fn worker_started(&self, path: &str, took: Duration) {
        let _ = (path, took);
    }

    /// Called when a worker has ended, whether it was up or not. `lived` is the time since its
    /// launch.
    fn worker_ended(&self, path: &str, end: EndKind, lived: Duration) {
        let _ = (path, end, lived);
    }
}
