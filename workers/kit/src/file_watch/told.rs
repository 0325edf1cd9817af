//! How a subscription learns that its path may have changed.
//!
//! It is a channel for one receiver. tokio's `watch` is for many, and takes 350 bytes: three times
//! as much, for each path that is watched.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::error::WatchProblem;

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Holds a permit while the receiver has something to look at and does not wait.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    problem: Option<Arc<WatchProblem>>,
    /// Whether the receiver was told and has not returned since.
    is_told: bool,
    is_ended: bool,
}

/// Tells a subscription. It has ended when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Teller(Arc<Shared>);

/// What a subscription was told.
#[derive(Debug)]
pub(super) struct Told(Arc<Shared>);

/// The teller is gone: nothing more will be told.
#[derive(Debug)]
pub(super) struct Ended;

impl Teller {
    /// Returns the only receiver.
    pub(super) fn receiver(&self) -> Told {
        Told(Arc::clone(&self.0))
    }

    /// Returns whether the path has a problem.
    pub(super) fn has_problem(&self) -> bool {
        self.0.state.lock().problem.is_some()
    }

    /// Returns why the kernel does not watch the whole path; `None` if it does.
    pub(super) fn problem(&self) -> Option<Arc<WatchProblem>> {
        self.0.state.lock().problem.clone()
    }

    /// Sets the problem, and tells nobody of it.
    pub(super) fn set_problem(&self, problem: Option<Arc<WatchProblem>>) {
        let _before = std::mem::replace(&mut self.0.state.lock().problem, problem);
    }

    /// Says that the path may have changed.
    pub(super) fn tell(&self) {
        self.0.state.lock().is_told = true;
        self.0.changed.notify_one();
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.state.lock().is_ended = true;
        self.0.changed.notify_one();
    }
}

impl Told {
    /// Returns why the kernel does not watch the whole path; `None` if it does.
    pub(super) fn problem(&self) -> Option<Arc<WatchProblem>> {
        self.0.state.lock().problem.clone()
    }

    /// Forgets what was told.
    pub(super) fn forget(&self) {
        self.0.state.lock().is_told = false;
    }

    /// Waits until something was told since the last return. Cancel safe.
    pub(super) async fn changed(&mut self) -> Result<(), Ended> {
        loop {
            {
                let mut state = self.0.state.lock();
                if std::mem::take(&mut state.is_told) {
                    return Ok(());
                }
                if state.is_ended {
                    return Err(Ended);
                }
            }
            self.0.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::Teller;

    #[tokio::test]
    async fn what_is_told_several_times_is_one_change_and_is_told_before_the_end() {
        let teller = Teller::default();
        let mut told = teller.receiver();

        teller.tell();
        teller.tell();
        assert!(told.changed().await.is_ok());
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(told.changed()).poll(&mut context).is_pending());
        teller.tell();
        drop(teller);

        assert!(told.changed().await.is_ok());
        assert!(told.changed().await.is_err());
    }

    #[tokio::test]
    async fn who_waits_is_told() {
        let teller = Teller::default();
        let mut told = teller.receiver();

        let waited = async { told.changed().await };
        let telling = async { teller.tell() };

        assert!(tokio::join!(waited, telling).0.is_ok());
    }

    #[test]
    fn what_was_told_can_be_forgotten() {
        let teller = Teller::default();
        let mut told = teller.receiver();

        teller.tell();
        told.forget();

        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(pin!(told.changed()).poll(&mut context), Poll::Pending));
    }
}
