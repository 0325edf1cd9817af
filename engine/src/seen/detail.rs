use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::seen::report::Report;

/// Takes a worker's own report.
pub(crate) type Reporter =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Detail> + Send>> + Send + Sync>;

/// What a worker reports of itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Detail {
    /// The report of an engine that the worker is.
    Engine(Box<Report>),
    /// Any other report.
    Value(serde_json::Value),
}

/// Makes a reporter of what a worker gives as one.
pub(crate) fn reporter<P, F, D>(report: P) -> Reporter
where
    P: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = D> + Send + 'static,
    D: Into<Detail>,
{
    Arc::new(move || {
        let answer = report();
        Box::pin(async move { answer.await.into() })
    })
}

impl From<serde_json::Value> for Detail {
    fn from(value: serde_json::Value) -> Self {
        Self::Value(value)
    }
}

impl From<Report> for Detail {
    fn from(report: Report) -> Self {
        Self::Engine(Box::new(report))
    }
}
