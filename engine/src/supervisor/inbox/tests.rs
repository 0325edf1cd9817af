//! The order of messages and calls in the inbox, and who gets the loop and is woken.

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

/// An inbox with an idle loop, whose task waits.
fn waited_for() -> (Inbox<Loop>, Arc<Wakes>) {
    let (inbox, wakes) = (Inbox::default(), Arc::new(Wakes::default()));
    inbox.bring_back(Box::new(Loop), Due::Nothing, true);
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
    inbox.bring_back(Box::new(Loop), Due::Nothing, true);
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

    inbox.bring_back(taken.event_loop, Due::Nothing, true);
    assert_eq!(wakes.count(), 1);
    assert!(poll(&inbox, &wakes, false).is_ready());
}

#[test]
fn a_loop_that_comes_back_with_nothing_to_do_wakes_nobody() {
    let (inbox, wakes) = waited_for();
    let taken = inbox.take_idle().expect("it is idle");

    inbox.bring_back(taken.event_loop, Due::Nothing, true);

    assert_eq!(wakes.count(), 0);
    let taken = inbox.take_idle().expect("it is idle again");
    inbox.bring_back(taken.event_loop, Due::Beside, true);
    assert_eq!(wakes.count(), 1, "there is something to do now");
    inbox.send(message(0));
    let taken = inbox.take_idle().expect("a caller may come before the task");
    assert!(taken.has_messages);
    inbox.bring_back(taken.event_loop, Due::First, true);
    assert!(inbox.take_idle().is_none(), "the task comes first");
    assert!(poll(&inbox, &wakes, false).is_ready());
    inbox.take(&mut Unread::default());
    inbox.bring_back(Box::new(Loop), Due::Nothing, true);
    assert!(poll(&inbox, &wakes, false).is_pending(), "all is done");
}

#[test]
fn a_task_whose_time_has_come_while_a_caller_works_gets_the_loop_after_it() {
    let (inbox, wakes) = waited_for();
    let taken = inbox.take_idle().expect("it is idle");
    assert!(poll(&inbox, &wakes, true).is_pending());

    inbox.bring_back(taken.event_loop, Due::Nothing, true);

    assert_eq!(wakes.count(), 1);
    assert!(poll(&inbox, &wakes, false).is_ready());
}

#[test]
fn a_worker_on_a_foreign_thread_does_not_get_the_loop() {
    let (inbox, wakes) = waited_for();

    assert!(inbox.take_or_send(message(0), || false).is_none());

    assert_eq!(wakes.count(), 1);
    assert_eq!(inbox.count(), (1, 0));
}

#[test]
fn a_worker_gets_the_loop_only_if_no_other_is_about_to_send_something() {
    let (inbox, wakes) = waited_for();
    let (event_loop, own) =
        inbox.take_or_send(message(0), || true).expect("it is idle, and all is quiet");
    assert!(matches!(own, Message::Unpin(node) if node.index() == 0));
    assert!(inbox.take_or_send(message(1), || true).is_none(), "someone works on it");
    inbox.bring_back(event_loop, Due::Nothing, false);
    assert!(poll(&inbox, &wakes, false).is_ready());
    inbox.take(&mut Unread::default());
    inbox.bring_back(Box::new(Loop), Due::Nothing, false);

    assert!(
        inbox.take_or_send(message(2), || true).is_none(),
        "others are about to send something"
    );
    assert_eq!(inbox.count(), (1, 0));
    assert!(inbox.take_idle().is_some(), "a caller does not wait for them");
}

#[test]
fn a_call_in_the_queue_comes_before_who_calls_now() {
    let (inbox, _wakes) = waited_for();
    inbox.call(Call::Kill(None));

    assert!(inbox.take_idle().is_none());
}

#[test]
fn behind_many_messages_a_caller_waits_for_the_task() {
    let (inbox, _wakes) = waited_for();
    for number in 0..FEW {
        inbox.send(message(number));
    }
    let taken = inbox.take_idle().expect("there are few");
    assert!(taken.has_messages);
    inbox.bring_back(taken.event_loop, Due::Nothing, true);

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
    inbox.bring_back(taken.event_loop, Due::Beside, true);
    assert!(inbox.state.lock().idle.is_none());
}

#[test]
fn a_closed_inbox_takes_nothing_keeps_no_waker_and_ends_the_task() {
    let (inbox, wakes) = waited_for();
    assert_eq!(Arc::strong_count(&wakes), 2);

    assert!(inbox.close().is_empty());
    inbox.send(message(0));
    inbox.call(Call::Kill(None));

    assert!(inbox.is_closed() && inbox.state.lock().unread.is_empty());
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
        inbox.bring_back(Box::new(Loop), Due::Nothing, true);
        poll_fn(|cx| inbox.poll_work(cx, false)).await;
        thread.join().unwrap();
    }
}

#[tokio::test]
async fn what_comes_while_a_caller_works_is_not_missed() {
    for number in 0..1_000 {
        let inbox = Arc::new(Inbox::default());
        let shared = Arc::clone(&inbox);
        inbox.bring_back(Box::new(Loop), Due::Nothing, true);
        let taken = inbox.take_idle().expect("it is idle");
        let caller = std::thread::spawn(move || {
            let (other, both) = (Arc::clone(&shared), Arc::new(Barrier::new(2)));
            let begin = Arc::clone(&both);
            let sender = std::thread::spawn(move || {
                begin.wait();
                other.send(message(number));
            });
            both.wait();
            shared.bring_back(taken.event_loop, Due::Nothing, true);
            sender.join().unwrap();
        });
        poll_fn(|cx| inbox.poll_work(cx, false)).await;
        caller.join().unwrap();
    }
}
