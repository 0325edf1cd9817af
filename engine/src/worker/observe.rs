//! Observes one worker for tracing and metrics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tokio::time::Instant;
use tracing::Span;

use super::host::Identity;
use super::metrics::Metrics;
use crate::vocabulary::exit::EndKind;

/// The target of workers' spans. Programs enable the spans by it, so it stays as it is.
const TARGET: &str = "crankcase_engine::observe";

/// The span and the metrics of one worker.
pub(crate) struct Observed {
    span: Span,
    path: String,
    metrics: Option<Arc<dyn Metrics>>,
    launched: Instant,
    started: OnceLock<Instant>,
}

impl Observed {
    /// Returns `None` if no span and no metrics would use it. This saves memory with 100,000
    /// workers.
    pub(crate) fn new(identity: &Identity) -> Option<Arc<Self>> {
        let environment = identity.environment();
        let worker = tracing::field::Empty;
        let span = tracing::debug_span!(target: TARGET, parent: None, "worker", worker);
        if span.is_disabled() && environment.metrics.is_none() {
            return None;
        }
        let path = identity.path();
        span.record("worker", path.as_str());
        Some(Arc::new(Self {
            span,
            path,
            metrics: environment.metrics.clone(),
            launched: Instant::now(),
            started: OnceLock::new(),
        }))
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn started(&self) {
        let started = self.started.get_or_init(Instant::now);
        let took = started.duration_since(self.launched);
        self.tell(|metrics| metrics.worker_started(&self.path, took));
    }

    pub(crate) fn ended(&self, kind: EndKind) {
        let lived = self.launched.elapsed();
        self.tell(|metrics| metrics.worker_ended(&self.path, kind, lived));
    }

    /// Calls the metrics. They are foreign code and run before the engine learns of the event, so a
    /// panic must not stop the caller.
    fn tell(&self, count: impl FnOnce(&dyn Metrics)) {
        let Some(metrics) = &self.metrics else { return };
        if catch_unwind(AssertUnwindSafe(|| count(&**metrics))).is_err() {
            tracing::warn!(worker = %self.path, "the metrics panicked");
        }
    }
}
