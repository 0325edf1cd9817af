//! The future that a caller gets for a change.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, mem};

use tokio::sync::oneshot;
use tokio::task::coop::poll_proceed;

use crate::change::ChangeError;

/// The result of a change. Errors are large and rare, so they are boxed.
pub(crate) type ChangeResult = Result<(), Box<ChangeError>>;

/// A change on its way to the engine. Await it to know when it is in force.
///
/// The call that returned this has already asked for the change. Changes take effect in the order
/// of their calls, and many may be on their way at once. The engine may answer other calls, such as
/// one for a report, before the change is in force; to prevent that, await the change first.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Engine, Manifold, Name};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let idle = || Manifold::builder().run(|(), up| async move { up.ready(()).wait().await; Ok(()) });
/// let engine = Engine::builder().build()?;
/// let both = [
///     engine.install(Name::<()>::new("one"), idle()),
///     engine.install(Name::<()>::new("other"), idle()),
/// ];
/// for applied in both {
///     applied.await?;
/// }
/// # engine.stop().await?; Ok(()) }
/// ```
///
/// # Errors
///
/// When the change was refused. Then nothing has changed.
///
/// # Cancel safety
///
/// Dropping it only stops the waiting. The engine still applies the change, or refuses it without
/// telling the caller.
#[must_use = "the change may be refused: await it"]
pub struct Applied {
    state: Progress,
}

enum Progress {
    /// The engine was idle and answered at once.
    Answered(ChangeResult),
    Waiting(oneshot::Receiver<ChangeResult>),
    Over,
}

impl Applied {
    pub(crate) fn answered(changed: ChangeResult) -> Self {
        Self { state: Progress::Answered(changed) }
    }

    pub(crate) fn waiting(answer: oneshot::Receiver<ChangeResult>) -> Self {
        Self { state: Progress::Waiting(answer) }
    }
}

impl Future for Applied {
    type Output = Result<(), ChangeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let changed = match &mut self.state {
            // The sender is dropped without an answer only if the engine has ended.
            Progress::Waiting(answer) => {
                ready!(Pin::new(answer).poll(cx)).unwrap_or_else(|_| Err(stopped()))
            }
            Progress::Answered(changed) => {
                // A caller that makes one change after another lets other tasks run now and then.
                ready!(poll_proceed(cx)).made_progress();
                mem::replace(changed, Ok(()))
            }
            Progress::Over => panic!("a change is awaited again after it was over"),
        };
        self.state = Progress::Over;
        Poll::Ready(changed.map_err(|refused| *refused))
    }
}

fn stopped() -> Box<ChangeError> {
    Box::new(ChangeError::Stopped)
}

impl fmt::Debug for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Applied")
    }
}
