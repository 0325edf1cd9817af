use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tokio::task::coop::poll_proceed;

use crate::change::ChangeError;

/// What has come of a change. Refusals are extras and large, so that they are boxed.
pub(crate) type ChangeResult = Result<(), Box<ChangeError>>;

/// A change that is on its way to the engine; await it to know when it is in force.
///
/// The change was asked for when the call that returned this was made: changes take effect in the
/// order of the calls, and many may be on their way at once. What is asked meanwhile, such as a report,
/// may be answered before: await the change first.
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
/// When the change was refused; nothing has changed then.
///
/// # Cancel safety
///
/// Dropping it stops waiting; what was asked for happens all the same, or is refused unheard.
#[must_use = "the change may be refused: await it"]
pub struct Applied {
    state: Progress,
}

enum Progress {
    /// The engine was idle, and the change could be made at once.
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
            // Without an answer, the engine had ended.
            Progress::Waiting(answer) => {
                ready!(Pin::new(answer).poll(cx)).unwrap_or_else(|_| Err(stopped()))
            }
            Progress::Answered(changed) => {
                // Who asks for one change after the other lets others run now and then.
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
