//! How a worker ends, and what the engine does after each end.

use std::error::Error;
use std::fmt;
use std::panic::PanicHookInfo;

use serde::Serialize;

use crate::vocabulary::error::{BoxError, WithCauses};
use crate::vocabulary::{backtrace, text};

/// What a worker ends with: `Ok` when it is done, an [`Exit`] for every other end.
///
/// [`Exit`] lists what the engine does after each end. After `Ok(())` the worker stays stopped and
/// its outputs are withdrawn. It is started again when one of its inputs changes.
pub type Outcome = Result<(), Exit>;

/// Every end of a worker other than being done.
///
/// Any error converts into [`Exit::Failed`], so `?` works on standard errors, boxed errors, strings
/// and `anyhow`. `Exit` is not an `Error` itself: it is an instruction to the engine and may carry
/// an error.
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
    /// Something that the worker needs is missing, and it is not one of its inputs.
    ///
    /// The engine leaves the worker stopped until an input changes. The reason is in the report,
    /// cut after 64 KiB.
    Missing(String),
    /// The worker asks to be started again with fresh inputs.
    ///
    /// The engine does so after the bounce delay. It never counts as a failure.
    Bounce,
    /// The worker will never be needed again.
    ///
    /// The engine uninstalls its manifold, and its dependents lose their input.
    Uninstall,
    /// The worker failed. The engine restarts it after its backoff.
    ///
    /// A panic is a failure whose error is a [`Panicked`]. The report and the events show the text
    /// of the error with its causes, cut after 64 KiB.
    Failed(BoxError),
    /// The worker failed, and its engine must stop. [`Engine::wait`](crate::Engine::wait) returns
    /// the gravest fatal error.
    Fatal(BoxError),
}

/// How a worker has ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndKind {
    /// It has done its work.
    Done,
    /// It failed, panicked, or its start took too long.
    Failed,
    /// It asked to be started again.
    Bounce,
    /// Something that it needs is missing.
    Missing,
    /// It will never be needed again.
    Uninstall,
    /// It ended because it was told to stop, or the engine dropped its future.
    Stopped,
    /// It failed with an error that stops the engine.
    Fatal,
    /// Its task was dropped without a request from the engine: the runtime is shutting down.
    Dropped,
}

impl EndKind {
    /// Returns the word for the end.
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

    /// Returns the error that it carries. For other ends, returns an error with their text.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::Exit;
    ///
    /// let refused: Result<(), Exit> = Err(Exit::missing("a licence"));
    /// let error = refused.map_err(Exit::into_error).unwrap_err();
    /// assert_eq!(error.to_string(), "missing: a licence");
    /// ```
    pub fn into_error(self) -> BoxError {
        match self {
            Self::Failed(error) | Self::Fatal(error) => error,
            end => end.to_string().into(),
        }
    }

    /// Whether it is a panic that was caught.
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
    backtrace: Option<String>,
}

impl Panicked {
    /// Returns the panic for a payload that [`std::panic::catch_unwind`] caught.
    pub(crate) fn from_payload(payload: Box<dyn std::any::Any + Send>) -> Self {
        let message = match payload.downcast::<String>() {
            Ok(text) => Some(*text),
            Err(payload) => match payload.downcast::<&'static str>() {
                Ok(text) => Some((*text).to_owned()),
                Err(payload) => {
                    // The drop of the payload is foreign code and may panic again.
                    std::mem::forget(payload);
                    None
                }
            },
        };
        let backtrace = backtrace::take(message.as_deref());
        let message = message.unwrap_or_else(|| "a value that is not text".to_owned());
        Self { message, backtrace }
    }

    /// Notes the backtrace of a panic, for [`backtrace`](Self::backtrace) and the report. Returns
    /// it for a log.
    ///
    /// Call it in the panic hook of a program, because the stack is gone where a panic is caught.
    /// The engine sets no hook; the hook of an `Agent` that logs does call this. Returns `None`
    /// unless `RUST_BACKTRACE` or `RUST_LIB_BACKTRACE` asks for backtraces; see
    /// [`std::backtrace`].
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::Panicked;
    ///
    /// std::panic::set_hook(Box::new(|info| {
    ///     let backtrace = Panicked::note(info).unwrap_or_default();
    ///     eprintln!("{info}\n{backtrace}");
    /// }));
    /// ```
    pub fn note(info: &PanicHookInfo<'_>) -> Option<String> {
        backtrace::note(info)
    }

    /// Returns the functions on the stack, innermost first, one on each line, cut after 64 KiB.
    /// `None` unless the panic hook has called [`note`](Self::note) and backtraces are on.
    ///
    /// The functions are those of the program itself. If it has none there, they are those of its
    /// dependencies. Generic arguments are left out.
    pub fn backtrace(&self) -> Option<&str> {
        self.backtrace.as_deref()
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
