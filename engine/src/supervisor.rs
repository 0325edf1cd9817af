//! The loop that owns an engine. It turns messages into events of the machine, and commands of the
//! machine into tasks and timers.
//!
//! Invariants:
//! 1. The loop runs no user code except wakers, and those inside `wake`, which catches panics. A
//!    task clones the values that it gets. A value is dropped in a task of its own or by its
//!    publisher; the loop drops only plain values. The task that ends with an error classifies it
//!    and writes its text. Each reporter runs in a task of its own.
//! 2. Between two events the loop has carried out all commands of the machine, and the machine has
//!    marked every worker that is to stop. So a worker that ends because of the last event does not
//!    count as failed. The stops and starts themselves may follow later.
//! 3. The loop works in slices on changes, waves, kills, reports, graphs and due timers, and looks
//!    at the messages between two slices. Some work is not sliced; each of these is one walk: a
//!    preview, the search for what goes with a group, the quick cycle check of a group with one
//!    linked op, the check that a worker does not wait for its own end, the type check against all
//!    users of one name, and what one name shows its users. The end of a kill's deadline and the
//!    list of workers left behind are not sliced either.

pub(crate) mod applied;
pub(crate) mod call;
mod check;
mod circles;
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
mod sets;
mod shutdown;
mod slot;
pub(crate) mod snapshot;
mod state;
mod timers;
pub(crate) mod tree;
pub(crate) mod turns;
mod uninstall;
mod waiting;
mod waits;
mod walk;
mod walks;
pub(crate) mod watchdog;
mod why;
mod worker_summary;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, mem};

use tokio::sync::watch;

use crate::change::{Op, Ops};
use crate::machine::{NodeId, Scope, Step, Token};
use crate::manifolds::Manifold;
use crate::seen::event::{EventKind, Origin};
use crate::seen::log::EventRef;
use crate::vocabulary::discard::discard;
use crate::vocabulary::wake::wake;
use crate::worker::host::{Environment, Host, Identity};
use crate::worker::message::Message;
use crate::worker::stop::Stop;
use crate::worker::stop::cell::{LeftWorker, Linger};
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
use walk::Walk;

/// How many messages, and how many calls, one turn handles at most.
const BATCH: usize = 256;

/// Up to this many ops are dropped in the loop if they hold no manifold: then their drop runs no
/// user code.
const FEW_OPS: usize = 64;

/// The cause of an event.
#[derive(Debug, Clone, Copy)]
enum Because {
    /// A call, or nothing in this engine.
    Nothing,
    /// The last event of a node.
    LastOf(NodeId),
    /// The kill of the engine.
    Kill,
}

/// State that the handles of an engine share with its loop.
pub(crate) struct Shared {
    pub(crate) inbox: Inbox<EventLoop>,
    pub(crate) environment: Arc<Environment>,
    pub(crate) tree: Arc<Tree<Self>>,
    pub(crate) life: watch::Receiver<Life>,
    /// The worker of a nested engine in its outer engine. It is gone only after the workers of the
    /// nested engine.
    pub(crate) outer: Option<Stop>,
    /// The workers that were left behind at the engine's end, including those in nested engines.
    pub(crate) left_behind: OnceLock<Vec<LeftWorker>>,
    pub(crate) last_report: LastReport,
}

impl Shared {
    /// Returns the shared state of the engine that this worker runs in.
    pub(crate) fn of(identity: &Identity) -> Arc<Self> {
        let shared = Arc::clone(&identity.host).into_any().downcast();
        shared.unwrap_or_else(|_| unreachable!("no other type is a host"))
    }

    /// Returns the workers that were left behind; none before the engine's end.
    pub(crate) fn left_behind(&self) -> &[LeftWorker] {
        self.left_behind.get().map_or(&[], Vec::as_slice)
    }

    /// Returns the paths of the workers that were left behind; none before the engine's end.
    pub(crate) fn paths_left_behind(&self) -> Vec<String> {
        let mut paths: Vec<_> = self.left_behind().iter().map(|left| left.path.clone()).collect();
        // Of a worker that ran one nested engine after another, both may have had such a worker.
        paths.dedup();
        paths
    }
}

impl Host for Shared {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn send(&self, message: Message) {
        self.inbox.send(message);
    }

