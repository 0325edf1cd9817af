//! The turns of the loop: who takes them, and what is done in each.
//!
//! The loop's task takes them while there is something to do. While there is not, whoever calls on a
//! thread of the loop's runtime takes one there: an answer would otherwise take two changes of tasks,
//! or of threads.
//!
//! Invariants:
//! 1. A loop that lies in its inbox with nothing `First` for its task has no job, no queue, and has
//!    read all that was handed over to it.
//! 2. Who takes a turn besides the task reads messages, but no calls of others: what is asked by way
//!    of the queue is begun by the task.
//! 3. Wherever a turn leaves a timer that ends before the task's sleep does, the task is woken.
//! 4. A panic in a turn ends the loop, and nothing else.

use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::coop::cooperative;
use tokio::time::{Instant, sleep_until};

use super::applied::Applied;
use super::applied::ChangeResult;
use super::call::Call;
use super::job::Caller;
use super::job::Job;
use super::pace::Started;
use super::{BATCH, EventLoop};
use crate::change::{ChangeError, Ops};
use crate::machine::Scope;
use crate::supervisor::Shared;
use crate::supervisor::inbox::{Due, Taken};

/// The task of an engine's loop. When it goes, also with its runtime, the loop goes with it.
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
        shared.inbox.bring_back(Box::new(event_loop), Due::Nothing);
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
            // What comes without an end does not keep the other tasks of this thread waiting.
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
            let waiting = has_more.then(|| Started::of(&event_loop.pace, &event_loop.unread));
            // Who calls before the next turn finds that its own comes later.
            let is_done = waiting.is_none() && event_loop.unread.is_empty();
            event_loop.is_in_turn = false;
            inbox.bring_back(event_loop, if is_done { Due::Nothing } else { Due::First });
            if let Some(waiting) = waiting {
                inbox.let_others_run(waiting).await;
            }
        }
    }
}

impl Shared {
    /// Asks the loop for something. If it is idle, and its runtime is here, what was asked for is done,
    /// or well begun, when this returns.
    pub(crate) fn call(&self, call: Call) {
        match self.take_idle() {
            Some(taken) => {
                self.attend(taken, |event_loop| event_loop.take_call(call));
            }
            None => self.inbox.call(call),
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

    /// Whether this thread is one of the loop's runtime: so it has the loop's clock, and an engine
    /// whose workers are on another runtime does not depend on their threads.
    fn is_here(&self) -> bool {
        Handle::try_current().is_ok_and(|current| current.id() == self.environment.driver.id())
    }

    /// Takes a turn of the loop and does something in it; none if it has panicked.
    fn attend<T>(
        &self,
        taken: Taken<EventLoop>,
        act: impl FnOnce(&mut EventLoop) -> T,
    ) -> Option<T> {
        let taken_turn = catch_unwind(AssertUnwindSafe(|| {
            let Taken { mut event_loop, has_messages } = taken;
            event_loop.pace.begin_slice();
            if has_messages {
                event_loop.take_messages();
            }
            let done = act(&mut event_loop);
            // Else the loop's task reads the others first.
            if event_loop.unread.messages.is_empty() {
                event_loop.fire_timers();
            }
            let due = event_loop.end_callers_turn();
            self.inbox.bring_back(event_loop, due);
            done
        }));
        taken_turn.inspect_err(|_| tracing::error!(parent: None, "an engine's loop panicked")).ok()
    }
}

impl EventLoop {
    /// Takes a turn of the loop's task; returns whether there is more of what is under way.
    fn take_turn(&mut self) -> bool {
        // The last worker may have ended in a caller's turn.
        if self.ending.is_finished {
            return false;
        }
        self.pace.begin_slice();
        self.shared.inbox.take(&mut self.unread);
        if self.pace.ahead_of_timers == 0 {
            self.pace.ahead_of_timers = self.unread.messages.len();
        }
        self.take_messages();
        // Who has ended in time is not too late because the loop is. What comes from now on is not
        // waited for, so that messages without an end hold up no timer.
        if self.pace.ahead_of_timers == 0 {
            self.fire_timers();
        }
        // After the messages, so that who asks finds what was told before.
        self.take_calls();
        self.end_turn()
    }

    /// Makes a change in the turn of who asks for it; returns what has come of it, or what to wait for
    /// if there is more to do.
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

    /// Ends a caller's turn; returns what is left for the loop's task.
    fn end_callers_turn(&mut self) -> Due {
        let has_more = self.end_turn();
        self.is_in_turn = false;
        if has_more || self.ending.is_finished || !self.unread.is_empty() {
            Due::First
        } else if self.timers.next_sleep(&self.registry.machine, self.ending.killed_until).is_some()
        {
            Due::Beside
        } else {
            Due::Nothing
        }
    }

    /// Goes on with what is under way, and hands over what was made; returns whether there is more.
    fn end_turn(&mut self) -> bool {
        let has_more = self.work() | self.advance_walks() | self.timers.is_due(self.pace.now);
        self.outbox.flush(self.pace.now);
        has_more && !self.ending.is_finished
    }

    fn take_messages(&mut self) {
        let mut taken = 0;
        // What the last one has led to comes before the next.
        while taken < BATCH && !self.carry_out(Scope::Marks) {
            if self.unread.messages.is_empty() {
                self.shared.inbox.take(&mut self.unread);
            }
            let Some(message) = self.unread.messages.pop_front() else { break };
            self.receive(message);
            taken += 1;
        }
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
            Call::Change(job) => self.jobs.queue.push_back(job),
            Call::Ask(question) => self.answer(*question),
        }
    }

    /// Returns until when the loop's task is to sleep, if it is to set its sleep anew.
    fn next_sleep(&mut self) -> Option<Instant> {
        let at = self.timers.next_sleep(&self.registry.machine, self.ending.killed_until)?;
        self.timers.sleep_until(at);
        // A stamp is one more than the nanoseconds it stands for, and a sleep's are rounded up to
        // milliseconds.
        Some(self.shared.environment.clock.began + Duration::from_nanos(at.saturating_sub(1)))
    }
}
