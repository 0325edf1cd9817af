//! The contract of those who answer other requests on the control socket, such as for facts.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use async_trait::async_trait;
use serde_json::Value;

/// Answers requests that are not about the engine, such as changes of facts.
///
/// # Guarantees
///
/// - An extension gets only requests to its own target: a `POST` with one JSON document, without duplicate keys.
/// - Only root and the agent's user get an answer.
///
/// # Requirements
///
/// - A request makes its change as a whole or not at all, also if the future of the answer is dropped.
#[async_trait]
pub trait Extension: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Returns the target of the requests, such as `/v1/facts`.
    fn target(&self) -> &'static str;

    /// Returns the size of the largest request body, in bytes.
    fn max_body(&self) -> usize;

    /// Answers a request of the user with this user id. The answer is a map.
    ///
    /// # Errors
    ///
    /// When the request cannot be understood. The error says what is wrong with it.
    async fn answer(&self, request: Value, user: u32) -> Result<Value, String>;

    /// Answers a request of this user from the process with this process id: the one that the process has where the
    /// agent runs, or 0 if the PID namespace of the agent does not have the process. The process may have ended since.
    /// By default [`answers`](Self::answer) without it.
    ///
    /// # Errors
    ///
    /// As [`answer`](Self::answer).
    async fn answer_process(
        &self,
        request: Value,
        user: u32,
        _pid: Option<i32>,
    ) -> Result<Value, String> {
        self.answer(request, user).await
    }
}
