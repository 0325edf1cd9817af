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
mod brief;
pub(crate) mod call;
mod check;
mod commands;
mod complete;
mod discard;
mod ending;
mod group;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod last_report;
pub(crate) mod life;
mod names;
mod plan;
mod questions;
pub(crate) mod reply;
pub(crate) mod shared;
mod slice;
mod slot;
mod timers;
mod told;
pub(crate) mod tree;
pub(crate) mod turns;
mod waiting;
mod walk;
mod walks;

use std::any::TypeId;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use complete::Orphaned;
use names::Names;
use slice::STEPS;
use slot::Slot;
use timers::Timers;
use waiting::Waiting;

use crate::machine::{Generation, Machine, NodeId, Port, Scope};
use crate::seen::event::{EventKind, Origin};
use crate::seen::log::Record;
use crate::supervisor::inbox::Unread;
use crate::supervisor::shared::Shared;
use crate::vocabulary::chunks::Chunks;
use crate::vocabulary::clock::{Stamp, Wall};
use crate::vocabulary::hash::Map;
use crate::vocabulary::wake::wake;
use crate::worker::stop::cell::Linger;
use job::Job;
use life::Fatal;
use life::Life;
use walks::Walk;

/// How many messages, and how many calls, are looked at in one turn.
const BATCH: usize = 256;

pub(crate) struct EventLoop {
    shared: Arc<Shared>,
    /// What was taken out of the inbox and not looked at yet.
    unread: Unread,
    life: watch::Sender<Life>,
    machine: Machine,
    names: Names,
    slots: Chunks<Slot>,
    ports: Map<TypeId, Port>,
    timers: Timers,
    /// Events that were made in this slice.
    events: Vec<Record>,
    job: Option<Box<Job>>,
    queue: VecDeque<Box<Job>>,
    orphaned: Vec<Orphaned>,
    waiting: Waiting,
    walks: VecDeque<Walk>,
    fatal: Option<Fatal>,
    /// Whether any manifold was ever installed as a part of a nested engine.
    has_parts: bool,
    began: Instant,
    now: Stamp,
    slice_ends: Instant,
    /// How many nested engines were started in this slice.
    nested_started: usize,
    /// How many messages are still to be read before the next timer.
    ahead_of_timers: usize,
    is_finished: bool,
    /// Whether someone takes a turn: a loop that is lost meanwhile has panicked.
    is_in_turn: bool,
    /// A worker's task was dropped by its runtime.
    is_runtime_gone: bool,
    /// Whether any worker was ever stuck.
    has_stuck: bool,
    kill_deadline: Option<Duration>,
    /// When what has not stopped by then is left behind.
    killed_until: Option<Stamp>,
    /// Keeps an outer engine from taking this one for ended.
    linger: Option<Linger>,
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
        let late = self.shared.inbox.close();
        self.unread.messages.extend(late.messages);
        self.unread.calls.extend(late.calls);
        for worker in self.slots.iter_mut().filter_map(|slot| slot.worker.as_ref()) {
            wake(|| worker.abort(false));
        }
        self.say_if_lost();
        self.queue.extend(self.job.take());
        self.refuse_calls();
        let (slots, unread) = (mem::take(&mut self.slots), mem::take(&mut self.unread));
        let fatal = self.fatal.take();
        self.discard((slots, unread, fatal));
    }
}

impl EventLoop {
    pub(crate) fn new(beginning: Beginning) -> Self {
        let Beginning { shared, life, kill_deadline, linger } = beginning;
        let began = shared.environment.clock.began;
        Self {
            machine: Machine::new(Arc::clone(&shared.environment.policy), shared.environment.seed),
            names: Names::default(),
            slots: Chunks::default(),
            ports: Map::default(),
            timers: Timers::default(),
            job: None,
            queue: VecDeque::new(),
            orphaned: Vec::new(),
            waiting: Waiting::default(),
            walks: VecDeque::new(),
            fatal: None,
            has_parts: false,
            began,
            now: 1,
            slice_ends: began,
            nested_started: 0,
            ahead_of_timers: 0,
            is_finished: false,
            is_in_turn: false,
            is_runtime_gone: false,
            has_stuck: false,
            kill_deadline,
            killed_until: None,
            linger,
            events: Vec::new(),
            unread: Unread::default(),
            shared,
            life,
        }
    }

