//! The turns of the loop: who takes them, and what each does.
//!
//! The loop's task takes turns while there is something to do. While the loop is idle, a caller on
//! a thread of the loop's runtime takes a turn itself: otherwise its answer would take two switches
//! between tasks or threads. A worker's task takes a turn itself, too, when the worker comes up
//! or ends and at most one timer runs: the next link of a chain starts at once.
//!
//! Invariants:
//! 1. If the loop is in its inbox and nothing is `First` for its task, the loop has no group under
//!    way or queued, and has handled all that it took from the inbox.
//! 2. A turn of a caller or a worker handles messages, but no calls of others: the task begins the
//!    calls that wait in the queue.
//! 3. If a turn leaves a timer that ends before the task's sleep does, the task resets its sleep.
//!    After a turn of a caller or a worker the task is woken for that.
//! 4. A panic in a turn ends the engine's loop, and nothing else.

use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::coop::cooperative;
use tokio::time::{Instant, sleep_until};

use super::applied::{Applied, ChangeResult};
use super::call::Call;
use super::inbox::{Due, Taken};
use super::job::{Caller, Job};
use super::pace::Begun;
use super::{BATCH, EventLoop, Shared};
use crate::change::{ChangeError, Ops};
use crate::machine::Scope;
use crate::worker::message::Message;

/// The task of an engine's loop. When the task is dropped, also with its runtime, so is the loop.
pub(crate) struct LoopTask {
    shared: Arc<Shared>,
}

impl Drop for LoopTask {
    fn drop(&mut self) {
        drop(self.shared.inbox.abandon());
    }
}

impl LoopTask {
    pub(crate) fn new(event_loop: EventLoop) -> Self {
        let shared = Arc::clone(&event_loop.shared);
        shared.bring_back(Box::new(event_loop), Due::Nothing);
        Self { shared }
    }

    /// Runs until the engine has ended.
    pub(crate) async fn run(self) {
        let inbox = &self.shared.inbox;
        let mut sleep = pin!(sleep_until(self.shared.environment.clock.began));
        let mut is_asleep = false;
        loop {
            let taken = poll_fn(|cx| {
                let taken = inbox.poll_work(cx, false);
                if taken.is_ready() || !is_asleep || sleep.as_mut().poll(cx).is_pending() {
                    return taken;
                }
                is_asleep = false;
                inbox.poll_work(cx, true)
            });
            // Endless work does not keep the other tasks of this thread waiting.
            let Some(mut event_loop) = cooperative(taken).await else { return };
            if !is_asleep {
                event_loop.timers.wake_up();
            }
            let has_more = event_loop.take_turn();
            if event_loop.ending.is_finished {
                return event_loop.finish().await;
            }
            if let Some(until) = event_loop.next_sleep() {
                sleep.as_mut().reset(until);
                is_asleep = true;
            }
            let waiting = has_more.then(|| Begun::of(&event_loop.pace, &event_loop.unread));
            // If work is left, a caller that comes before the next turn queues its call.
            let is_done = waiting.is_none() && event_loop.unread.is_empty();
            self.shared.bring_back(event_loop, if is_done { Due::Nothing } else { Due::First });
            if let Some(waiting) = waiting {
                inbox.let_others_run(waiting).await;
            }
        }
    }
}

impl Shared {
    /// Sends a call to the loop. If the loop is idle and this thread belongs to its runtime, the
    /// call is done, or has begun, when this returns.
    pub(crate) fn call(&self, call: Call) {
        match self.take_idle() {
            Some(taken) => {
                self.attend(taken, |event_loop| event_loop.take_call(call));
            }
            None => self.inbox.call(call),
        }
    }

    /// Takes a turn of the idle loop with a message, or sends the message if more than one timer
    /// runs.
    pub(super) fn take_or_send(&self, message: Message) {
        if let Some((event_loop, message)) = self.inbox.take_or_send(message, || self.is_here()) {
            let taken = Taken { event_loop, has_messages: false };
            self.attend(taken, |event_loop| event_loop.receive(message));
        }
    }

    /// Asks for a group of changes.
    pub(crate) fn change(&self, ops: Ops, caller: Caller) -> Applied {
        let mut job = Job::new(ops, caller);
        let Some(taken) = self.take_idle() else {
            let applied = job.applied();
            self.inbox.call(Call::Change(Box::new(job)));
            return applied;
        };
        match self.attend(taken, |event_loop| event_loop.change(&mut job)) {
            Some(Ok(changed)) => Applied::answered(changed),
            Some(Err(applied)) => applied,
            None => Applied::answered(Err(Box::new(ChangeError::Stopped))),
        }
    }

    fn take_idle(&self) -> Option<Taken<EventLoop>> {
        if self.is_here() { self.inbox.take_idle() } else { None }
    }

    /// Whether this thread is in the loop's runtime. Only there does a caller have the loop's
    /// clock. And if the workers have another runtime, the engine does not depend on their threads.
    fn is_here(&self) -> bool {
        Handle::try_current().is_ok_and(|current| current.id() == self.environment.driver.id())
    }

