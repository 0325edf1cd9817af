//! The loop that owns an engine: it turns messages into the machine's events, and the machine's
//! commands into tasks and timers.
//!
//! Invariants:
//! 1. No user code runs here: values are cloned in the tasks that get them and dropped in tasks of
//!    their own or by who has published them (or here, if they are plain), errors are judged and written as
//!    text in the tasks that end with them, reporters run in tasks of their own.
//! 2. Between two events all of the machine's commands have been carried out, and all that is to
//!    stop is marked: a worker that ends because of what has just happened is not taken for failed.
//!    What is still to be stopped and started may be left for later.
//! 3. Changes, waves, kills, reports and graphs are worked on in slices, with a look at the messages
//!    in between. So are timers that are due. What is not sliced is a preview, what goes with a
//!    group, its check for cycles and for a worker that would wait for its own end, and what one hub
//!    shows its users: each is one walk. Nor is the end of a kill's deadline, nor the list of those
//!    who are left behind.

pub(crate) mod applied;
pub(crate) mod ask;
pub(crate) mod call;
mod check;
mod commands;
mod ending;
mod group;
pub(crate) mod inbox;
pub(crate) mod job;
mod jobs;
pub(crate) mod last_report;
pub(crate) mod life;
mod messages;
mod outbox;
mod pace;
mod plan;
mod preview;
mod questions;
mod registry;
pub(crate) mod reply;
mod report;
mod shutdown;
mod slot;
mod state;
mod timers;
pub(crate) mod tree;
pub(crate) mod turns;
mod uninstall;
mod waiting;
mod walk;
mod walks;
mod why;
mod worker_summary;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::vocabulary::discard::discard;
use ending::Ending;
use inbox::{Inbox, Unread};
use jobs::Jobs;
use last_report::LastReport;
use life::Life;
use outbox::Outbox;
use pace::{Pace, STEPS};
use registry::Registry;
use timers::Timers;
use tree::{Member, Tree};
use walks::Walk;

use crate::change::{Op, Ops};
use crate::machine::{NodeId, Scope, Step};
use crate::manifold::Manifold;
use crate::seen::event::{EventKind, Origin};
use crate::vocabulary::wake::wake;
use crate::worker::host::{Environment, Host, Identity};
use crate::worker::message::Message;
use crate::worker::stop::Stop;
use crate::worker::stop::cell::Linger;

/// How many messages, and how many calls, are looked at in one turn.
const BATCH: usize = 256;

/// How many ops are dropped in the loop if no manifold is left in them: nothing in them is foreign
/// then.
const FEW_OPS: usize = 64;

/// What an engine's handles and its loop share.
pub(crate) struct Shared {
    pub(crate) inbox: Inbox<EventLoop>,
    pub(crate) environment: Arc<Environment>,
    pub(crate) tree: Arc<Tree<Self>>,
    pub(crate) life: watch::Receiver<Life>,
    /// The worker that a nested engine is in the outer one: it is not gone before the workers are
    /// that run in it.
    pub(crate) outer: Option<Stop>,
    /// The workers that were left behind at its end, those of nested engines too, by path.
    pub(crate) left_behind: OnceLock<Vec<String>>,
    pub(crate) last_report: LastReport,
}

impl Shared {
    /// Returns what the engine of a worker shares with its handles.
    pub(crate) fn of(identity: &Identity) -> Arc<Self> {
        let shared = Arc::clone(&identity.host).into_any().downcast();
        shared.unwrap_or_else(|_| unreachable!("no other type is a host"))
    }

    /// Returns the workers that were left behind; none before the engine's end.
    pub(crate) fn left_behind(&self) -> &[String] {
        self.left_behind.get().map_or(&[], Vec::as_slice)
    }
}

impl Host for Shared {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn send(&self, message: Message) {
        self.inbox.send(message);
    }

