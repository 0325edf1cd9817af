//! Asking a person before something is changed.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use crankcase_engine::{Stop, Stopper};
use crankcase_resources::run::Proposal;
use crankcase_resources::{Approval, Plan};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::exit::{ExitError, USAGE};
use crate::print;

/// What is asked for before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Confirm {
    /// Nothing
    #[default]
    None,
    /// The plan as a whole
    Once,
    /// Each resource that is to change
    Resource,
    /// Each action
    Action,
}

/// The error when nobody can be asked.
const NO_TERMINAL: &str = "--confirm asks on a terminal, and standard input or standard error is none; nothing was \
    changed. Save a plan with \"plan -o\" and apply it, or leave --confirm out";

impl Confirm {
    /// Returns whether a person is asked again and again.
    pub(crate) fn is_piecemeal(self) -> bool {
        matches!(self, Self::Resource | Self::Action)
    }

    /// Refuses to ask where nobody can answer.
    pub(crate) fn require_terminal(self) -> Result<(), ExitError> {
        let can_ask = io::stdin().is_terminal() && print::is_stderr_terminal();
        if self == Self::None || can_ask { Ok(()) } else { Err(ExitError::new(USAGE, NO_TERMINAL)) }
    }
}

/// Shows a plan, and asks whether it is to be carried out, unless its resources or actions are asked for
/// one by one.
pub(crate) async fn confirm_plan(of: Confirm, plan: &Plan) -> bool {
    // Nobody can be asked when the stream is closed: nothing is answered then.
    drop(print::to_stderr(|out| write!(out, "{plan}")));
    of.is_piecemeal() || ask("carry out this plan?".to_owned()).await
}

/// Asks for resources or actions, one at a time. The first refusal stops the apply.
pub(crate) struct Asking {
    of: Confirm,
    stopper: Stopper,
    stop: Stop,
    one: Mutex<()>,
    was_refused: AtomicBool,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("of", &self.of).finish_non_exhaustive()
    }
}

impl Asking {
    /// Returns what asks, and tells to stop what was refused.
    pub(crate) fn new(of: Confirm, (stopper, stop): (Stopper, Stop)) -> Self {
        Self { of, stopper, stop, one: Mutex::default(), was_refused: AtomicBool::new(false) }
    }

    /// Returns whether a person has refused something.
    pub(crate) fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Acquire)
    }
}

#[async_trait]
impl Approval for Asking {
    async fn refuses(&self, resource: &str, proposal: Proposal<'_>) -> Option<String> {
        let question = match (self.of, proposal) {
            (Confirm::Resource, Proposal::Change(change, _)) => {
                format!("{resource}\n{change}change it?")
            }
            (Confirm::Resource, Proposal::Refresh(action, _)) => {
                format!("{resource} was notified: {action}?")
            }
            (Confirm::Action, Proposal::Act(action)) => format!("{resource}: {action}?"),
            _ => return None,
        };
        let _one = self.one.lock().await;
        let is_confirmed = !self.was_refused()
            && tokio::select! {
                biased;
                () = self.stop.wait() => false,
                is_confirmed = ask(question) => is_confirmed,
            };
        if is_confirmed {
            return None;
        }
        self.was_refused.store(true, Ordering::Release);
        self.stopper.stop();
        Some("it was not confirmed".to_owned())
    }
}

/// Asks a question; only `y` and `yes` confirm.
async fn ask(question: String) -> bool {
    let answer = spawn_blocking(move || {
        print::to_stderr(|out| write!(out, "{question} [y/N] "))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.map_err(io::Error::other).flatten().unwrap_or_default();
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
