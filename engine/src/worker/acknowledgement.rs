//! The answers to a publisher that waits until its followers read a value.
//!
//! Invariants:
//! 1. An acknowledgement is put and taken while the published value is locked. So the value that is
//!    taken with it is that value or a newer one.
//! 2. The message with an acknowledgement is sent after the value is ready for the loop. The loop
//!    handles the messages of a worker in order, so it has shown that value or a newer one before
//!    it acknowledges.
//! 3. An acknowledgement that is dropped answers too. So the publisher gets an answer if its worker
//!    or its engine ends.

use std::mem;
use std::panic::RefUnwindSafe;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::vocabulary::wake::wake;

/// Tells a publisher that the followers in its engine read a value. If it is dropped instead, the
/// publisher learns that they may not.
pub(crate) struct Acknowledgement(Option<oneshot::Sender<()>>);

impl Acknowledgement {
    pub(crate) fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(sender)), receiver)
    }

    pub(crate) fn acknowledge(mut self) {
        if let Some(sender) = self.0.take() {
            wake(|| {
                // The publisher may have stopped waiting.
                _ = sender.send(());
            });
        }
    }

    fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

impl Drop for Acknowledgement {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            wake(|| drop(sender));
        }
    }
}

/// The acknowledgements that a changing output takes with its next value. They are dropped with the
/// output.
#[derive(Default)]
pub(crate) struct Acknowledgements(Mutex<Vec<Acknowledgement>>);

// Each change under the lock is one that cannot be left half-done. An output stays what it was
// before it had these: one that a panic may pass.
impl RefUnwindSafe for Acknowledgements {}

impl Acknowledgements {
    /// Puts one here. Returns those that nobody waits for any more, for a drop outside the locks.
    pub(crate) fn put(&self, acknowledgement: Acknowledgement) -> Vec<Acknowledgement> {
        let mut waiting = self.0.lock();
        let unwanted = waiting.extract_if(.., |waiting| !waiting.is_awaited()).collect();
        waiting.push(acknowledgement);
        unwanted
    }

    pub(crate) fn take(&self) -> Vec<Acknowledgement> {
        mem::take(&mut *self.0.lock())
    }
}
