//! The answers, and the refusals.

use crankcase_engine::{ChangeError, Why};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::http::{Body, respond};
use crate::metrics::CONTENT_TYPE;
use crate::wire::{Failure, FailureCode, VERSION, Versioned};

/// An answer that is not what was asked for.
#[derive(Debug)]
pub(super) struct Refusal {
    code: FailureCode,
    message: String,
}

impl Refusal {
    pub(super) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn unknown_path(path: &str) -> Self {
        Self::new(FailureCode::UnknownPath, format!("nothing has the path {path:?}"))
    }

    /// Refuses a path that leads through a worker that is no engine.
    pub(super) fn no_engine(path: &str, way: &str) -> Self {
        let mut refusal = Self::unknown_path(path);
        refusal.message.push_str(&format!("; {way:?} has no workers of its own"));
        refusal
    }

    /// Refuses a path into an engine that is not there, and says why it is not.
    pub(super) fn engine_down(path: &str, why: &Why) -> Self {
        let mut refusal = Self::unknown_path(path);
        refusal.message.push_str(&format!(" at present: {why}"));
        refusal
    }

    /// Refuses a path of which only the last segment is wrong, and names the one that is much like
    /// it.
    pub(super) fn unknown_name(path: &str, nearest: Option<&str>) -> Self {
        match (nearest, path.rsplit_once('/')) {
            (Some(nearest), Some((folder, _))) => {
                Self::misplaced(path, &format!("{folder}/{nearest}"))
            }
            _ => Self::unknown_path(path),
        }
    }

    /// Refuses a path, and names the one that was most likely meant.
    pub(super) fn misplaced(path: &str, right: &str) -> Self {
        let mut refusal = Self::unknown_path(path);
        refusal.message.push_str(&format!("; did you mean {right:?}?"));
        refusal
    }

    /// Says why an engine did not change a worker.
    pub(super) fn of_change(error: &ChangeError) -> Self {
        let code = match error {
            ChangeError::Stopped => FailureCode::Stopping,
            _ => FailureCode::Conflict,
        };
        Self::new(code, error.to_string())
    }

    /// Refuses to bounce a worker that cannot start again, and says why it cannot.
    pub(super) fn cannot_start(why: &Why) -> Self {
        let message = format!("it cannot start, so nothing was changed: {why}");
        Self::new(FailureCode::Conflict, message)
    }

    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(FailureCode::Malformed, message)
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let status = match self.code {
            FailureCode::Malformed => StatusCode::BAD_REQUEST,
            FailureCode::UnknownPath | FailureCode::UnknownRequest => StatusCode::NOT_FOUND,
            FailureCode::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            FailureCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            FailureCode::Conflict => StatusCode::CONFLICT,
            FailureCode::TooSlow => StatusCode::GATEWAY_TIMEOUT,
            FailureCode::Busy | FailureCode::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            FailureCode::Internal | FailureCode::Other => StatusCode::INTERNAL_SERVER_ERROR,
        };
        json(status, &Failure { code: self.code, message: self.message })
    }
}

/// Returns an answer that is the text of metrics.
pub(super) fn plain(text: String) -> Response<Body> {
    respond(StatusCode::OK, CONTENT_TYPE, Full::from(text).boxed())
}

/// Returns an answer that is a value with its version.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(&Versioned { version: VERSION, value }) {
        Ok(mut text) => {
            text.push(b'\n');
            respond(status, "application/json", Full::from(text).boxed())
        }
        Err(error) => {
            tracing::error!(%error, "an answer of the control socket cannot be written");
            let text = Full::from(Bytes::new()).boxed();
            respond(StatusCode::INTERNAL_SERVER_ERROR, "application/json", text)
        }
    }
}
