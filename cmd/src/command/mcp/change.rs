//! Changes that an assistant proposes.

use crankcase_resources::front::resource_name;
use crankcase_status::Client;
use crankcase_status::wire::{Act, ControlRequest, Preview};
use serde_json::{Value, json};

use crate::command::control::user;
use crate::paths::worker_path;
use crate::print;

/// How many of the workers that a change would stop are named.
const NAMED: usize = 20;

/// A change that an assistant wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) act: Act,
    pub(super) path: String,
    pub(super) why: String,
}

/// What the person is asked before a change.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) text: String,
    /// What it would do. Consent to one effect is none to another.
    pub(super) effect: Preview,
}

impl Proposal {
    /// Returns what the person is asked.
    pub(super) async fn question(&self, client: &Client) -> anyhow::Result<Question> {
        let Self { act, path, why } = self;
        let (act, path) = (*act, worker_path(path));
        let state = client.why(&path).await?;
        let path = state.why.steps.first().map_or(path, |step| step.path.clone());
        let effect = client.preview(act, &path).await?;
        let what = match act {
            Act::Bounce => "stop and start again",
            Act::Park => "stop, and keep stopped,",
            Act::Unpark => "let start again",
        };
        let others = effect.in_words(NAMED, resource_name);
        // The facts come first: the reason is the assistant's words, and may say anything.
        let words = format!("The assistant's reason, in its words: {why:?}");
        let text = format!("{what} {path}? That {others}. Now: {}. {words}", state.text);
        let text = print::one_line(&text).into_owned();
        Ok(Question { text, effect })
    }

    /// Carries it out, after the person has agreed.
    pub(super) async fn carry_out(self, client: &Client) -> anyhow::Result<Value> {
        let Self { act, path, why } = self;
        let request = ControlRequest { path: worker_path(&path), who: user(), why };
        Ok(json!(client.control(act, &request).await?))
    }
}
