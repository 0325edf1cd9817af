//! The children of a catacomb, and how their end and its own are agreed on.

use std::collections::HashMap;
use std::fmt;

use crankcase_engine::owner::{self, Linger};
use crankcase_engine::{Exit, Stop, Stopper};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::Span;

use super::report::{CatacombChild, CatacombReport};
use crate::child::{ChildSpan, End, caught, span_of};

/// What a catacomb, its handles and its children's tasks share.
pub(super) struct Shared {
    /// What the owner's log stands in.
    span: Span,
    table: Mutex<Table>,
    /// Tells the catacomb, which alone waits, to look at the table.
    changed: Notify,
}

#[derive(Default)]
struct Table {
    children: HashMap<u64, Child>,
    next: u64,
    life: Life,
    /// Whether an input of the owner has ended by itself.
    is_input_lost: bool,
    /// The first error of a child.
    error: Option<Exit>,
    /// Keep the catacomb's worker from counting as ended: the one that it was made for, and the one
    /// that it runs as, which are mostly one.
    lingers: Vec<Linger>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Life {
    #[default]
    Open,
    /// It is to stop.
    Killed,
    /// All children were told.
    Told,
    /// All children are being dropped; it takes no other.
    Aborted,
    /// It is over.
    Ended,
}

struct Child {
    name: Box<str>,
    stopper: Stopper,
    /// Not there before it is spawned.
    task: Option<AbortHandle>,
    since: Instant,
}

impl Table {
    /// Returns what keeps the worker from counting as ended, if nothing does any more; not to be
    /// dropped under the lock, since whoever waits for the end may run foreign code.
    fn let_go(&mut self) -> Vec<Linger> {
        let is_over = self.life == Life::Ended && self.children.is_empty();
        if is_over { std::mem::take(&mut self.lingers) } else { Vec::new() }
    }

    /// Returns the children as they came. They lie in memory like that: in the table's order, each
    /// would miss the cache several times.
    fn oldest_first(&self) -> Vec<(u64, &Child)> {
        let mut children: Vec<_> = self.children.iter().map(|(id, child)| (*id, child)).collect();
        children.sort_unstable_by_key(|(id, _)| *id);
        children
    }

    /// Returns what tells the children something, the oldest first; not to be used under the lock, since
    /// whoever is woken may run foreign code.
    fn stoppers(&self) -> Vec<Stopper> {
        let children = self.oldest_first().into_iter();
        children.map(|(_, child)| child.stopper.clone()).collect()
    }
}

impl Shared {
    pub(super) fn new() -> Self {
        Self { span: Span::current(), table: Mutex::default(), changed: Notify::new() }
    }

    pub(super) fn span_of(&self, name: &str) -> ChildSpan {
        span_of(&self.span, name)
    }

    pub(super) fn linger(&self, linger: Linger) {
        self.table.lock().lingers.push(linger);
    }

    /// Makes room for a child; none if the catacomb takes no more.
    pub(super) fn admit(&self, name: &str) -> Option<(u64, Stop)> {
        let (stopper, stop) = Stop::pair();
        let mut table = self.table.lock();
        match table.life {
            Life::Open | Life::Killed => {}
            Life::Told => stopper.stop(),
            // Those that come without end must not keep it from its own.
            Life::Aborted | Life::Ended => return None,
        }
        if table.is_input_lost {
            owner::lose_input(&stopper);
        }
        let id = table.next;
        table.next += 1;
        let child = Child { name: name.into(), stopper, task: None, since: Instant::now() };
        table.children.insert(id, child);
        Some((id, stop))
    }

    /// Notes a child's task, which may have ended.
    pub(super) fn set_task(&self, id: u64, task: AbortHandle) {
        let is_aborted = {
            let mut table = self.table.lock();
            let is_aborted = table.life >= Life::Aborted;
            if let Some(child) = table.children.get_mut(&id) {
                child.task = Some(task.clone());
            }
            is_aborted
        };
        if is_aborted {
            task.abort();
        }
    }

