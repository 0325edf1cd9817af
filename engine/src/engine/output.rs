//! A request for the value behind a name, to await or to follow.

use std::fmt;
use std::future::{IntoFuture, pending};
use std::pin::Pin;

use tokio::sync::watch;

use super::Engine;
use crate::change::ChangeError;
use crate::supervisor::call::{Awaited, Question};
use crate::supervisor::life::Life;
use crate::vocabulary::live::{EngineGone, Live};
use crate::vocabulary::name::Name;
use crate::vocabulary::value::Kind;

impl Engine {
    /// Requests the value behind a name. Await the request to get the value once, or call
    /// [`follow`](OutputRequest::follow) to see each change.
    ///
    /// Awaiting waits until a worker offers the value, however long that takes. The name need not
    /// be installed. If a manifold without this output is installed during the wait, the wait goes
    /// on, because another manifold may still offer the value.
    ///
    /// A worker that awaits through its own handle, an [`EngineInput`](crate::EngineInput), shows
    /// that it waits: in [`why`](Self::why) and in [`graph`](Self::graph). But such a wait does not
    /// order starts and stops; prefer a declared input. If the worker is starting and would wait for
    /// itself, the wait is refused with [`ChangeError::WaitCycle`].
    pub fn output<T>(&self, name: Name<T>) -> OutputRequest<T>
    where
        T: Clone + Send + Sync + 'static,
    {
        OutputRequest::new(self.clone(), name)
    }
}

/// A request for the value behind a name; made by [`Engine::output`].
#[must_use = "a request does nothing until it is awaited or followed"]
pub struct OutputRequest<T> {
    engine: Engine,
    name: Name<T>,
}

impl<T: Clone + Send + Sync + 'static> OutputRequest<T> {
    pub(super) fn new(engine: Engine, name: Name<T>) -> Self {
        Self { engine, name }
    }

    /// Follows the value. It is `None` while no worker offers it.
    ///
    /// # Errors
    ///
    /// If the engine has ended, or if a manifold is installed under the name and does not offer the
    /// type.
    pub async fn follow(self) -> Result<Live<T>, ChangeError> {
        let name = self.name.into_text();
        let question = |reply| Question::Follow(name, Kind::of::<T>(), reply);
        let followed = self.engine.ask(question).await.unwrap_or(Err(ChangeError::Stopped))?;
        Ok(Live::new(followed.receiver, None).pinned(followed.pinned))
    }
}

impl<T: Clone + Send + Sync + 'static> IntoFuture for OutputRequest<T> {
    type Output = Result<T, ChangeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut life = self.engine.shared.life.clone();
            let asker = self.engine.caller.asker;
            let Some(asker) = asker else {
                return wait_for(&mut life, &mut self.follow().await?, pending()).await;
            };
            let Self { engine, name } = self;
            let question = |reply| Question::Await(name.into_text(), Kind::of::<T>(), asker, reply);
            let awaited = engine.ask(question).await.unwrap_or(Err(ChangeError::Stopped))?;
            let Awaited { followed, refused, waiting: _waiting } = awaited;
            let mut live = Live::new(followed.receiver, None).pinned(followed.pinned);
            let refused = async {
                match refused.await {
                    Ok(error) => error,
                    // The worker need not wait.
                    Err(_) => pending().await,
                }
            };
            wait_for(&mut life, &mut live, refused).await
        })
    }
}

/// Waits until there is a value, the wait is refused, or the engine is killed.
async fn wait_for<T: Clone + Send + Sync + 'static>(
    life: &mut watch::Receiver<Life>,
    live: &mut Live<T>,
    refused: impl Future<Output = ChangeError>,
) -> Result<T, ChangeError> {
    tokio::select! {
        biased;
        // A worker that is not up when the engine is killed never comes up.
        _ = life.wait_for(|life| !matches!(life, Life::Running)) => Err(ChangeError::Stopped),
        value = live.value() => value.map_err(|EngineGone| ChangeError::Stopped),
        error = refused => Err(error),
    }
}

impl<T> fmt::Debug for OutputRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputRequest").field(&self.name).finish()
    }
}
