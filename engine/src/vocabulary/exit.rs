use std::error::Error;
use std::fmt;

use serde::Serialize;

use crate::vocabulary::error::{BoxError, WithCauses};
use crate::vocabulary::text;

/// What a worker ends with: `Ok` when it is done, an [`Exit`] for every other end.
///
/// The engine's answer to each is listed at [`Exit`]; `Ok(())` leaves the worker stopped, withdraws
/// its outputs, and starts it again when one of its inputs changes.
pub type Outcome = Result<(), Exit>;

/// Every way for a worker to end that is not simply being done.
///
/// Any error converts into [`Exit::Failed`], so `?` works on standard errors, boxed errors, strings
/// and `anyhow`. `Exit` is not an `Error` itself: it is an instruction to the engine that may carry
/// one.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Exit, Outcome};
///
/// fn parse(text: &str) -> Outcome {
///     if text.is_empty() {
///         return Err(Exit::missing("the text has not come yet"));
///     }
///     let number: u16 = text.parse()?;
///     if number == 0 { Err("zero is not a port".into()) } else { Ok(()) }
/// }
/// assert!(matches!(parse(""), Err(Exit::Missing(_))));
/// assert!(matches!(parse("x"), Err(Exit::Failed(_))));
/// assert!(matches!(parse("0"), Err(Exit::Failed(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Exit {
    /// Something that the worker needs and that is not one of its inputs is not there.
    ///
    /// The engine leaves the worker stopped until an input changes; the reason is in the report, cut
    /// after 64 KiB.
    Missing(String),
    /// The worker wants to be started again with fresh inputs.
    ///
    /// The engine does so after the bounce delay. It is not a failure and is never penalised.
    Bounce,
    /// The worker will never be needed again.
    ///
    /// The engine removes its manifold; dependents lose their input.
    Uninstall,
    /// The worker failed; the engine restarts it after its backoff.
    ///
    /// A panic is a failure whose error is a [`Panicked`]. What the error writes, with its causes, is in
    /// the report and the events, cut after 64 KiB.
    Failed(BoxError),
    /// The worker failed and its engine must stop; [`Engine::wait`](crate::Engine::wait) returns
    /// the worst fatal error.
    Fatal(BoxError),
}

/// How a worker has ended, in one word; for those who look at it from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndKind {
    /// It has done its work.
    Done,
    /// It failed, panicked, or its start took too long.
    Failed,
    /// It wants to be started again.
    Bounce,
    /// Something that it needs is not there.
    Missing,
    /// It will never be needed again.
    Uninstall,
    /// It ended because it was told to, or its future was dropped because the engine wanted it.
    Stopped,
    /// It failed so that the engine must stop.
    Fatal,
    /// Its task was dropped though the engine had not asked: the runtime is going.
    Dropped,
}

impl EndKind {
    /// Returns the end's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Bounce => "bounce",
            Self::Missing => "missing",
            Self::Uninstall => "uninstall",
            Self::Stopped => "stopped",
            Self::Fatal => "fatal",
            Self::Dropped => "dropped",
        }
    }
}

impl fmt::Display for EndKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Exit {
    /// Returns [`Exit::Missing`] with its reason, cut after 64 KiB.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self::Missing(text::cut(reason.into()))
    }

    /// Returns [`Exit::Failed`] with its error.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(error.into())
    }

    /// Returns [`Exit::Fatal`] with its error.
    pub fn fatal(error: impl Into<BoxError>) -> Self {
        Self::Fatal(error.into())
    }

    /// Returns the error that it carries, if any.
    pub fn error(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        match self {
            Self::Failed(error) | Self::Fatal(error) => Some(&**error),
            Self::Missing(_) | Self::Bounce | Self::Uninstall => None,
        }
    }

    /// Returns whether it is a panic that was caught.
    pub fn is_panic(&self) -> bool {
        self.error().is_some_and(<dyn Error + Send + Sync>::is::<Panicked>)
    }
}

impl<E: Into<BoxError>> From<E> for Exit {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl fmt::Display for Exit {
    /// Writes the error with its causes on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(reason) => write!(f, "missing: {reason}"),
            Self::Bounce => f.write_str("asked for a bounce"),
            Self::Uninstall => f.write_str("asked to be uninstalled"),
            Self::Failed(error) | Self::Fatal(error) => write!(f, "{}", WithCauses(&**error)),
        }
    }
}

/// A panic that was caught in a worker's `start`, `run`, outputs or filter, with its message.
#[derive(Clone, PartialEq, Eq)]
pub struct Panicked {
    message: String,
}

impl Panicked {
    /// Returns the panic behind the payload that [`std::panic::catch_unwind`] caught.
    pub fn from_payload(payload: Box<dyn std::any::Any + Send>) -> Self {
        let message = match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => match payload.downcast::<&'static str>() {
                Ok(text) => (*text).to_owned(),
                Err(payload) => {
                    // Its drop is foreign code and might panic again.
                    std::mem::forget(payload);
                    "a value that is not text".to_owned()
                }
            },
        };
        Self { message }
    }

    /// Returns the panic's message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.message)
    }
}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Panicked {}
