//! What workers report of themselves.

use std::future::{Ready, ready};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

/// Returns a reporter of the value that a worker published last.
pub(crate) fn following<T: Serialize>(values: watch::Receiver<T>) -> impl Fn() -> Ready<Value> {
    move || ready(serde_json::to_value(&*values.borrow()).unwrap_or_default())
}
