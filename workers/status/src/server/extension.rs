use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use async_trait::async_trait;
use serde_json::Value;

/// Answers requests that are about something else than the engine, such as changes of facts.
///
/// # Guarantees
///
/// - It is asked for its own target only, with `POST` and one JSON document in which no key is there twice.
/// - Only root and the agent's user are answered.
///
/// # Requirements
///
/// - What an answer changes is changed as a whole or not at all, also when nobody waits for it any more.
#[async_trait]
pub trait Extension: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Returns the target of the requests, such as `/v1/facts`.
    fn target(&self) -> &'static str;

    /// Returns how large the body of a request may be, in bytes.
    fn max_body(&self) -> usize;

    /// Answers a request of the user with this number. The answer is a map.
    ///
    /// # Errors
    ///
    /// What is wrong with a request that cannot be understood.
    async fn answer(&self, request: Value, user: u32) -> Result<Value, String>;
}
