//! What an engine's loop is told by its workers, what is asked of it from outside, and the loop
//! itself while nobody works on it.
//!
//! An idle loop is worked on by whoever calls on a thread of its runtime, so that an answer takes no
//! turn of the loop's task (combining: D. Hendler, I. Incze, N. Shavit, M. Tzafrir, "Flat
//! combining and the synchronization-parallelism tradeoff", SPAA 2010).
//!
//! Invariants:
//! 1. The loop is here, or with exactly one who works on it: its task, or a caller.
//! 2. The waker of the loop's task is put under the lock under which it has found nothing to do, and
//!    is taken by whoever makes something: no wake-up is lost. While a caller has the loop nobody is
//!    woken; the caller looks at what has come when it brings the loop back.
//! 3. Nothing foreign is woken or dropped under the lock.
//! 4. Nothing is taken once it is closed, and nothing is kept then.
//! 5. What was put in first is handed over first, in each of the two queues.

use std::collections::VecDeque;
use std::mem;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

use super::call::Call;
use crate::worker::message::Message;

/// For how many messages and calls room is kept.
const KEPT: usize = 1024;
/// Behind more messages than these a caller does not work on the loop, but leaves it to its task.
const FEW: usize = 64;

/// What waits for an engine's loop: two queues under one lock, and an idle loop `L` beside them.
///
/// Neither queue is bounded: workers tell from `drop` and have only a few messages under way each,
/// and most callers wait for their answers. Calls have a queue of their own, so that no answer waits
/// behind the messages of a hundred thousand workers.
pub(crate) struct Inbox<L> {
    state: Mutex<Contents<L>>,
}

struct Contents<L> {
    unread: Unread,
    /// The loop, while nobody works on it.
    idle: Option<Box<L>>,
    /// What the loop's task has to do besides what is unread.
    due: Due,
    /// The loop's task, while it waits.
    waker: Option<Waker>,
    /// The loop's task is gone.
    is_abandoned: bool,
    is_closed: bool,
}

/// Messages and calls that the loop has not looked at, the oldest first.
#[derive(Default)]
pub(crate) struct Unread {
    pub(crate) messages: VecDeque<Message>,
    pub(crate) calls: VecDeque<Call>,
}

/// What there is to do for the loop's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Nothing,
    /// Something, before or after which callers may work on the loop.
    Beside,
    /// Something that comes before any further call.
    First,
}

/// An idle loop for a caller to work on, and to bring back.
pub(crate) struct Taken<L> {
    pub(crate) event_loop: Box<L>,
    /// There are messages to look at first.
    pub(crate) has_messages: bool,
}

impl<L> Default for Inbox<L> {
    fn default() -> Self {
        Self {
            state: Mutex::new(Contents {
                unread: Unread::default(),
                idle: None,
                due: Due::Nothing,
                waker: None,
                is_abandoned: false,
                is_closed: false,
            }),
        }
    }
}

impl<L> Inbox<L> {
    /// Tells the loop something. After the loop has ended nobody cares.
    pub(crate) fn send(&self, message: Message) {
        // What comes too late is dropped after the lock, which is declared later.
        let mut state = self.state.lock();
        if !state.is_closed {
            state.unread.messages.push_back(message);
            wake(state);
        }
    }

    /// Asks the loop for something. After the loop has ended the caller sees its reply closed.
    pub(crate) fn call(&self, call: Call) {
        let mut state = self.state.lock();
        if !state.is_closed {
            state.unread.calls.push_back(call);
            wake(state);
        }
    }

    /// Gives the loop to a caller, if it is idle and nobody comes before.
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

    /// Brings the loop back after work on it. Its task is woken if there is something for it to do,
    /// or if something has come meanwhile.
    pub(crate) fn bring_back(&self, event_loop: Box<L>, due: Due) {
        // It is dropped after the lock, which is declared later, if its task has gone meanwhile.
        let mut state = self.state.lock();
        if state.is_abandoned {
            return;
        }
        state.idle = Some(event_loop);
        state.due = state.due.max(due);
        if state.has_work() {
            wake(state);
        }
    }

    /// Hands over what has come, as far as what was handed over before has all been read.
    pub(crate) fn take(&self, read: &mut Unread) {
        let mut state = self.state.lock();
        take_all(&mut state.unread.messages, &mut read.messages);
        take_all(&mut state.unread.calls, &mut read.calls);
    }

    /// How many messages, and how many calls, have come.
    pub(crate) fn count(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.unread.messages.len(), state.unread.calls.len())
    }

    /// Gives the loop to its task once there is something to do, which there is also if it `is_time`;
    /// none once it is closed. Only one task may wait.
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
            // It was woken by something else, or asks while it runs.
            drop(waker);
            return Poll::Ready(Some(event_loop));
        }
        let is_known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let before = if is_known { None } else { state.waker.replace(cx.waker().clone()) };
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Returns the loop, whose task goes. If a caller works on it, it is dropped when it is brought
    /// back.
    pub(crate) fn abandon(&self) -> Option<Box<L>> {
        let (event_loop, waker) = {
            let mut state = self.state.lock();
            state.is_abandoned = true;
            (state.idle.take(), state.waker.take())
        };
        drop(waker);
        event_loop
    }

    /// Takes nothing more, and returns what was not handed over. The loop's task, if it waits, is
    /// woken to end.
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

/// Wakes the loop's task, without the lock, unless someone else has the loop.
fn wake<L>(mut state: MutexGuard<'_, Contents<L>>) {
    let waker = if state.idle.is_some() { state.waker.take() } else { None };
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Exchanges a queue that is read to its end for what has come. A large one is not kept, also if
/// nothing has come.
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
