use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;

use crate::vocabulary::exit::EndKind;
use crate::worker::context::Context;

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

/// What watches one worker, if anything does.
pub(crate) struct Observed {
    span: Span,
    path: String,
    metrics: Option<Arc<dyn Metrics>>,
    launched: Instant,
    started: OnceLock<Instant>,
}

impl Observed {
    /// Returns nothing when nobody would see it, as for most of a hundred thousand workers.
    pub(crate) fn new(ctx: &Context) -> Option<Arc<Self>> {
        let shared = &ctx.identity().shared;
        let span = tracing::debug_span!(parent: None, "worker", path = tracing::field::Empty);
        if span.is_disabled() && shared.metrics.is_none() {
            return None;
        }
        let path = ctx.path();
        span.record("path", path.as_str());
        Some(Arc::new(Self {
            span,
            path,
            metrics: shared.metrics.clone(),
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

    /// Metrics are foreign code, and come before the engine is told: they must not prevent it.
    fn tell(&self, count: impl FnOnce(&dyn Metrics)) {
        let Some(metrics) = &self.metrics else { return };
        if catch_unwind(AssertUnwindSafe(|| count(&**metrics))).is_err() {
            tracing::warn!(worker = %self.path, "the metrics panicked");
        }
    }
}
