//! The watchdog: says when an engine's loop does not get its turn, and which worker is in its way.
//!
//! A worker that blocks its thread can keep the loop's task from running, if they share a runtime.
//! Then nothing on that runtime can say so. Therefore the watchdog is a thread of the operating
//! system. One thread watches all engines of the process. It ends with the last one.
//!
//! Invariants:
//! 1. The watchdog holds its own lock only to read and change its list. It takes no loop, and only
//!    looks at those that are idle.
//! 2. An engine on a paused clock is not watched.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread;

use parking_lot::Mutex;
use tokio::runtime::Id;

use super::{EventLoop, Shared};
use crate::vocabulary::clock::{Stamp, is_paused, stamp};
use crate::vocabulary::ticks::{self, TICK};
use crate::worker::stop::Stopper;

/// A loop is late if this many looks in a row have found the same turn as its last one, and work.
/// It has waited for at least 0.75 s then, and for 1 s at most.
const LATE: u32 = 4;
/// A worker is in the way of a late loop if its task has been polled for this many ticks or more.
const IN_THE_WAY: u32 = 2;

static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog { engines: Vec::new(), has_thread: false });

struct Watchdog {
    engines: Vec<Watched>,
    has_thread: bool,
}

/// An engine, and how long its loop has waited for a turn.
struct Watched {
    engine: Weak<Shared>,
    /// When the loop's last turn began.
    last_turn: Stamp,
    /// How many looks in a row have found work and this turn.
    looks: u32,
}

/// Watches an engine until its end, unless its clock is paused.
pub(crate) fn watch(engine: &Arc<Shared>) {
    if is_paused() {
        return;
    }
    let mut watchdog = WATCHDOG.lock();
    watchdog.engines.push(Watched { engine: Arc::downgrade(engine), last_turn: 0, looks: 0 });
    if !mem::replace(&mut watchdog.has_thread, true) {
        let spawned = thread::Builder::new().name("watchdog".to_owned()).spawn(run);
        if let Err(error) = spawned {
            watchdog.has_thread = false;
            drop(watchdog);
            tracing::warn!(parent: None, %error, "cannot make a thread for the watchdog");
        }
    }
}

fn run() {
    loop {
        #[expect(clippy::disallowed_methods, reason = "the thread has no runtime")]
        thread::sleep(TICK);
        ticks::tick();
        let mut engines = mem::take(&mut WATCHDOG.lock().engines);
        // The watchdog may drop an engine's last `Arc`, and with it values of users.
        if catch_unwind(AssertUnwindSafe(|| look_at(&mut engines))).is_err() {
            tracing::warn!(parent: None, "the watchdog panicked");
        }
        let mut watchdog = WATCHDOG.lock();
        watchdog.engines.append(&mut engines);
        watchdog.has_thread = !watchdog.engines.is_empty();
        if !watchdog.has_thread {
            return;
        }
    }
}

/// Looks at all engines once, and forgets those that have ended.
fn look_at(engines: &mut Vec<Watched>) {
    let mut late = Vec::new();
    engines.retain_mut(|watched| {
        let engine = watched.engine.upgrade().filter(|engine| !engine.inbox.is_closed());
        let Some(engine) = engine else { return false };
        if watched.is_late(&engine) {
            late.push(engine);
        }
        true
    });
    for engine in late {
        let others = engines.iter().filter_map(|watched| watched.engine.upgrade());
        say_late(&engine, others);
    }
}

/// Says that a loop does not get its turn, and names the workers that block the threads of its
/// runtime, also those of other engines. Names a worker once for each time that it blocks.
fn say_late(late: &Shared, engines: impl Iterator<Item = Arc<Shared>>) {
    let (runtime, engine) = (late.environment.driver.id(), late.environment.own_path());
    let mut is_explained = false;
    for other in engines {
        let in_the_way = other.inbox.look(|event_loop, _| event_loop.in_the_way_on(runtime));
        for (path, stopper) in in_the_way.unwrap_or_default() {
            is_explained = true;
            if stopper.is_named_first() {
                tracing::warn!(parent: None, engine, worker = %path, "a worker blocks its thread, and the engine's loop waits for its turn");
            }
        }
    }
    if !is_explained {
        tracing::warn!(parent: None, engine, "the engine's loop waits for its turn, and no worker is seen to block its thread");
    }
}

impl Watched {
    /// Looks at an engine. Returns `true` once for each time that its loop is late.
    fn is_late(&mut self, engine: &Shared) -> bool {
        let _runtime = engine.environment.driver.enter();
        let now = stamp(engine.environment.clock.began.elapsed());
        let looked = engine.inbox.look(|event_loop, has_work| {
            (event_loop.pace.now, has_work || event_loop.timers.is_sleep_over(now))
        });
        // A loop that is not there is in a turn.
        let (last_turn, has_work) = looked.filter(|_| !is_paused()).unwrap_or_default();
        let is_same = last_turn == mem::replace(&mut self.last_turn, last_turn);
        self.looks = if !has_work {
            0
        } else if is_same {
            self.looks.saturating_add(1)
        } else {
            1
        };
        self.looks == LATE
    }
}

impl EventLoop {
    /// Returns the workers on this runtime whose tasks have been polled for long without a break.
    fn in_the_way_on(&self, runtime: Id) -> Vec<(String, Stopper)> {
        let mut in_the_way = Vec::new();
        for node in self.registry.nodes() {
            let slot = &self.registry.slots[node];
            let settings = slot.manifold.as_ref().and_then(|manifold| manifold.settings.as_deref());
            if let Some(worker) = &slot.worker
                && worker.stopper.polled_for() >= Some(IN_THE_WAY)
                && self.shared.environment.runtime_of(settings).id() == runtime
            {
                in_the_way.push((self.registry.path(node), worker.stopper.clone()));
            }
        }
        in_the_way
    }
}
