//! The life of a runner and of all its names, shared by its handles and its tasks.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crankcase_engine::owner::Linger;
use crankcase_engine::{Exit, Name, Policy, Stop};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Span;

use super::config::RunnerConfig;
use super::error::RunnerError;
use super::names::{Digester, Names};
use super::spec::ChildSpec;
use super::stay::{Ending, Stay};
use crate::child::{ChildSpan, caught, span_of};
use crate::seed::any_seed;

/// What a runner, its handles and its workers' tasks share.
pub(super) struct Shared {
    /// What the owner's log stands in.
    span: Span,
    policy: Arc<Policy>,
    /// What the jitter is drawn from. Its seed is set by the config, else by the owner, else by the
    /// first draw.
    random: OnceLock<Mutex<StdRng>>,
    digester: Digester,
    table: Mutex<Table>,
    /// Tells the runner, which alone waits, to look at the table.
    changed: Notify,
    /// Whether an input of the owner has ended by itself.
    is_input_lost: AtomicBool,
}

#[derive(Default)]
struct Table {
    names: Names,
    life: Life,
    /// The first fatal exit.
    fatal: Option<Exit>,
    /// Keep the runner's worker from counting as ended: the one that it was made for, and the one that
    /// it runs as, which are mostly one.
    lingers: Vec<Linger>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Life {
    #[default]
    Open,
    Stopping,
    Ended,
}

impl Table {
    /// Returns what keeps the worker from counting as ended, if nothing does any more; not to be
    /// dropped under the lock, since whoever waits for the end may run foreign code.
    fn let_go(&mut self) -> Vec<Linger> {
        let is_over = self.life == Life::Ended && self.names.is_empty();
        if is_over { std::mem::take(&mut self.lingers) } else { Vec::new() }
    }
}

impl Shared {
    pub(super) fn new(config: RunnerConfig) -> Self {
        Self {
            span: Span::current(),
            policy: Arc::new(config.policy),
            random: config.seed.map(random).map_or_else(OnceLock::new, OnceLock::from),
            digester: Digester::default(),
            table: Mutex::default(),
            changed: Notify::new(),
            is_input_lost: AtomicBool::new(false),
        }
    }

    /// Makes the runner a part of the worker that has this stop.
    pub(super) fn belong_to(&self, stop: &Stop) {
        self.table.lock().lingers.push(stop.linger());
        if let Some(seed) = stop.seed() {
            self.random.get_or_init(|| random(seed));
        }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) fn span_of(&self, name: &str) -> ChildSpan {
        span_of(&self.span, name)
    }

    pub(super) fn random(&self) -> &Mutex<StdRng> {
        self.random.get_or_init(|| random(any_seed()))
    }

    /// Puts a spec under a name. It begins at once, or when the present stay, which is to leave, has
    /// left. With `is_replaced` whatever is there is made to leave.
    pub(super) fn put(
        self: &Arc<Self>,
        action: &'static str,
        name: &str,
        spec: ChildSpec,
        is_replaced: bool,
    ) -> Result<Arc<Stay>, RunnerError> {
        let key = Name::<()>::parse(name)?;
        let policy = spec.policy(&self.policy);
        let policy =
            policy.map_err(|source| RunnerError::BadSpec { name: name.to_owned(), source })?;
        let stay = Arc::new(Stay::new(key, self.digester.digest(name), spec, policy));
        let mut table = self.table.lock();
        if table.life > Life::Open {
            return Err(RunnerError::Stopping { action, name: name.to_owned() });
        }
        let Some(slot) = table.names.claim(&stay) else {
            drop(table);
            stay.begin(self);
            return Ok(stay);
        };
        let is_free = slot.next.is_none() && slot.present.is_doomed();
        if !(is_replaced || is_free) {
            return Err(RunnerError::Exists { name: name.to_owned() });
        }
        if slot.present.is_own_task() {
            return Err(RunnerError::own_end(action, name));
        }
        let withdrawn = slot.next.replace(Arc::clone(&stay));
        let present = Arc::clone(&slot.present);
        drop(table);
        present.doom(Instant::now());
        if let Some(withdrawn) = withdrawn {
            withdrawn.withdraw();
        }
        Ok(stay)
    }

    /// Has what is under a name leave; returns the present stay.
    pub(super) fn take_out(&self, name: &str) -> Option<Arc<Stay>> {
        let mut table = self.table.lock();
        let slot = table.names.find_mut(self.digester.digest(name), name)?;
        let (present, withdrawn) = (Arc::clone(&slot.present), slot.next.take());
        drop(table);
        present.doom(Instant::now());
        if let Some(withdrawn) = withdrawn {
            withdrawn.withdraw();
        }
        Some(present)
    }

