//! A report, with the reporters that are still to be asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::seen::report::Report;
use crate::worker::reporter::Reporter;

pub(crate) struct Snapshot {
    pub(crate) report: Report,
    pub(crate) asks: Vec<Asking>,
}

/// A reporter to ask: its worker's name, its deadline and its runtime.
pub(crate) struct Asking {
    pub(crate) name: String,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) deadline: Duration,
    pub(crate) runtime: Handle,
}