    /// Fires the timers that are due, until the slice is over.
    fn fire_timers(&mut self) {
        if !self.timers.is_due(self.now) && self.killed_until.is_none() {
            return;
        }
        let mut fired = 0;
        while !self.carry_out(Scope::Marks)
            && let Some((node, token)) = self.timers.pop_due(self.now)
        {
            if self.machine.is_armed(node, token) {
                self.slots[node.index()].until = None;
                self.note_overdue(node);
            }
            self.machine.fired(node, token);
            fired += 1;
            if fired % STEPS == 0 && self.is_slice_over() {
                break;
            }
        }
        if self.killed_until.is_some_and(|until| until <= self.now) {
            self.killed_until = None;
            self.abandon();
        }
    }

    /// Goes on with what is under way for one slice; returns whether there is more.
    ///
    /// Calls come first: they are begun, and what they wait for is done, whatever else there is to
    /// do. And each time the machine takes some steps, however many calls there are.
    fn work(&mut self) -> bool {
        while !self.carry_out(Scope::Marks)
            && let Some(mut job) = self.job.take().or_else(|| self.begin_next_job())
        {
            let Some(changed) = self.advance_job(&mut job) else {
                self.job = Some(job);
                break;
            };
            self.conclude(*job, changed);
            // Also of many small ones each may have taken a walk.
            if self.is_slice_over() {
                break;
            }
        }
        let has_more = self.carry_out(Scope::All) || self.has_calls();
        if !has_more {
            self.answer_at_rest();
        }
        has_more
    }

    /// Whether there are calls that were not begun, or are not done.
    fn has_calls(&self) -> bool {
        self.job.is_some() || !self.queue.is_empty() || !self.orphaned.is_empty()
    }

    /// Shows the followers of a name what it offers now.
    fn show(&mut self, node: NodeId) {
        let slot = &self.slots[node.index()];
        let unseen: Vec<_> = slot.show().collect();
        if !unseen.is_empty() {
            self.discard(unseen);
        }
    }

    /// Returns the live worker of a generation, if it is still the present one.
    fn worker(&mut self, node: NodeId, generation: Generation) -> Option<&mut slot::WorkerSlot> {
        let worker = self.slots[node.index()].worker.as_mut();
        worker.filter(|worker| worker.generation == generation)
    }

    fn port(&mut self, kind: TypeId) -> Port {
        let next = u32::try_from(self.ports.len()).expect("a program has fewer types than that");
        *self.ports.entry(kind).or_insert(Port(next))
    }

    fn path(&self, node: NodeId) -> String {
        self.shared.environment.path_of(self.slots[node.index()].name().as_str())
    }

    fn wall(&self, stamp: Stamp) -> Wall {
        self.shared.environment.clock.wall.at(stamp)
    }

    /// Makes an event about a worker, if anyone follows them.
    fn note(
        &mut self,
        node: NodeId,
        origin: Option<&Arc<Origin>>,
        kind: impl FnOnce() -> EventKind,
    ) {
        if !self.shared.environment.log.is_followed() {
            return;
        }
        let name = self.slots[node.index()].name.as_ref();
        Record::push(&mut self.events, kind(), origin, name);
    }

    /// Makes an event about the engine itself.
    fn note_engine(&mut self, origin: Option<&Arc<Origin>>, kind: EventKind) {
        Record::push(&mut self.events, kind, origin, None);
    }

    /// Hands over the events that were made in this slice.
    fn flush(&mut self) {
        self.shared.environment.log.push(
            self.wall(self.now),
            &self.shared.environment.path,
            &mut self.events,
        );
    }
}
