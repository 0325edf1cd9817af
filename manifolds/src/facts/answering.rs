//! Answers the requests on the control socket that change facts.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use crankcase_facts::wire::{Answer, Committed, Refusal, Request};
use crankcase_facts::{Degraded, Facts, FactsError, LARGEST_CHANGE, Snapshot};
use crankcase_status::Extension;
use serde_json::Value;

/// The target for changes of facts on the control socket.
pub const TARGET: &str = "/v1/facts";

/// The largest request, in bytes: the largest change, and what a request adds to each of its operations.
const MAX_REQUEST: usize = LARGEST_CHANGE + 8 * 1024 * 1024;

/// Says what a change of facts degrades in the agent, of the facts before and after it; changes nothing. Blocks.
pub type Judge = Arc<dyn Fn(&Snapshot, &Snapshot) -> Vec<Degraded> + Send + Sync>;

/// Returns the extension of the control socket that changes facts. It answers a [`Request`] to [`TARGET`] with an
/// [`Answer`].
pub fn answering(facts: Facts, judge: Judge) -> Arc<dyn Extension> {
    // A judge only reads, so a panic leaves nothing half done.
    Arc::new(Answering { facts, judge: AssertUnwindSafe(judge) })
}

struct Answering {
    facts: Facts,
    judge: AssertUnwindSafe<Judge>,
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").field("facts", &self.facts).finish_non_exhaustive()
    }
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
        let (facts, judge) = (self.facts.clone(), Arc::clone(&self.judge));
        let answered = tokio::task::spawn_blocking(move || answer(&facts, &*judge, request)).await;
        let answer = answered.map_err(|error| error.to_string())?;
        serde_json::to_value(answer).map_err(|error| error.to_string())
    }
}

#[expect(clippy::disallowed_methods, reason = "the history has the time of the day")]
fn answer(
    facts: &Facts,
    judge: &dyn Fn(&Snapshot, &Snapshot) -> Vec<Degraded>,
    request: Request,
) -> Answer {
    let (who, why, is_trial) = (request.who.clone(), request.why.clone(), request.is_trial);
    let submit = |it| facts.submit_judged(&it, SystemTime::now(), judge);
    match request.submission().and_then(submit) {
        Ok(outcome) if is_trial => Answer::Committed(Committed::of(&outcome)),
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