    /// Ends a turn: brings the loop back to its inbox.
    fn bring_back(&self, mut event_loop: Box<EventLoop>, due: Due) {
        event_loop.is_in_turn = false;
        // Each worker that starts, stops or waits has a timer.
        let is_quiet = event_loop.registry.machine.armed() <= 1;
        self.inbox.bring_back(event_loop, due, is_quiet);
    }

    /// Takes a turn of the loop and runs `act` in it; `None` if the turn has panicked.
    fn attend<T>(
        &self,
        taken: Taken<EventLoop>,
        act: impl FnOnce(&mut EventLoop) -> T,
    ) -> Option<T> {
        let taken_turn = catch_unwind(AssertUnwindSafe(|| {
            let Taken { mut event_loop, has_messages } = taken;
            event_loop.begin_turn();
            if has_messages {
                event_loop.take_messages();
            }
            let done = act(&mut event_loop);
            // If messages are left, the loop's task handles them before the timers.
            if event_loop.unread.messages.is_empty() {
                event_loop.fire_timers();
            }
            let due = event_loop.end_foreign_turn();
            self.bring_back(event_loop, due);
            done
        }));
        taken_turn.inspect_err(|_| tracing::error!(parent: None, "an engine's loop panicked")).ok()
    }
}

impl EventLoop {
    fn begin_turn(&mut self) {
        self.is_in_turn = true;
        self.pace.begin_slice();
        self.registry.machine.set_moment(self.pace.now);
    }

    /// Takes a turn of the loop's task, and returns whether more of the work under way is left.
    fn take_turn(&mut self) -> bool {
        // The last worker may have ended in a caller's turn.
        if self.ending.is_finished {
            return false;
        }
        self.begin_turn();
        self.shared.inbox.take(&mut self.unread);
        if self.pace.ahead_of_timers == 0 {
            self.pace.ahead_of_timers = self.unread.messages.len();
        }
        self.take_messages();
        // A worker that ended in time must not count as late because the loop is late, so the
        // messages that wait now come before the timers. Messages that arrive later do not, so an
        // endless stream of messages holds up no timer.
        if self.pace.ahead_of_timers == 0 {
            self.fire_timers();
        }
        // After the messages, so that the answer to a caller shows what was sent before.
        self.take_calls();
        self.end_turn()
    }

    /// Makes a change in the caller's turn. Returns its result, or what to wait for if there is
    /// more to do.
    fn change(&mut self, job: &mut Job) -> Result<ChangeResult, Applied> {
        if self.carry_out(Scope::Marks) || self.jobs.is_busy() {
            let applied = job.applied();
            self.jobs.queue.push_back(Box::new(mem::take(job)));
            return Err(applied);
        }
        if let Err(error) = self.begin(job) {
            return Ok(Err(error));
        }
        let Some(changed) = self.advance_job(job) else {
            let applied = job.applied();
            self.jobs.current = Some(Box::new(mem::take(job)));
            return Err(applied);
        };
        if changed.is_err() || job.ending.is_empty() {
            return Ok(changed);
        }
        let applied = job.applied();
        self.conclude(mem::take(job), changed);
        Err(applied)
    }

    /// Ends the work of a turn of a caller or a worker. Returns how urgent the work is that is left
    /// for the loop's task.
    fn end_foreign_turn(&mut self) -> Due {
        let has_more = self.end_turn();
        if has_more || self.ending.is_finished || !self.unread.is_empty() {
            Due::First
        } else if self.timers.next_sleep(&self.registry.machine, self.ending.killed_until).is_some()
        {
            Due::Beside
        } else {
            Due::Nothing
        }
    }

    /// Continues the work under way and hands over the events. Returns whether more work is left.
    fn end_turn(&mut self) -> bool {
        let has_more = self.work() | self.advance_walks() | self.timers.is_due(self.pace.now);
        self.hand_over_events();
        has_more && !self.ending.is_finished
    }

    fn take_messages(&mut self) {
        let mut taken = 0;
        // The machine spreads the effect of a message before the next one is handled.
        while taken < BATCH && !self.carry_out(Scope::Marks) {
            if self.unread.messages.is_empty() {
                self.shared.inbox.take(&mut self.unread);
            }
            let Some(message) = self.unread.messages.pop_front() else { break };
            self.receive(message);
            taken += 1;
        }
        self.handled += taken as u64;
        self.pace.ahead_of_timers = self.pace.ahead_of_timers.saturating_sub(taken);
    }

    fn take_calls(&mut self) {
        for _ in 0..BATCH {
            let Some(call) = self.unread.calls.pop_front() else { return };
            self.take_call(call);
        }
    }

    fn take_call(&mut self, call: Call) {
        match call {
            Call::Kill(origin) => self.kill(origin.as_ref()),
            Call::Disowned => self.note_disowned(),
            Call::Change(job) => self.jobs.queue.push_back(job),
            Call::Ask(question) => self.answer(*question),
        }
    }

    /// Returns until when the loop's task must sleep if it must reset its sleep.
    fn next_sleep(&mut self) -> Option<Instant> {
        let at = self.timers.next_sleep(&self.registry.machine, self.ending.killed_until)?;
        self.timers.sleep_until(at);
        // A stamp is one more than its nanoseconds, and tokio rounds a sleep up to milliseconds.
        Some(self.shared.environment.clock.began + Duration::from_nanos(at.saturating_sub(1)))
    }
}
