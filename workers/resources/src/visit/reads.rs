//! The files that a resource reads, which are left alone while somebody edits them.
//!
//! Invariants:
//! 1. A file that has changed is read after its quiet time only, whatever the reason of a visit.
//! 2. A change that was noted stays so until its quiet time is over, also if nobody waits for that meanwhile.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::QuietTime;

use crate::schedule::cause::Why;
use crate::visit::watching::{Watching, any};

/// The longest quiet time. A file of whose changes the kernel tells nothing is looked at every 30 s, and each
/// look counts as a change: a longer quiet time would not end before the next.
const LONGEST: Duration = Duration::from_secs(10);

/// The files that a resource reads, and people edit: templates and sources.
#[derive(Debug)]
pub(crate) struct Reads {
    watching: Watching,
    quiet_time: QuietTime,
    /// The first of the changes whose quiet time is not over.
    why: Option<Why>,
}

impl Reads {
    /// Returns what watches nothing yet.
    pub(crate) fn new(watching: Watching, quiet: Duration) -> Self {
        Self { watching, quiet_time: QuietTime::new(quiet.min(LONGEST)), why: None }
    }

    /// Watches other files, from the next renewal on.
    pub(crate) fn exchange(&mut self, paths: Vec<PathBuf>) {
        self.watching.exchange(paths);
    }

    /// Subscribes, if that is still to be done.
    pub(crate) async fn renew(&mut self, stop: &Stop) {
        self.watching.renew(stop).await;
    }

    /// Waits until a file has changed and was left alone, or a new watcher is there and nothing is being edited. Cancel
    /// safe (invariant 2).
    pub(crate) async fn left_alone(&mut self) -> Why {
        loop {
            tokio::select! {
                biased;
                // First: a file that changes all the time must not be waited for without an end.
                () = self.quiet_time.over() => {
                    if let Some(why) = self.why.take() {
                        return why;
                    }
                }
                whys = any(self.watching.signals()) => {
                    let edit = whys.into_iter().find(|why| *why != Why::Watcher);
                    if edit.is_none() && !self.quiet_time.is_running() {
                        return Why::Watcher;
                    }
                    self.why = self.why.take().or(edit);
                    self.quiet_time.note(self.watching.writing());
                }
            }
        }
    }

    /// Waits until each file that has changed was left alone, or `stop` is told. Returns the change, if there was one
    /// (invariant 1).
    pub(crate) async fn rest(&mut self, stop: &Stop) -> Option<Why> {
        match self.left_alone_by_now().await {
            // The watcher is another one than that of the subscriptions.
            Some(Why::Watcher) => {
                self.renew(stop).await;
                return None;
            }
            Some(why) => return Some(why),
            None if !self.quiet_time.is_running() => return None,
            None => {}
        }
        tokio::select! {
            biased;
            () = stop.wait() => None,
            why = self.left_alone() => Some(why),
        }
    }

    /// Notes what has changed by now. Returns the change if the wait for it is over.
    async fn left_alone_by_now(&mut self) -> Option<Why> {
        let mut left_alone = pin!(self.left_alone());
        match poll_fn(|context| Poll::Ready(left_alone.as_mut().poll(context))).await {
            Poll::Ready(why) => Some(why),
            Poll::Pending => None,
        }
    }
}
