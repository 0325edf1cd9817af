//! Whether the person at the client agrees to a change.
//!
//! Up to version 2025-11-25 of the protocol the server asks while it answers. From 2026-07-28 on it may not: it answers
//! with the question, and the client calls again with what the person has said.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::bail;
use crankcase_status::Client;
use crankcase_status::wire::Preview;
use parking_lot::Mutex;
use rand::RngExt;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequiredResult, InputResponses,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::Instant;

use super::change::{Proposal, Question};
use crate::exit::{CONFLICT, ExitError, USAGE};

/// How many questions wait for an answer at most; the oldest ones are forgotten.
const MOST_ASKED: usize = 16;

/// How long an answer counts.
const LIFETIME: Duration = Duration::from_secs(600);

const OTHER_EFFECT: &str = "what it would do has changed since the person was asked";

/// The name of the question in what the client is sent.
const QUESTION: &str = "agreed";

/// The answer that a client sends with its second call.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Says which question is answered.
    pub(super) handle: Option<String>,
    pub(super) answers: Option<InputResponses>,
}

/// Whether the person agrees.
#[derive(Debug)]
pub(super) enum Consent {
    Given,
    /// The client has to ask.
    Asked(InputRequiredResult),
}

/// The questions that were sent to the client and not answered yet.
#[derive(Debug, Default)]
pub(super) struct Consents(Mutex<VecDeque<Asked>>);

#[derive(Debug)]
struct Asked {
    handle: String,
    proposal: Proposal,
    /// What the person read that the change would do.
    effect: Preview,
    at: Instant,
}

impl Consents {
    /// Asks the person, or takes the answer. Only an answer of the client itself is consent: once, within ten minutes, to
    /// the proposal and the effect that were asked about.
    pub(super) async fn ask(
        &self,
        (context, client): (&RequestContext<RoleServer>, &Client),
        reply: Reply,
        proposal: &Proposal,
    ) -> anyhow::Result<Consent> {
        if !can_ask(context) {
            let text = "this client cannot ask the person, so nothing is changed";
            bail!(ExitError::new(USAGE, text));
        }
        let Question { text, effect } = proposal.question(client).await?;
        if let Some(handle) = reply.handle {
            self.take(&handle, (proposal, &effect), Instant::now())?;
            let mut answers = reply.answers.unwrap_or_default();
            let answer = answers.remove(QUESTION).unwrap_or_default();
            return match answer["action"] == "accept" {
                true => Ok(Consent::Given),
                false => Err(not_agreed()),
            };
        }
        let question = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: text,
            requested_schema: ElicitationSchema::new(BTreeMap::new()),
        };
        if context.protocol_version().is_some_and(|version| !version.has_initialize()) {
            let question = InputRequest::Elicitation(ElicitRequest::new(question));
            let questions = [(QUESTION.to_owned(), question)].into();
            let handle = Some(self.keep(proposal.clone(), effect, Instant::now()));
            return Ok(Consent::Asked(InputRequiredResult::new(Some(questions), handle)));
        }
        let asked = context.peer.create_elicitation_with_timeout(question, Some(LIFETIME)).await;
        let answer = asked.map_err(|error| {
            let text = "the person could not be asked, so nothing was changed";
            ExitError::new(USAGE, format!("{text}: {error}"))
        })?;
        if answer.action != ElicitationAction::Accept {
            return Err(not_agreed());
        }
        // It may have taken minutes to answer.
        match proposal.question(client).await?.effect == effect {
            true => Ok(Consent::Given),
            false => Err(wrong(OTHER_EFFECT)),
        }
    }

    /// Keeps what is asked, and returns its handle: 128 random bits.
    fn keep(&self, proposal: Proposal, effect: Preview, at: Instant) -> String {
        let handle = format!("{:032x}", rand::rng().random::<u128>());
        let mut asked = self.0.lock();
        if asked.len() == MOST_ASKED {
            asked.pop_front();
        }
        asked.push_back(Asked { handle: handle.clone(), proposal, effect, at });
        handle
    }

    /// Takes what was asked under a handle, and requires that it is this.
    fn take(
        &self,
        handle: &str,
        (proposal, effect): (&Proposal, &Preview),
        now: Instant,
    ) -> anyhow::Result<()> {
        let asked = {
            let mut asked = self.0.lock();
            let place = asked.iter().position(|it| it.handle == handle);
            place.and_then(|place| asked.remove(place))
        };
        let text = match asked {
            None => "no question like that waits for an answer",
            Some(asked) if asked.proposal != *proposal => {
                "the person was asked about another change"
            }
            Some(asked) if asked.effect != *effect => OTHER_EFFECT,
            Some(asked) if now - asked.at > LIFETIME => "the answer came too late",
            Some(_) => return Ok(()),
        };
        Err(wrong(text))
    }
}

fn not_agreed() -> anyhow::Error {
    ExitError::new(CONFLICT, "the person has not agreed, so nothing was changed").into()
}

fn wrong(text: &str) -> anyhow::Error {
    let text = format!("{text}, so nothing was changed; ask again");
    ExitError::new(CONFLICT, text).into()
}

/// Returns whether the client can show a question.
fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|able| able.elicitation);
    // One that names no way has that of forms.
    elicitation.is_some_and(|ways| ways.form.is_some() || ways.url.is_none())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crankcase_status::wire::{Act, Preview};
    use serde_json::json;
    use tokio::time::Instant;

    use super::{Consents, LIFETIME, MOST_ASKED, Proposal};

    fn proposal() -> Proposal {
        Proposal { act: Act::Park, path: "a".to_owned(), why: "loud".to_owned() }
    }

    fn stops(paths: &[&str]) -> Result<Preview, serde_json::Error> {
        serde_json::from_value(json!({"bounced": [], "stopped": paths}))
    }

    #[test]
    fn consent_is_to_one_proposal_with_one_effect_for_a_while() -> Result<(), serde_json::Error> {
        let (consents, now) = (Consents::default(), Instant::now());
        let effect = stops(&["b"])?;
        let ask = || consents.keep(proposal(), effect.clone(), now);
        let others = [
            (Proposal { act: Act::Bounce, ..proposal() }, &effect),
            (Proposal { path: "b".to_owned(), ..proposal() }, &effect),
            (Proposal { why: "quiet".to_owned(), ..proposal() }, &effect),
            (proposal(), &stops(&["b", "c"])?),
        ];
        for (other, effect) in others {
            let taken = consents.take(&ask(), (&other, effect), now);
            assert!(taken.is_err(), "{other:?} {effect:?}");
        }
        let take = |handle: &str, at| consents.take(handle, (&proposal(), &effect), at).is_ok();
        let (in_time, late) = (ask(), ask());
        assert!(take(&in_time, now + LIFETIME));
        assert!(!take(&in_time, now), "it counts once");
        assert!(!take(&late, now + LIFETIME + Duration::from_millis(1)));
        Ok(())
    }

    #[test]
    fn the_oldest_of_too_many_questions_are_forgotten() {
        let (consents, now) = (Consents::default(), Instant::now());
        let keep = |_| consents.keep(proposal(), Preview::default(), now);
        let handles: Vec<_> = (0..=MOST_ASKED).map(keep).collect();
        let take = |handle: &str| consents.take(handle, (&proposal(), &Preview::default()), now);

        assert!(take(&handles[0]).is_err());
        assert!(take(&handles[1]).is_ok());
    }
}
