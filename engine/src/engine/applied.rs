use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::change::ChangeError;

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
    answer: oneshot::Receiver<Result<(), Box<ChangeError>>>,
}

impl Applied {
    pub(super) fn new(answer: oneshot::Receiver<Result<(), Box<ChangeError>>>) -> Self {
        Self { answer }
    }
}

impl Future for Applied {
    type Output = Result<(), ChangeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Without an answer, the engine had ended.
        Pin::new(&mut self.answer).poll(cx).map(|answer| match answer {
            Ok(answer) => answer.map_err(|refused| *refused),
            Err(_) => Err(ChangeError::Stopped),
        })
    }
}

impl fmt::Debug for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Applied")
    }
}
