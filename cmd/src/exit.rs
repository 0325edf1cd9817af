//! The exit codes, the same for every command.

use std::io;
use std::process::ExitCode;

use crankcase_manifest::ManifestError;
use crankcase_manifolds::AgentError;
use crankcase_resources::UnknownTagError;
use crankcase_status::wire::FailureCode;
use crankcase_status::{ClientError, StateError};

use crate::command::control::BadReason;
use crate::print;
use crate::saved_plan::{HasVars, InvalidPlan, IsPiped, IsSavedPlan, OutOfDate};

/// All is done.
pub(crate) const DONE: u8 = 0;

/// The run failed, or something is in trouble.
pub(crate) const FAILED: u8 = 1;

/// Done, and something changed or would change.
pub(crate) const CHANGED: u8 = 2;

/// A signal came before it was done.
pub(crate) const INTERRUPTED: u8 = 130;

/// Invalid input; nothing was executed.
const INVALID: u8 = 65;

/// Wrong usage.
const USAGE: u8 = 64;

/// No agent is reachable.
const NO_AGENT: u8 = 69;

/// Something else stands against it.
const CONFLICT: u8 = 75;

/// Says what was wrong with the command line, or gives the help that was asked for.
pub(crate) fn after_parsing(error: &clap::Error) -> ExitCode {
    // Nobody can be told when the stream is closed.
    drop(error.print());
    ExitCode::from(if error.use_stderr() { USAGE } else { DONE })
}

/// Returns what is said of an error: its chain on one line, or all that is wrong with a manifest.
pub(crate) fn text_of(error: &anyhow::Error) -> String {
    match error.downcast_ref::<ManifestError>() {
        Some(error) => error.to_string(),
        None => format!("crankcase: {}", print::one_line(&format!("{error:#}"))),
    }
}

/// Returns the exit code that belongs to an error.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<ClientError>() {
        return of_client(error);
    }
    if error.is::<ManifestError>() || error.is::<IsSavedPlan>() || error.is::<InvalidPlan>() {
        return INVALID;
    }
    if error.is::<OutOfDate>() {
        return CONFLICT;
    }
    let is_usage = error.is::<HasVars>() || error.is::<IsPiped>() || error.is::<UnknownTagError>();
    if is_usage || error.is::<BadReason>() {
        return USAGE;
    }
    let state = match error.downcast_ref::<AgentError>() {
        Some(AgentError::State(state)) => Some(state),
        _ => error.downcast_ref::<StateError>(),
    };
    match state {
        Some(StateError::Held { .. }) => CONFLICT,
        Some(StateError::NoHome) => USAGE,
        _ => FAILED,
    }
}

fn of_client(error: &ClientError) -> u8 {
    match error {
        ClientError::NoAgent { .. } | ClientError::TooSlow { .. } | ClientError::Broken(_) => {
            NO_AGENT
        }
        ClientError::Refused { code, .. } => match code {
            FailureCode::Malformed | FailureCode::TooLarge => USAGE,
            FailureCode::Conflict => CONFLICT,
            FailureCode::Stopping | FailureCode::Busy | FailureCode::TooSlow => NO_AGENT,
            _ => FAILED,
        },
        _ => FAILED,
    }
}

/// Returns whether the reader of the output has had enough.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
