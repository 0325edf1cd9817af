use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use crankcase_facts::wire::{Answer, Committed, Refusal, Request};
use crankcase_facts::{Facts, FactsError, LARGEST_CHANGE};
use crankcase_status::Extension;
use serde_json::Value;

/// The target for changes of facts on the control socket.
pub const TARGET: &str = "/v1/facts";

/// The largest request, in bytes: the largest change, and what a request adds to each of its operations.
const MAX_REQUEST: usize = LARGEST_CHANGE + 8 * 1024 * 1024;

/// Returns the extension of the control socket that changes facts. It answers a [`Request`] to [`TARGET`] with an
/// [`Answer`].
pub fn answering(facts: Facts) -> Arc<dyn Extension> {
    Arc::new(Answering { facts })
}

#[derive(Debug)]
struct Answering {
    facts: Facts,
}

#[async_trait]
impl Extension for Answering {
    fn target(&self) -> &'static str {
        TARGET
    }

    fn max_body(&self) -> usize {
        MAX_REQUEST
    }

    async fn answer(&self, request: Value, user: u32) -> Result<Value, String> {
        let mut request: Request =
            serde_json::from_value(request).map_err(|error| error.to_string())?;
        request.who = format!("{} (uid {user})", request.who);
        let facts = self.facts.clone();
        let answered = tokio::task::spawn_blocking(move || answer(&facts, request)).await;
        let answer = answered.map_err(|error| error.to_string())?;
        serde_json::to_value(answer).map_err(|error| error.to_string())
    }
}

#[expect(clippy::disallowed_methods, reason = "the history has the time of the day")]
fn answer(facts: &Facts, request: Request) -> Answer {
    let (who, why) = (request.who.clone(), request.why.clone());
    let outcome = request.submission().and_then(|it| facts.submit(&it, SystemTime::now()));
    match outcome {
        Ok(outcome) => {
            let (version, changes) = (outcome.version, outcome.differences.len());
            tracing::info!(version, changes, who, why, "the facts were changed");
            Answer::Committed(Committed::of(&outcome))
        }
        Err(error) => {
            if let FactsError::Store(error) = &error {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "the facts cannot be changed"
                );
            }
            Answer::Refused(Box::new(Refusal::of(&error, facts.current().schemas())))
        }
    }
}
