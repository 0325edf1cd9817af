//! What an engine's loop is told by its workers, and what is asked of it from outside.
//!
//! Invariants:
//! 1. The loop's waker is put under the lock under which it has found nothing, and is taken by
//!    whoever puts something in: no wake-up is lost.
//! 2. Nothing foreign is woken or dropped under the lock.
//! 3. Nothing is taken once it is closed, and nothing is kept then.
//! 4. What was put in first is handed over first, in each of the two queues.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::task::{Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

use crate::event_loop::{Call, Message};

/// For how many messages and calls room is kept.
const KEPT: usize = 1024;

/// What waits for an engine's loop: two queues under one lock.
///
/// Neither is bounded: workers tell from `drop` and have only a few messages under way each, and
/// every caller waits for its answer. Calls have a queue of their own, so that no answer waits
/// behind the messages of a hundred thousand workers.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    unread: Unread,
    /// The loop, while it waits.
    waker: Option<Waker>,
    is_closed: bool,
}

/// Messages and calls that the loop has not looked at, the oldest first.
#[derive(Default)]
pub(crate) struct Unread {
    pub(crate) messages: VecDeque<Message>,
    pub(crate) calls: VecDeque<Call>,
}

impl Inbox {
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

    /// Waits until something has come. Only one may wait.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is taken.
    pub(crate) async fn wait(&self) {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            if !state.unread.is_empty() {
                return Poll::Ready(());
            }
            let is_known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
            let before = if is_known { None } else { state.waker.replace(cx.waker().clone()) };
            drop(state);
            drop(before);
            Poll::Pending
        })
        .await;
    }

    /// Takes nothing more, and returns what was not handed over.
    pub(crate) fn close(&self) -> Unread {
        let (unread, waker) = {
            let mut state = self.state.lock();
            state.is_closed = true;
            (mem::take(&mut state.unread), state.waker.take())
        };
        // It may be the last thing that keeps the loop's task.
        drop(waker);
        unread
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }
}

impl Unread {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.calls.is_empty()
    }
}

/// Wakes the loop, without the lock.
fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
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
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;
    use crate::machine::NodeId;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn message(number: usize) -> Message {
        Message::Unpin(NodeId::from_index(number))
    }

    /// Takes what has come and reads so many messages.
    fn read(inbox: &Inbox, unread: &mut Unread, count: usize) -> Vec<usize> {
        inbox.take(unread);
        let number = |message| match message {
            Message::Unpin(node) => node.index(),
            _ => panic!("only pins are let go here"),
        };
        let count = count.min(unread.messages.len());
        unread.messages.drain(..count).map(number).collect()
    }

    #[test]
    fn messages_are_read_in_the_order_they_came() {
        let (inbox, mut unread) = (Inbox::default(), Unread::default());
        for number in 0..3 {
            inbox.send(message(number));
        }
        assert_eq!(read(&inbox, &mut unread, 2), [0, 1]);
        inbox.send(message(3));
        assert_eq!(read(&inbox, &mut unread, 9), [2]);
        assert_eq!(read(&inbox, &mut unread, 9), [3]);
    }

    #[test]
    fn calls_are_handed_over_whether_or_not_all_messages_were_read() {
        let (inbox, mut unread) = (Inbox::default(), Unread::default());
        inbox.send(message(0));
        inbox.take(&mut unread);
        inbox.call(Call::Kill(None));
        inbox.take(&mut unread);
        assert_eq!((unread.messages.len(), unread.calls.len()), (1, 1));
    }

    #[test]
    fn who_waits_is_woken_once_by_what_comes_and_never_when_something_is_there() {
        let (inbox, wakes) = (Inbox::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut wait = pin!(inbox.wait());

        assert!(wait.as_mut().poll(&mut cx).is_pending());
        inbox.send(message(0));
        inbox.send(message(1));

        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(wait.as_mut().poll(&mut cx).is_ready());
        assert!(pin!(inbox.wait()).poll(&mut cx).is_ready());
    }

    #[test]
    fn a_closed_inbox_takes_nothing_and_keeps_no_waker() {
        let (inbox, wakes) = (Inbox::default(), Arc::new(Wakes::default()));
        {
            let waker = Waker::from(Arc::clone(&wakes));
            let mut wait = pin!(inbox.wait());
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(Arc::strong_count(&wakes), 2);

        assert!(inbox.close().is_empty());
        inbox.send(message(0));
        inbox.call(Call::Kill(None));

        assert_eq!((inbox.count(), inbox.is_closed()), ((0, 0), true));
        assert_eq!(Arc::strong_count(&wakes), 1);
    }

    #[test]
    fn the_room_of_a_large_queue_is_let_go() {
        let (inbox, mut unread) = (Inbox::default(), Unread::default());
        for number in 0..2 * KEPT {
            inbox.send(message(number));
        }
        assert_eq!(read(&inbox, &mut unread, 2 * KEPT).len(), 2 * KEPT);

        inbox.take(&mut unread);

        let queues = [&unread.messages, &inbox.state.lock().unread.messages];
        let room: usize = queues.map(VecDeque::capacity).iter().sum();
        assert!(room <= 2 * KEPT, "room for {room} is kept");
    }

    #[tokio::test]
    async fn what_comes_while_one_begins_to_wait_is_not_missed() {
        for number in 0..1_000 {
            let inbox = Arc::new(Inbox::default());
            let sender = Arc::clone(&inbox);
            let thread = std::thread::spawn(move || sender.send(message(number)));
            inbox.wait().await;
            thread.join().unwrap();
        }
    }
}
