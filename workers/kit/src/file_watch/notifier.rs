//! The way in which a subscription learns that its path may have changed.
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

/// Whether a file is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Writing {
    /// Who has written to it last has closed it, or nobody has written to it.
    #[default]
    Closed,
    /// Somebody has written to it and not closed it.
    Open,
}

#[derive(Debug, Default)]
struct State {
    problem: Option<Arc<WatchProblem>>,
    /// Whether a change has come since the receiver last returned one.
    has_news: bool,
    writing: Writing,
    is_ended: bool,
}

/// Notifies a subscription, which ends when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Notifier(Arc<Shared>);

/// The changes that a subscription is notified of.
#[derive(Debug)]
pub(super) struct Changes(Arc<Shared>);

/// The notifier is gone: no change will follow.
#[derive(Debug)]
pub(super) struct Ended;

impl Notifier {
    /// Returns the only receiver.
    pub(super) fn receiver(&self) -> Changes {
        Changes(Arc::clone(&self.0))
    }

    /// Returns whether the path has a problem.
    pub(super) fn has_problem(&self) -> bool {
        self.0.state.lock().problem.is_some()
    }

    /// Returns why the kernel does not watch the whole path; `None` if it does.
    pub(super) fn problem(&self) -> Option<Arc<WatchProblem>> {
        self.0.state.lock().problem.clone()
    }

    /// Sets the problem, and notifies nobody of it.
    pub(super) fn set_problem(&self, problem: Option<Arc<WatchProblem>>) {
        let _before = std::mem::replace(&mut self.0.state.lock().problem, problem);
    }

    /// Sets whether the file is being written, and notifies nobody of it.
    pub(super) fn set_writing(&self, writing: Writing) {
        self.0.state.lock().writing = writing;
    }

    /// Says that the path may have changed.
    pub(super) fn notify(&self) {
        self.0.state.lock().has_news = true;
        self.0.changed.notify_one();
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.0.state.lock().is_ended = true;
        self.0.changed.notify_one();
    }
}

impl Changes {
    /// Returns why the kernel does not watch the whole path; `None` if it does.
    pub(super) fn problem(&self) -> Option<Arc<WatchProblem>> {
        self.0.state.lock().problem.clone()
    }

    /// Returns whether the file is being written.
    pub(super) fn writing(&self) -> Writing {
        self.0.state.lock().writing
    }

    /// Forgets the changes until now.
    pub(super) fn forget(&self) {
        self.0.state.lock().has_news = false;
    }

    /// Waits for a change since the last return. Cancel safe.
    pub(super) async fn changed(&mut self) -> Result<(), Ended> {
        loop {
            {
                let mut state = self.0.state.lock();
                if std::mem::take(&mut state.has_news) {
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

    use super::Notifier;

    #[tokio::test]
    async fn what_has_news_several_times_is_one_change_and_has_news_before_the_end() {
        let notifier = Notifier::default();
        let mut changes = notifier.receiver();

        notifier.notify();
        notifier.notify();
        assert!(changes.changed().await.is_ok());
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(changes.changed()).poll(&mut context).is_pending());
        notifier.notify();
        drop(notifier);

        assert!(changes.changed().await.is_ok());
        assert!(changes.changed().await.is_err());
    }

    #[tokio::test]
    async fn who_waits_has_news() {
        let notifier = Notifier::default();
        let mut changes = notifier.receiver();

        let waited = async { changes.changed().await };
        let notifying = async { notifier.notify() };

        assert!(tokio::join!(waited, notifying).0.is_ok());
    }

    #[test]
    fn changes_can_be_forgotten() {
        let notifier = Notifier::default();
        let mut changes = notifier.receiver();

        notifier.notify();
        changes.forget();

        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(pin!(changes.changed()).poll(&mut context), Poll::Pending));
    }
}
