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

use crate::event_loop::{Call, Message};

/// For how many messages and calls room is kept.
const KEPT: usize = 1024;
/// Behind more messages than these a caller does not work on the loop, but leaves it to its task.
const FEW: usize = 64;

/// How often a caller looks for a loop that someone works on, and for how long it waits in between:
/// a microsecond or two in all.
const LOOKS: usize = 8;
const SPINS: usize = 16;

/// What waits for an engine's loop: two queues under one lock, and an idle loop `L` beside them.
///
/// Neither queue is bounded: workers tell from `drop` and have only a few messages under way each,
/// and most callers wait for their answers. Calls have a queue of their own, so that no answer waits
/// behind the messages of a hundred thousand workers.
pub(crate) struct Inbox<L> {
    state: Mutex<State<L>>,
}

struct State<L> {
    unread: Unread,
    /// The loop, while nobody works on it.
    idle: Option<Box<L>>,
    /// What the loop's task has to do besides what is unread.
    due: Due,
    /// No more than one worker starts, stops or waits, so that few have something to tell.
    is_quiet: bool,
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
    /// Something that comes before all that is asked for now.
    First,
}

/// An idle loop for a caller to work on, and to bring back.
pub(crate) struct Taken<L> {
    pub(crate) event_loop: Box<L>,
    /// There are messages to look at first.
    pub(crate) has_messages: bool,
}

/// A loop that is brought back.
pub(crate) struct Brought<L> {
    pub(crate) event_loop: Box<L>,
    pub(crate) due: Due,
    /// No more than one worker starts, stops or waits, so that few have something to tell.
    pub(crate) is_quiet: bool,
}