    /// A child is gone.
    pub(super) fn on_ended(&self, id: u64, end: End) {
        // Foreign code, so neither under the lock nor where its panic would lose the end.
        let text = match &end {
            End::Outcome(Err(exit)) => caught(|| exit.to_string()).unwrap_or_default(),
            _ => String::new(),
        };
        let mut table = self.table.lock();
        let Some(child) = table.children.remove(&id) else { return };
        let exit = match end {
            End::Outcome(outcome) => outcome.err(),
            End::Dropped => (table.life < Life::Aborted).then(|| lost(&child.name)),
        };
        let is_last = table.children.is_empty();
        let lingers = table.let_go();
        let mut later = exit;
        let has_failed = later.is_some();
        let is_first = has_failed && table.error.is_none() && table.life < Life::Ended;
        if is_first {
            table.error = later.take();
            table.life = table.life.max(Life::Killed);
        }
        let shrink = table.children.capacity() > 64 + 4 * table.children.len();
        if shrink {
            table.children.shrink_to_fit();
        }
        drop(table);
        if is_first || is_last {
            self.changed.notify_one();
        }
        if is_first {
            tracing::warn!(child = %child.name, error = text, "a child failed");
        } else if has_failed {
            tracing::info!(child = %child.name, error = text, "another child failed");
        } else {
            tracing::debug!(child = %child.name, "a child ended");
        }
        drop(caught(|| drop(later)));
        drop(lingers);
    }

    pub(super) fn kill(&self) {
        let mut table = self.table.lock();
        table.life = table.life.max(Life::Killed);
        drop(table);
        self.changed.notify_one();
    }

    pub(super) fn lose_input(&self) {
        let mut table = self.table.lock();
        table.is_input_lost = true;
        let stoppers = table.stoppers();
        drop(table);
        stoppers.iter().for_each(owner::lose_input);
    }

    /// Waits until it is to stop.
    pub(super) async fn killed(&self) {
        while self.table.lock().life == Life::Open {
            self.changed.notified().await;
        }
    }

    /// Waits until there is no child; no other can come then.
    pub(super) async fn emptied(&self) {
        loop {
            {
                let mut table = self.table.lock();
                if table.children.is_empty() {
                    table.life = Life::Ended;
                    return;
                }
            }
            self.changed.notified().await;
        }
    }

    pub(super) fn tell_all(&self) {
        let mut table = self.table.lock();
        table.life = table.life.max(Life::Told);
        let stoppers = table.stoppers();
        drop(table);
        stoppers.iter().for_each(Stopper::stop);
    }

    pub(super) fn abort_all(&self) {
        let mut table = self.table.lock();
        table.life = table.life.max(Life::Aborted);
        let tasks: Vec<_> =
            table.oldest_first().into_iter().filter_map(|(_, child)| child.task.clone()).collect();
        drop(table);
        // Not under the lock: what is aborted may be dropped at once.
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Takes no child any more; returns the first error, and the names of the children that are
    /// left.
    pub(super) fn end(&self) -> (Option<Exit>, Vec<String>) {
        let mut table = self.table.lock();
        table.life = Life::Ended;
        let lingers = table.let_go();
        let left = table.children.values().map(|child| child.name.to_string()).collect();
        let error = table.error.take();
        drop(table);
        drop(lingers);
        (error, left)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.table.lock().life > Life::Open
    }

    pub(super) fn count(&self) -> usize {
        self.table.lock().children.len()
    }

    pub(super) fn report(&self) -> CatacombReport {
        let now = Instant::now();
        let table = self.table.lock();
        let children = table.oldest_first();
        let children = children.into_iter().map(|(_, child)| CatacombChild {
            name: child.name.to_string(),
            age: now.duration_since(child.since).as_secs_f64(),
        });
        CatacombReport { is_stopping: table.life > Life::Open, children: children.collect() }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.lock();
        f.debug_struct("Catacomb")
            .field("life", &table.life)
            .field("children", &table.children.len())
            .finish()
    }
}

/// The exit of a child whose task was dropped though nobody had asked for it.
fn lost(name: &str) -> Exit {
    Exit::failed(format!("the runtime of child {name:?} is gone"))
}
