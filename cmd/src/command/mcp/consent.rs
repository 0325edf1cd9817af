//! Whether the person at the client agrees to a change.
//!
//! Up to version 2025-11-25 of the protocol the server asks while it answers. From 2026-07-28 on it may not: it answers
//! with the question, and the client calls again with what the person has said.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use crankcase_status::wire::Act;
use parking_lot::Mutex;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequiredResult, InputResponses,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::answer::Refusal;

/// How many questions wait for an answer at most. The oldest ones are forgotten.
const OPEN: usize = 16;

/// The name of the question in what the client is sent.
const QUESTION: &str = "agreed";

/// A change that an assistant wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) act: Act,
    pub(super) path: String,
    pub(super) why: String,
}

/// What a client sends with its second call.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// By which it is known to what question it belongs.
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

/// The questions that were not answered yet.
#[derive(Debug, Default)]
pub(super) struct Consents {
    open: Mutex<Open>,
    handles: RandomState,
}

#[derive(Debug, Default)]
struct Open {
    /// How many there were.
    count: u64,
    wishes: VecDeque<(String, Wish)>,
}

impl Consents {
    /// Asks the person. Only an answer of the client itself is consent, and only to the wish that was asked about, once.
    pub(super) async fn ask(
        &self,
        context: &RequestContext<RoleServer>,
        reply: Reply,
        wish: &Wish,
        question: impl Future<Output = Result<String, Refusal>>,
    ) -> Result<Consent, Refusal> {
        if !can_ask(context) {
            return Err(Refusal::usage("this client cannot ask the person, so nothing is changed"));
        }
        if let Some(handle) = reply.handle {
            self.close(&handle, wish)?;
            let answer = reply.answers.unwrap_or_default().remove(QUESTION).unwrap_or_default();
            return agreed(&answer["action"]);
        }
        let question = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: question.await?,
            requested_schema: ElicitationSchema::new(BTreeMap::new()),
        };
        if context.protocol_version().is_some_and(|version| !version.has_initialize()) {
            let question = InputRequest::Elicitation(ElicitRequest::new(question));
            let questions = [(QUESTION.to_owned(), question)].into();
            let handle = Some(self.open(wish.clone()));
            return Ok(Consent::Asked(InputRequiredResult::new(Some(questions), handle)));
        }
        match context.peer.create_elicitation(question).await {
            Ok(answer) => agreed(&serde_json::to_value(answer.action)?),
            Err(error) => Err(Refusal::usage(format!(
                "the person could not be asked, so nothing was changed: {error}"
            ))),
        }
    }

    /// Keeps a wish that is asked about, and returns its handle, which nobody can guess.
    fn open(&self, wish: Wish) -> String {
        let mut open = self.open.lock();
        open.count += 1;
        let handle = format!("{:016x}", self.handles.hash_one(open.count));
        if open.wishes.len() == OPEN {
            open.wishes.pop_front();
        }
        open.wishes.push_back((handle.clone(), wish));
        handle
    }

    /// Takes the wish of a handle, which has to be this one.
    fn close(&self, handle: &str, wish: &Wish) -> Result<(), Refusal> {
        let wishes = &mut self.open.lock().wishes;
        let place = wishes.iter().position(|(other, _)| other == handle);
        match place.and_then(|place| wishes.remove(place)) {
            Some((_, asked)) if asked == *wish => Ok(()),
            Some(_) => Err(Refusal::conflict(
                "the person was asked about another change; nothing was done",
            )),
            None => Err(Refusal::conflict(
                "the person was not asked about this, or has answered before; nothing was done",
            )),
        }
    }
}

fn agreed(action: &Value) -> Result<Consent, Refusal> {
    if *action == serde_json::to_value(ElicitationAction::Accept)? {
        return Ok(Consent::Given);
    }
    Err(Refusal::conflict("the person has not agreed, so nothing was changed"))
}

/// Returns whether the client can show a question.
fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|able| able.elicitation);
    // One that names no way has that of forms.
    elicitation.is_some_and(|ways| ways.form.is_some() || ways.url.is_none())
}