    fn linger_outside(&self) -> Option<Box<dyn Send>> {
        Some(Box::new(self.outer.as_ref()?.linger()))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Member for Shared {
    fn path(&self) -> &Arc<str> {
        &self.environment.path
    }

    fn is_listed(&self) -> bool {
        self.outer.is_none() || !self.inbox.is_closed()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tree.leave(&self.environment.path);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.environment.own_path()).finish_non_exhaustive()
    }
}

/// The loop of an engine.
pub(crate) struct EventLoop {
    shared: Arc<Shared>,
    /// What was taken out of the inbox and not looked at yet.
    unread: Unread,
    registry: Registry,
    timers: Timers,
    jobs: Jobs,
    walks: VecDeque<Walk>,
    pace: Pace,
    ending: Ending,
    outbox: Outbox,
    /// Whether someone takes a turn: a loop that is lost meanwhile has panicked.
    is_in_turn: bool,
}

/// What a loop begins with.
pub(crate) struct Beginning {
    pub(crate) shared: Arc<Shared>,
    pub(crate) life: watch::Sender<Life>,
    pub(crate) kill_deadline: Option<Duration>,
    pub(crate) linger: Option<Linger>,
}

/// A loop that does not come to its end, because its runtime goes or it panics, leaves no worker
/// behind that nobody supervises.
///
/// It may be dropped because of a panic, so that another one would end the process: all that wakes
/// others is run by `wake`.
impl Drop for EventLoop {
    fn drop(&mut self) {
        let unread = self.shared.inbox.close();
        self.unread.messages.extend(unread.messages);
        self.unread.calls.extend(unread.calls);
        for worker in self.registry.slots.iter_mut().filter_map(|slot| slot.worker.as_ref()) {
            wake(|| worker.abort(false));
        }
        self.say_if_lost();
        self.jobs.queue.extend(self.jobs.current.take());
        self.refuse_calls();
        let (slots, unread) = (mem::take(&mut self.registry.slots), mem::take(&mut self.unread));
        let fatal = self.ending.fatal.take();
        self.discard((slots, unread, fatal));
    }
}

impl EventLoop {
    pub(crate) fn new(beginning: Beginning) -> Self {
        let Beginning { shared, life, kill_deadline, linger } = beginning;
        let environment = &shared.environment;
        Self {
            registry: Registry::new(Arc::clone(environment)),
            timers: Timers::default(),
            jobs: Jobs::default(),
            walks: VecDeque::new(),
            pace: Pace::new(environment.clock.began),
            ending: Ending::new(life, kill_deadline, linger),
            outbox: Outbox::new(Arc::clone(environment)),
            is_in_turn: false,
            unread: Unread::default(),
            shared,
        }
    }

    /// Fires the timers that are due, until the slice is over.
    fn fire_timers(&mut self) {
        if !self.timers.is_due(self.pace.now) && self.ending.killed_until.is_none() {
            return;
        }
        let mut fired = 0;
        while !self.carry_out(Scope::Marks)
            && let Some((node, token)) = self.timers.pop_due(self.pace.now)
        {
            if self.registry.machine.is_armed(node, token) {
                self.registry.slots[node.index()].until = None;
                self.note_overdue(node);
            }
            self.registry.machine.fired(node, token);
            fired += 1;
            if fired % STEPS == 0 && self.pace.is_slice_over() {
                break;
            }
        }
        if self.ending.killed_until.is_some_and(|until| until <= self.pace.now) {
            self.ending.killed_until = None;
            self.abandon();
        }
    }

    /// Goes on with what is under way for one slice; returns whether there is more.
    ///
    /// Calls come first: they are begun, and what they wait for is done, whatever else there is to
    /// do. And each time the machine takes some steps, however many calls there are.
    fn work(&mut self) -> bool {
        while !self.carry_out(Scope::Marks)
            && let Some(mut job) = self.jobs.current.take().or_else(|| self.begin_next_job())
        {
            let Some(changed) = self.advance_job(&mut job) else {
                self.jobs.current = Some(job);
                break;
            };
            self.conclude(*job, changed);
            // Also of many small ones each may have taken a walk.
            if self.pace.is_slice_over() {
                break;
            }
        }
        let has_more = self.carry_out(Scope::All) || self.jobs.is_busy();
        if !has_more {
            self.answer_at_rest();
        }
        has_more
    }

    /// Shows the followers of a name what it offers now.
    fn show(&mut self, node: NodeId) {
        let slot = &self.registry.slots[node.index()];
        let unseen: Vec<_> = slot.show().collect();
        if !unseen.is_empty() {
            self.discard(unseen);
        }
    }

    /// Makes an event about a worker, if anyone follows them.
    fn note(
        &mut self,
        node: NodeId,
        origin: Option<&Arc<Origin>>,
        kind: impl FnOnce() -> EventKind,
    ) {
        let name = self.registry.slots[node.index()].name.as_ref();
        self.outbox.note(name, origin, kind);
    }

    /// Takes the machine's steps within a scope until there is none or the slice is over; returns
    /// whether there are more. Commands are never left for later.
    pub(super) fn carry_out(&mut self, scope: Scope) -> bool {
        let mut steps = 0;
        loop {
            match self.registry.machine.step(scope) {
                Step::Idle => return false,
                Step::Worked => {}
                Step::Command(command) => self.execute(command),
            }
            steps += 1;
            let is_enough = self.pace.has_enough_nested();
            if (steps >= STEPS || is_enough) && !self.registry.machine.has_commands() {
                steps = 0;
                if is_enough || self.pace.is_slice_over() {
                    return true;
                }
            }
        }
    }

    /// Drops something where the workers run.
    pub(super) fn discard<T: Send + 'static>(&self, value: T) {
        discard(&self.shared.environment.workers, value);
    }

    pub(super) fn discard_manifold(&self, manifold: Option<Manifold>) {
        if let Some(manifold) = manifold {
            self.discard(manifold);
        }
    }

    pub(super) fn discard_ops(&self, ops: Ops) {
        // What is installed now is left in none of them.
        if ops.len() > FEW_OPS || ops.iter().any(Op::has_manifold) {
            self.discard(ops);
        }
    }
}