    /// Returns the stay that a name has or is about to have.
    pub(super) fn newest(&self, name: &str) -> Option<Arc<Stay>> {
        let table = self.table.lock();
        let slot = table.names.find(self.digester.digest(name), name)?;
        Some(Arc::clone(slot.next.as_ref().unwrap_or(&slot.present)))
    }

    /// Returns the stay that a name has.
    pub(super) fn present(&self, name: &str) -> Option<Arc<Stay>> {
        let table = self.table.lock();
        let slot = table.names.find(self.digester.digest(name), name)?;
        Some(Arc::clone(&slot.present))
    }

    /// Returns all present stays, by their names.
    pub(super) fn all(&self) -> Vec<Arc<Stay>> {
        let table = self.table.lock();
        let mut stays: Vec<_> = table.names.iter().map(|slot| Arc::clone(&slot.present)).collect();
        drop(table);
        stays.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        stays
    }

    /// A stay, which is the present one of its name, is over: its successor begins, or the name is
    /// free.
    pub(super) fn leave(self: &Arc<Self>, stay: &Arc<Stay>, ending: Ending) {
        let mut table = self.table.lock();
        let next = table.names.succeed(stay);
        let is_empty = table.names.is_empty();
        let lingers = table.let_go();
        drop(table);
        stay.end(ending);
        if let Some(next) = next {
            next.begin(self);
        }
        if is_empty {
            self.changed.notify_one();
        }
        drop(lingers);
    }

    /// Tells all workers, those that are yet to come as well.
    pub(super) fn lose_input(&self) {
        // First: a worker that is begun meanwhile looks at it.
        self.is_input_lost.store(true, Ordering::SeqCst);
        self.all().iter().for_each(|stay| stay.lose_input());
    }

    pub(super) fn is_input_lost(&self) -> bool {
        self.is_input_lost.load(Ordering::SeqCst)
    }

    /// A worker has had a fatal end, of which this is the text.
    pub(super) fn fail(&self, name: &str, text: &str, exit: Exit) {
        let mut table = self.table.lock();
        // What comes after the end is told by nobody any more.
        let is_first = table.fatal.is_none() && table.life < Life::Ended;
        let later = if is_first { table.fatal.replace(exit) } else { Some(exit) };
        drop(table);
        if is_first {
            tracing::warn!(worker = name, error = text, "a worker failed fatally");
        } else {
            tracing::info!(worker = name, error = text, "another worker failed fatally");
        }
        drop(caught(|| drop(later)));
        self.changed.notify_one();
    }

    /// Waits until a worker has had a fatal end.
    pub(super) async fn failed(&self) {
        while self.table.lock().fatal.is_none() {
            self.changed.notified().await;
        }
    }

    /// Takes nothing any more, and has all workers leave; returns how long that takes at most.
    pub(super) fn stop_all(&self) -> Duration {
        let mut table = self.table.lock();
        table.life = table.life.max(Life::Stopping);
        let (mut present, mut withdrawn) = (Vec::with_capacity(table.names.len()), Vec::new());
        for slot in table.names.oldest_first() {
            present.push(Arc::clone(&slot.present));
            withdrawn.extend(slot.next.take());
        }
        drop(table);
        let (now, mut patience) = (Instant::now(), Duration::ZERO);
        for stay in present {
            stay.doom(now);
            let policy = stay.policy();
            patience = patience.max(policy.grace.saturating_add(policy.abort_grace));
        }
        withdrawn.iter().for_each(|stay| stay.withdraw());
        patience
    }

    /// Waits until there is no worker.
    pub(super) async fn emptied(&self) {
        while !self.table.lock().names.is_empty() {
            self.changed.notified().await;
        }
    }

    pub(super) fn abort_all(&self) {
        self.all().iter().for_each(|stay| stay.abort());
    }

    /// Ends; returns the fatal exit, and the names of the workers that are left.
    pub(super) fn end(&self) -> (Option<Exit>, Vec<String>) {
        let mut table = self.table.lock();
        table.life = Life::Ended;
        let lingers = table.let_go();
        let left = table.names.iter().map(|slot| slot.present.name().to_owned()).collect();
        let fatal = table.fatal.take();
        drop(table);
        drop(lingers);
        (fatal, left)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.table.lock().life > Life::Open
    }
}

fn random(seed: u64) -> Mutex<StdRng> {
    Mutex::new(StdRng::seed_from_u64(seed))
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.lock();
        f.debug_struct("Runner")
            .field("life", &table.life)
            .field("workers", &table.names.len())
            .finish()
    }
}