impl<L> Default for Inbox<L> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
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
    /// Tells the loop something. After the loop has ended nobody cares.
    pub(crate) fn send(&self, message: Message) {
        // What comes too late is dropped after the lock, which is declared later.
        let mut state = self.state.lock();
        if !state.is_closed {
            state.unread.messages.push_back(message);
            wake(state);
        }
    }

    /// Tells the loop something, or gives the loop to who tells it, with what is told, if it is idle,
    /// no other worker starts or stops, and who tells may work on it. What many tell is looked at
    /// together by the loop's task, which costs less.
    pub(crate) fn tell(
        &self,
        message: Message,
        may_work: impl FnOnce() -> bool,
    ) -> Option<(Box<L>, Message)> {
        // What comes too late is dropped after the lock, which is declared later.
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        if state.is_quiet
            && !state.has_work()
            && may_work()
            && let Some(event_loop) = state.idle.take()
        {
            return Some((event_loop, message));
        }
        state.unread.messages.push_back(message);
        wake(state);
        None
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
    ///
    /// A moment is waited for a loop that someone works on: most turns take less than it takes to
    /// change tasks or threads twice.
    pub(crate) fn take_idle(&self) -> Option<Taken<L>> {
        for _ in 0..LOOKS {
            let mut state = self.state.lock();
            let Unread { messages, calls } = &state.unread;
            if state.is_closed
                || state.due == Due::First
                || !calls.is_empty()
                || messages.len() > FEW
            {
                return None;
            }
            let has_messages = !messages.is_empty();
            if let Some(event_loop) = state.idle.take() {
                return Some(Taken { event_loop, has_messages });
            }
            drop(state);
            for _ in 0..SPINS {
                std::hint::spin_loop();
            }
        }
        None
    }

    /// Brings the loop back after work on it. Its task is woken if there is something for it to do,
    /// or if something has come meanwhile.
    pub(crate) fn bring_back(&self, brought: Brought<L>) {
        // It is dropped after the lock, which is declared later, if its task has gone meanwhile.
        let mut state = self.state.lock();
        if !state.is_abandoned {
            state.put(brought);
            if state.has_work() {
                wake(state);
            }
        }
    }

    /// Brings the loop back, unless a few messages have come meanwhile and nothing else: then whoever
    /// has it is to look at them too.
    pub(crate) fn hand_back(&self, brought: Brought<L>) -> Option<Box<L>> {
        let mut state = self.state.lock();
        if state.is_abandoned {
            drop(state);
            return None;
        }
        let Unread { messages, calls } = &state.unread;
        let is_free = calls.is_empty() && brought.due.max(state.due) < Due::First;
        if is_free && !messages.is_empty() && messages.len() <= FEW {
            return Some(brought.event_loop);
        }
        state.put(brought);
        if state.has_work() {
            wake(state);
        }
        None
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

impl<L> State<L> {
    fn put(&mut self, brought: Brought<L>) {
        let Brought { event_loop, due, is_quiet } = brought;
        self.idle = Some(event_loop);
        self.due = self.due.max(due);
        self.is_quiet = is_quiet;
    }

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
fn wake<L>(mut state: MutexGuard<'_, State<L>>) {
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
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::task::Wake;

    use super::*;
    use crate::machine::NodeId;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wakes {
        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// A loop, of which all but the place does not matter here.
    #[derive(Debug, PartialEq, Eq)]
    struct Loop;

    type Taking = Poll<Option<Box<Loop>>>;

    fn brought(event_loop: Box<Loop>, due: Due) -> Brought<Loop> {
        Brought { event_loop, due, is_quiet: true }
    }

    /// An inbox with an idle loop, whose task waits.
    fn waited_for() -> (Inbox<Loop>, Arc<Wakes>) {
        let (inbox, wakes) = (Inbox::default(), Arc::new(Wakes::default()));
        inbox.bring_back(brought(Box::new(Loop), Due::Nothing));
        assert!(poll(&inbox, &wakes, false).is_pending());
        (inbox, wakes)
    }

    fn poll(inbox: &Inbox<Loop>, wakes: &Arc<Wakes>, is_time: bool) -> Taking {
        let waker = Waker::from(Arc::clone(wakes));
        inbox.poll_work(&mut Context::from_waker(&waker), is_time)
    }

    fn message(number: usize) -> Message {
        Message::Unpin(NodeId::from_index(number))
    }

    /// Takes what has come and reads so many messages.
    fn read(inbox: &Inbox<Loop>, unread: &mut Unread, count: usize) -> Vec<usize> {
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
        let (inbox, mut unread) = (Inbox::<Loop>::default(), Unread::default());
        inbox.send(message(0));
        inbox.take(&mut unread);
        inbox.call(Call::Kill(None));
        inbox.take(&mut unread);
        assert_eq!((unread.messages.len(), unread.calls.len()), (1, 1));
    }

    #[test]
    fn the_task_is_woken_once_by_what_comes_and_never_when_something_is_there() {
        let (inbox, wakes) = waited_for();

        inbox.send(message(0));
        inbox.send(message(1));

        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&inbox, &wakes, false), Poll::Ready(Some(Box::new(Loop))));
        inbox.bring_back(brought(Box::new(Loop), Due::Nothing));
        assert!(poll(&inbox, &wakes, false).is_ready(), "nobody has read what is there");
    }

    #[test]
    fn who_calls_an_idle_loop_gets_it_and_the_next_one_waits() {
        let (inbox, wakes) = waited_for();

        let taken = inbox.take_idle().expect("it is idle");
        assert!(!taken.has_messages);
        assert!(inbox.take_idle().is_none(), "someone works on it");
        inbox.send(message(0));
        assert_eq!(wakes.count(), 0, "it would find no loop");

        inbox.bring_back(brought(taken.event_loop, Due::Nothing));
        assert_eq!(wakes.count(), 1);
        assert!(poll(&inbox, &wakes, false).is_ready());
    }

    #[test]
    fn a_loop_that_comes_back_with_nothing_to_do_wakes_nobody() {
        let (inbox, wakes) = waited_for();
        let taken = inbox.take_idle().expect("it is idle");

        inbox.bring_back(brought(taken.event_loop, Due::Nothing));

        assert_eq!(wakes.count(), 0);
        let taken = inbox.take_idle().expect("it is idle again");
        inbox.bring_back(brought(taken.event_loop, Due::Beside));
        assert_eq!(wakes.count(), 1, "there is something to do now");
        assert!(inbox.tell(message(0), || true).is_none(), "the task looks at it");
        let taken = inbox.take_idle().expect("a caller may come before the task");
        assert!(taken.has_messages);
        inbox.bring_back(brought(taken.event_loop, Due::First));
        assert!(inbox.take_idle().is_none(), "the task comes first");
        assert!(poll(&inbox, &wakes, false).is_ready());
        inbox.take(&mut Unread::default());
        inbox.bring_back(brought(Box::new(Loop), Due::Nothing));
        assert!(poll(&inbox, &wakes, false).is_pending(), "all is done");
    }

    #[test]
    fn a_task_whose_time_has_come_while_a_caller_works_gets_the_loop_after_it() {
        let (inbox, wakes) = waited_for();
        let taken = inbox.take_idle().expect("it is idle");
        assert!(poll(&inbox, &wakes, true).is_pending());

        inbox.bring_back(brought(taken.event_loop, Due::Nothing));

        assert_eq!(wakes.count(), 1);
        assert!(poll(&inbox, &wakes, false).is_ready());
    }

    #[test]
    fn a_call_in_the_queue_comes_before_who_calls_now() {
        let (inbox, _wakes) = waited_for();
        inbox.call(Call::Kill(None));

        assert!(inbox.take_idle().is_none());
    }

    #[test]
    fn what_was_told_meanwhile_is_looked_at_by_who_brings_the_loop_back() {
        let (inbox, wakes) = waited_for();
        let taken = inbox.take_idle().expect("it is idle");
        inbox.send(message(0));

        let again = inbox.hand_back(brought(taken.event_loop, Due::Nothing));
        let event_loop = again.expect("there is a message");
        assert!(inbox.hand_back(brought(event_loop, Due::First)).is_none(), "the task is first");

        assert_eq!(wakes.count(), 1);
    }

    #[test]
    fn a_worker_on_a_foreign_thread_does_not_get_the_loop() {
        let (inbox, wakes) = waited_for();

        assert!(inbox.tell(message(0), || false).is_none());

        assert_eq!(wakes.count(), 1);
    }

    #[test]
    fn a_worker_gets_the_loop_only_if_no_other_is_about_to_tell_something() {
        let (inbox, wakes) = waited_for();
        let (event_loop, told) =
            inbox.tell(message(0), || true).expect("it is idle, and all is quiet");
        assert!(matches!(told, Message::Unpin(node) if node.index() == 0));
        inbox.bring_back(Brought { event_loop, due: Due::Nothing, is_quiet: false });
        assert_eq!(inbox.count(), (0, 0), "it has what it was told");

        assert!(inbox.tell(message(1), || true).is_none(), "others are about to tell something");
        let taken = inbox.take_idle().expect("a caller does not wait for them");
        assert!(inbox.tell(message(2), || true).is_none(), "someone works on it");
        inbox.bring_back(brought(taken.event_loop, Due::Nothing));

        assert!(inbox.tell(message(3), || true).is_none(), "what was told before comes first");
        assert_eq!((inbox.count(), wakes.count()), ((3, 0), 1));
    }

    #[test]
    fn behind_many_messages_a_caller_waits_for_the_task() {
        let (inbox, _wakes) = waited_for();
        for number in 0..FEW {
            inbox.send(message(number));
        }
        let taken = inbox.take_idle().expect("there are few");
        assert!(taken.has_messages);
        inbox.bring_back(brought(taken.event_loop, Due::Nothing));

        inbox.send(message(FEW));

        assert!(inbox.take_idle().is_none());
    }

    #[test]
    fn a_loop_whose_task_is_gone_is_dropped_by_who_has_it() {
        let (inbox, wakes) = waited_for();
        assert_eq!(inbox.abandon(), Some(Box::new(Loop)));
        assert_eq!(Arc::strong_count(&wakes), 1);

        let (inbox, _wakes) = waited_for();
        let taken = inbox.take_idle().expect("it is idle");
        assert_eq!(inbox.abandon(), None);
        inbox.bring_back(brought(taken.event_loop, Due::Beside));
        assert!(inbox.state.lock().idle.is_none());
    }

    #[test]
    fn a_closed_inbox_takes_nothing_keeps_no_waker_and_ends_the_task() {
        let (inbox, wakes) = waited_for();
        assert_eq!(Arc::strong_count(&wakes), 2);

        assert!(inbox.close().is_empty());
        inbox.send(message(0));
        inbox.call(Call::Kill(None));

        assert_eq!((inbox.count(), inbox.is_closed()), ((0, 0), true));
        assert_eq!((Arc::strong_count(&wakes), wakes.count()), (1, 1));
        assert_eq!(poll(&inbox, &wakes, false), Poll::Ready(None));
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
    async fn what_comes_while_the_task_begins_to_wait_is_not_missed() {
        for number in 0..1_000 {
            let inbox = Arc::new(Inbox::default());
            let sender = Arc::clone(&inbox);
            let thread = std::thread::spawn(move || sender.send(message(number)));
            inbox.bring_back(brought(Box::new(Loop), Due::Nothing));
            poll_fn(|cx| inbox.poll_work(cx, false)).await;
            thread.join().unwrap();
        }
    }

    #[tokio::test]
    async fn what_comes_while_a_caller_works_is_not_missed() {
        for number in 0..1_000 {
            let inbox = Arc::new(Inbox::default());
            let shared = Arc::clone(&inbox);
            inbox.bring_back(brought(Box::new(Loop), Due::Nothing));
            let taken = inbox.take_idle().expect("it is idle");
            let caller = std::thread::spawn(move || {
                let (other, both) = (Arc::clone(&shared), Arc::new(Barrier::new(2)));
                let begin = Arc::clone(&both);
                let sender = std::thread::spawn(move || {
                    begin.wait();
                    other.send(message(number));
                });
                both.wait();
                shared.bring_back(brought(taken.event_loop, Due::Nothing));
                sender.join().unwrap();
            });
            poll_fn(|cx| inbox.poll_work(cx, false)).await;
            caller.join().unwrap();
        }
    }
}
