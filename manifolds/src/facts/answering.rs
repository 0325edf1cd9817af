use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use crankcase_facts::wire::{Answer, Refusal, Request};
use crankcase_facts::{Facts, FactsError};
use crankcase_status::Extension;
use serde_json::Value;

/// The target on the control socket of those who change facts.
pub const TARGET: &str = "/v1/facts";

/// How large a request may be, in bytes: a document of 16 MiB, each byte of which may be escaped.
const MAX_REQUEST: usize = 32 * 1024 * 1024;

/// Returns what answers those who change facts over the control socket: a [`Request`] that is sent to [`TARGET`] is
/// answered with an [`Answer`].
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
            Answer::Committed { revision: outcome.revision }
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
