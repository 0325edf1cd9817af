//! Pauses of workers, and the record of parks.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use async_trait::async_trait;
use crankcase_engine::Origin;

/// Pauses workers for people, and keeps on record which ones they have parked.
///
/// # Guarantees
///
/// - It is told of a park before the engine parks the worker, and of the end of a park after the engine has unparked the
///   worker or has refused to park it.
/// - It is asked to pause or resume installed workers only.
///
/// # Requirements
///
/// - What was done is on record when the answer comes.
/// - A request makes its change as a whole or not at all, also if the future of the answer is dropped.
#[async_trait]
pub trait Holder: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Notes by whom the worker with this path is parked; `None` if it is not parked any more.
    ///
    /// # Errors
    ///
    /// When that cannot be put on record. The error says why.
    async fn note_park(&self, path: &str, by: Option<&Origin>) -> Result<(), String>;

    /// Pauses the worker with this path for a person, or resumes it (`None`).
    ///
    /// # Errors
    ///
    /// When that cannot be done, such as for a worker that cannot be paused. The error says why.
    async fn pause(&self, path: &str, by: Option<&Origin>) -> Result<(), String>;
}
