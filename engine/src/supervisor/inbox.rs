//! The inbox of an engine's loop: messages from its workers, calls from outside, and the loop
//! itself while it is idle.
//!
//! A caller on a thread of the loop's runtime takes the idle loop and works on it, so that an
//! answer needs no turn of the loop's task. So does the task of a worker that comes up or ends while at
//! most one timer runs: restarts and chains take up to a quarter less time. (Combining: D. Hendler, I. Incze,
//! N. Shavit, M. Tzafrir, "Flat combining and the synchronization-parallelism tradeoff", SPAA 2010.)
//!
//! Invariants:
//! 1. The loop is either here, or with exactly one owner: its task, a caller or a worker.
//! 2. The task finds nothing to do and stores its waker under one lock. The sender of a message or
//!    call takes the waker under the same lock, so no wake-up is lost. While a caller or a worker has
//!    the loop, nobody is woken; it looks for new work when it brings the loop back.
//! 3. No waker runs and nothing foreign is dropped under the lock.
//! 4. A closed inbox accepts nothing and holds nothing.
//! 5. Each of the two queues is first in, first out.

use std::collections::VecDeque;
use std::mem;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

use super::call::Call;
use crate::worker::message::Message;

/// Room for this many messages, and this many calls, is kept.
const KEPT: usize = 1024;
/// If more messages than these wait, a caller leaves the loop to its task.
const FEW: usize = 64;

/// What waits for an engine's loop: two queues and the idle loop `L`, under one lock.
///
/// Neither queue is bounded. Workers send from `drop`, and each has only a few messages under way;
/// most callers wait for their answers. Calls have a queue of their own, so that no answer waits
/// behind the messages of a hundred thousand workers.
pub(crate) struct Inbox<L> {
    state: Mutex<Contents<L>>,
}

struct Contents<L> {
    unread: Unread,
    /// The loop, while it is idle.
    idle: Option<Box<L>>,
    /// Work for the loop's task, other than what is unread.
    due: Due,
    /// Whether at most one timer runs, so that few messages are to be expected.
    is_quiet: bool,
    /// The waker of the loop's task, while the task waits.
    waker: Option<Waker>,
    /// Whether the loop's task is gone.
    is_abandoned: bool,
    is_closed: bool,
}

/// Messages and calls that the loop has not handled, the oldest first.
#[derive(Default)]
pub(crate) struct Unread {
    pub(crate) messages: VecDeque<Message>,
    pub(crate) calls: VecDeque<Call>,
}

/// How urgent the work for the loop's task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Nothing,
    /// There is work, but callers may take the loop before it is done.
    Beside,
    /// There is work that must be done before any further call.
    First,
}

/// An idle loop that a caller works on and brings back.
pub(crate) struct Taken<L> {
    pub(crate) event_loop: Box<L>,
    /// Whether messages must be handled first.
    pub(crate) has_messages: bool,
}

impl<L> Default for Inbox<L> {
    fn default() -> Self {
        Self {
            state: Mutex::new(Contents {
                unread: Unread::default(),
                idle: None,
                due: Due::Nothing,
                is_quiet: true,
                waker: None,
                is_abandoned: false,
                is_closed: false,
            }),
        }
    }
}

impl<L> Inbox<L> {
    /// Sends a message to the loop. After the loop has ended, the message is dropped.
    pub(crate) fn send(&self, message: Message) {
        // The lock is declared after `message`, so a message for a closed inbox is dropped without
        // the lock.
        let mut state = self.state.lock();
        if !state.is_closed {
            state.unread.messages.push_back(message);
            wake(state);
        }
    }

    /// Sends a call to the loop. After the loop has ended, the caller finds its reply closed.
    pub(crate) fn call(&self, call: Call) {
        let mut state = self.state.lock();
        if !state.is_closed {
            state.unread.calls.push_back(call);
            wake(state);
        }
    }

