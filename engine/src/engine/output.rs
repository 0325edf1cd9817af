//! A request for the value behind a name, to await or to follow.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;

use super::Engine;
use crate::change::ChangeError;
use crate::supervisor::call::Question;
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
            let mut live = self.follow().await?;
            tokio::select! {
                biased;
                // A worker that is not up when the engine is killed never comes up.
                _ = life.wait_for(|life| !matches!(life, Life::Running)) => Err(ChangeError::Stopped),
                value = live.value() => value.map_err(|EngineGone| ChangeError::Stopped),
            }
        })
    }
}

impl<T> fmt::Debug for OutputRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputRequest").field(&self.name).finish()
    }
}