    fn tell(&self, message: Message) {
        self.take_or_send(message);
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
    /// Messages and calls that were taken out of the inbox and are not handled yet.
    unread: Unread,
    /// How many messages of the inbox were handled.
    handled: u64,
    registry: Registry,
    timers: Timers,
    jobs: Jobs,
    walks: VecDeque<Walk>,
    pace: Pace,
    ending: Ending,
    outbox: Outbox,
    /// Whether a turn is running. If the loop is dropped during a turn, that turn has panicked.
    is_in_turn: bool,
}

/// The values that a new loop needs.
pub(crate) struct Beginning {
    pub(crate) shared: Arc<Shared>,
    pub(crate) life: watch::Sender<Life>,
    pub(crate) kill_deadline: Option<Duration>,
    pub(crate) linger: Option<Linger>,
}

/// If the loop is dropped before the engine's end, because its runtime shuts down or a turn panics,
/// every live worker is aborted. A worker on a thread cannot be aborted, so it is told to stop. No
/// other worker runs on without supervision.
///
/// A panic may have caused the drop, so a second panic would abort the process. Therefore the
/// wakers of users run inside `wake`, which catches panics. Only the inbox wakes without it: its
/// waker is the one of the loop's own task.
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
            handled: 0,
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
                self.fire(node, token);
            }
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

    fn fire(&mut self, node: NodeId, token: Token) {
        self.registry.slots[node.index()].until = None;
        self.note_overdue(node);
        self.registry.machine.fired(node, token);
        if self.registry.machine.awaits_inputs(node) {
            self.note_because(node, (None, Because::LastOf(node)), || EventKind::AwaitsInputs);
        }
    }

    /// Continues the work under way for one slice, and returns whether there is more.
    ///
    /// Calls come first. The loop begins them and does what they wait for, whatever else there is
    /// to do. Each time the machine takes some steps too, however many calls there are.
    fn work(&mut self) -> bool {
        while !self.carry_out(Scope::Marks)
            && let Some(mut job) = self.jobs.current.take().or_else(|| self.begin_next_job())
        {
            let Some(changed) = self.advance_job(&mut job) else {
                self.jobs.current = Some(job);
                break;
            };
            self.conclude(*job, changed);
            // Each of many small groups may have taken a walk.
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

    /// Shows the followers of a name its current values.
    fn show(&mut self, node: NodeId) {
        let slot = &self.registry.slots[node.index()];
        let mut unseen: Vec<_> = slot.show().collect();
        unseen.extend(self.registry.show_in_sets(node, None));
        if !unseen.is_empty() {
            self.discard(unseen);
        }
    }

    /// Makes an event about a worker if anyone follows the events.
    fn note(
        &mut self,
        node: NodeId,
        origin: Option<&Arc<Origin>>,
        kind: impl FnOnce() -> EventKind,
    ) {
        self.note_because(node, (origin, Because::Nothing), kind);
    }

    /// Like [`note`](Self::note), with the event that caused it.
    #[inline]
    fn note_because(
        &mut self,
        node: NodeId,
        (origin, because): (Option<&Arc<Origin>>, Because),
        kind: impl FnOnce() -> EventKind,
    ) {
        if !self.outbox.is_followed() {
            // Its last event is not known any more.
            self.registry.slots[node].last_event = EventRef::default();
        } else if !self.registry.is_hidden(node) {
            let cause = match because {
                Because::Nothing => EventRef::default(),
                Because::LastOf(other) => self.registry.slots[other].last_event,
                Because::Kill => self.registry.killed,
            };
            let slot = &mut self.registry.slots[node];
            self.outbox.note(slot.name.as_ref(), (origin, cause), kind());
            slot.last_event = self.outbox.last_of(node);
        }
    }

    /// Hands the events to the log.
    fn hand_over_events(&mut self) {
        if let Some((first, about)) = self.outbox.flush(self.pace.now) {
            for node in about {
                self.registry.slots[node].number_events(first);
            }
            self.registry.killed = self.registry.killed.numbered(first);
        }
    }

    /// Takes the machine's steps within a scope until none is left or the slice is over, and
    /// returns whether there are more. Always carries out all commands.
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

    /// Drops a value on the workers' runtime.
    pub(super) fn discard<T: Send + 'static>(&self, value: T) {
        discard(&self.shared.environment.workers, value);
    }

    pub(super) fn discard_manifold(&self, manifold: Option<Manifold>) {
        if let Some(manifold) = manifold {
            self.discard(manifold);
        }
    }

    pub(super) fn discard_ops(&self, ops: Ops) {
        // Ops that were applied hold no manifold any more.
        if ops.len() > FEW_OPS || ops.iter().any(Op::has_manifold) {
            self.discard(ops);
        }
    }
}