    /// Sends a message to the loop, or returns it with the loop if the sender may take a turn: the
    /// loop is idle and quiet, and has nothing else to do. The loop's task handles the messages of
    /// many workers together, which costs less.
    pub(crate) fn take_or_send(
        &self,
        message: Message,
        may_work: impl FnOnce() -> bool,
    ) -> Option<(Box<L>, Message)> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        if state.is_quiet
            && !state.has_work()
            && state.idle.is_some()
            && may_work()
            && let Some(event_loop) = state.idle.take()
        {
            return Some((event_loop, message));
        }
        state.unread.messages.push_back(message);
        wake(state);
        None
    }

    /// Returns the loop to a caller if it is idle, no call waits, nothing is due first, and at most
    /// a few messages wait.
    pub(crate) fn take_idle(&self) -> Option<Taken<L>> {
        let mut state = self.state.lock();
        let Unread { messages, calls } = &state.unread;
        if state.is_closed || state.due == Due::First || !calls.is_empty() || messages.len() > FEW {
            return None;
        }
        let has_messages = !messages.is_empty();
        let event_loop = state.idle.take()?;
        Some(Taken { event_loop, has_messages })
    }

    /// Brings the loop back after a turn. Wakes the loop's task if there is work for it, or if
    /// something has arrived meanwhile.
    pub(crate) fn bring_back(&self, event_loop: Box<L>, due: Due, is_quiet: bool) {
        // If the task is gone, the loop is dropped here, after the lock: the lock is declared
        // later.
        let mut state = self.state.lock();
        if state.is_abandoned {
            return;
        }
        state.idle = Some(event_loop);
        state.due = state.due.max(due);
        state.is_quiet = is_quiet;
        if state.has_work() {
            wake(state);
        }
    }

    /// Moves each queue into `read` if all of that queue in `read` has been handled.
    pub(crate) fn take(&self, read: &mut Unread) {
        let mut state = self.state.lock();
        take_all(&mut state.unread.messages, &mut read.messages);
        take_all(&mut state.unread.calls, &mut read.calls);
    }

    /// Looks at the loop if it is idle, and at whether work waits for its task. `look` runs under
    /// the lock.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&L, bool) -> T) -> Option<T> {
        let state = self.state.lock();
        Some(look(state.idle.as_deref()?, state.has_work()))
    }

    /// Returns the number of waiting messages and of waiting calls.
    pub(crate) fn count(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.unread.messages.len(), state.unread.calls.len())
    }

    /// Returns the loop to its task once there is work, or once `is_time`; `None` once the inbox is
    /// closed. Only one task may wait.
    pub(crate) fn poll_work(&self, cx: &mut Context<'_>, is_time: bool) -> Poll<Option<Box<L>>> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Poll::Ready(None);
        }
        if is_time {
            state.due = state.due.max(Due::Beside);
        }
        if state.has_work()
            && let Some(event_loop) = state.idle.take()
        {
            state.due = Due::Nothing;
            let waker = state.waker.take();
            drop(state);
            // Something else woke the task, or it asks while it runs: the waker is not needed.
            drop(waker);
            return Poll::Ready(Some(event_loop));
        }
        let is_known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let before = if is_known { None } else { state.waker.replace(cx.waker().clone()) };
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Returns the idle loop when its task goes away. If a caller has the loop, `bring_back` drops
    /// it.
    pub(crate) fn abandon(&self) -> Option<Box<L>> {
        let (event_loop, waker) = {
            let mut state = self.state.lock();
            state.is_abandoned = true;
            (state.idle.take(), state.waker.take())
        };
        drop(waker);
        event_loop
    }

    /// Accepts nothing more, and returns what is unread. Wakes the loop's task, if it waits, so
    /// that it ends.
    pub(crate) fn close(&self) -> Unread {
        let (unread, waker) = {
            let mut state = self.state.lock();
            state.is_closed = true;
            (mem::take(&mut state.unread), state.waker.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        unread
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }
}

impl<L> Contents<L> {
    fn has_work(&self) -> bool {
        self.due > Due::Nothing || !self.unread.is_empty()
    }
}

impl Unread {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.calls.is_empty()
    }
}

/// Wakes the loop's task, without the lock, if the loop is idle.
fn wake<L>(mut state: MutexGuard<'_, Contents<L>>) {
    let waker = if state.idle.is_some() { state.waker.take() } else { None };
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Swaps the queues if `read` is empty. A large `read` queue gives its memory back first, even if
/// nothing has arrived.
fn take_all<T>(unread: &mut VecDeque<T>, read: &mut VecDeque<T>) {
    if read.is_empty() {
        read.shrink_to(KEPT);
        if !unread.is_empty() {
            mem::swap(unread, read);
        }
    }
}

#[cfg(test)]
mod tests;
