//! The message of an error, and its exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ContextValue;
use crankcase_facts::wire::RefusalCode;
use crankcase_manifest::ManifestError;
use crankcase_manifolds::AgentError;
use crankcase_resources::front::SelectionError;
use crankcase_status::wire::FailureCode;
use crankcase_status::{ClientError, StateError};

use crate::exit::{CONFLICT, DONE, ExitError, FAILED, INVALID, NO_AGENT, USAGE};
use crate::facts_given::Refused;
use crate::global::Format;
use crate::plan_file::IsSavedPlan;
use crate::print::{self, Checked};

/// Shows an error. If data is asked for, the problems of a manifest and a refused change of facts are shown as data.
/// If that data cannot be written, the error is shown as a text.
pub(crate) fn tell(format: Format, error: &anyhow::Error) -> io::Result<()> {
    if let Some(Refused(refusal)) = error.downcast_ref::<Refused>()
        && format.is_data()
        && print::data(format, refusal, |_, _| Ok(())).is_ok()
    {
        return Ok(());
    }
    let checked = error.downcast_ref::<ManifestError>().map(Checked::from);
    let checked = checked.or_else(|| error.downcast_ref::<IsSavedPlan>().map(Checked::from));
    if let Some(checked) = checked.filter(|_| format.is_data())
        && print::data(format, &checked, |_, _| Ok(())).is_ok()
    {
        return Ok(());
    }
    print::to_stderr(|out| writeln!(out, "{}", text_of(error)))
}

/// Says what was wrong with the command line, or gives the help that was asked for.
pub(crate) fn after_parsing(mut error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nobody can be told when the stream is closed.
        error.print().ok();
        return ExitCode::from(DONE);
    }
    // The error shows parts of the command line.
    let given: Vec<_> =
        error.context().filter_map(|(kind, value)| Some((kind, on_one_line(value)?))).collect();
    for (kind, value) in given {
        error.insert(kind, value);
    }
    print::to_stderr(|out| write!(out, "{}", error.render())).ok();
    ExitCode::from(USAGE)
}

/// Returns a part of an error about the command line on one line, except for the usage.
fn on_one_line(value: &ContextValue) -> Option<ContextValue> {
    match value {
        ContextValue::String(text) => Some(ContextValue::String(print::one_line(text).into())),
        ContextValue::StyledStrs(texts) => {
            let texts =
                texts.iter().map(|text| print::one_line(&text.to_string()).into_owned().into());
            Some(ContextValue::StyledStrs(texts.collect()))
        }
        _ => None,
    }
}

/// Returns the message of an error: its chain on one line, or all problems of a manifest.
fn text_of(error: &anyhow::Error) -> String {
    match error.downcast_ref::<ManifestError>() {
        Some(error) => error.to_string(),
        None => format!("crankcase: {}", print::one_line(&format!("{error:#}"))),
    }
}

/// Returns the exit code that belongs to an error.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<ExitError>() {
        return error.code;
    }
    if let Some(error) = error.downcast_ref::<ClientError>() {
        return of_client(error);
    }
    if let Some(error) = error.downcast_ref::<ManifestError>() {
        return if error.is_of_machine() { FAILED } else { INVALID };
    }
    if error.is::<IsSavedPlan>() {
        return INVALID;
    }
    if let Some(refused) = error.downcast_ref::<Refused>() {
        return match refused.0.code {
            RefusalCode::Invalid => INVALID,
            RefusalCode::Conflict => CONFLICT,
            _ => FAILED,
        };
    }
    if error.is::<SelectionError>() {
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
