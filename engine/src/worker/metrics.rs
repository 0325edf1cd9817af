use std::time::Duration;

use crate::vocabulary::exit::EndKind;

/// Counts and times what workers do. Every method does nothing by default.
///
/// It is called in the workers' tasks; one that blocks delays the worker, not the engine.
pub trait Metrics: Send + Sync {
    /// A worker is up; `took` is how long its start was.
    fn worker_started(&self, path: &str, took: Duration) {
        let _ = (path, took);
    }

    /// A worker has ended after it was up, or before.
    fn worker_ended(&self, path: &str, end: EndKind, lived: Duration) {
        let _ = (path, end, lived);
    }
}
