use std::fmt::Display;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crankcase_engine::{Engine, EngineError, Exit};
use tokio::time::timeout;

use crate::bare::Bare;
use crate::failure::Failure;

/// Something that runs until it is killed: an engine, or a [`Bare`] worker.
pub trait Running: sealed::Sealed {
    /// What it ends with when it does not end well.
    type Error: Display;

    /// Returns whether it has ended.
    fn has_ended(&self) -> bool;

    /// Waits for its end.
    fn wait(self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Kills it and waits for its end. Returns the paths of workers that are left behind.
    fn kill(self) -> impl Future<Output = Result<Vec<String>, Self::Error>> + Send;
}

mod sealed {
    use crankcase_engine::Engine;

    use crate::bare::Bare;

    pub trait Sealed {}
    impl Sealed for Engine {}
    impl Sealed for Bare {}
}

impl Running for Engine {
    type Error = EngineError;

    fn has_ended(&self) -> bool {
        let wait = pin!(self.wait());
        !matches!(wait.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
    }

    async fn wait(self) -> Result<(), EngineError> {
        Self::wait(&self).await
    }

    async fn kill(self) -> Result<Vec<String>, EngineError> {
        self.stop().await?;
        Ok(self.report().await.left_behind)
    }
}

impl Running for Bare {
    type Error = Exit;

    fn has_ended(&self) -> bool {
        Self::has_ended(self)
    }

    async fn wait(mut self) -> Result<(), Exit> {
        self.ended().await
    }

    async fn kill(mut self) -> Result<Vec<String>, Exit> {
        self.stopper().stop();
        self.ended().await.map(|()| Vec::new())
    }
}

/// Checks that something has not ended.
///
/// # Errors
///
/// When it has.
pub fn check_alive<R: Running>(running: &R) -> Result<(), Failure> {
    if running.has_ended() { Err(Failure::new("it has ended")) } else { Ok(()) }
}

/// Waits until something ends that was told to stop, or that ends by itself, and returns how.
///
/// # Errors
///
/// When it has not ended within this time.
pub async fn check_killed<R: Running>(
    running: R,
    within: Duration,
) -> Result<Result<(), R::Error>, Failure> {
    let ended = timeout(within, running.wait()).await;
    ended.map_err(|_| Failure::new(format!("it has not ended within {within:?}")))
}

/// Kills something and returns how it ended, well or not.
///
/// # Errors
///
/// When it has not ended within this time.
pub async fn check_kill<R: Running>(
    running: R,
    within: Duration,
) -> Result<Result<(), R::Error>, Failure> {
    let killed = timeout(within, running.kill()).await;
    let killed = killed.map_err(|_| Failure::new(format!("it has not ended within {within:?}")))?;
    Ok(killed.map(drop))
}

/// Ends something that is to end well.
///
/// # Errors
///
/// When it ends with an error; an engine also when it leaves workers behind.
pub async fn clean_kill<R: Running>(running: R) -> Result<(), Failure> {
    match running.kill().await {
        Ok(left_behind) if left_behind.is_empty() => Ok(()),
        Ok(left_behind) => Err(Failure::with_seen("workers were left behind", &left_behind)),
        Err(error) => Err(Failure::new(format!("it did not end well: {error}"))),
    }
}

/// Ends something that is to end with an error, and returns the error.
///
/// # Errors
///
/// When it ends well.
pub async fn dirty_kill<R: Running>(running: R) -> Result<R::Error, Failure> {
    match running.kill().await {
        Ok(_) => Err(Failure::new("it ended well, but an error was expected")),
        Err(error) => Ok(error),
    }
}
