//! The schedule of the visits of one site, and the states and notices that its resources exchange.
//!
//! Invariants:
//! 1. A caller with an event passes it to the machine under the lock, and takes all commands in the
//!    same step. So no command waits for another caller. Only a question is asked in one step and
//!    answered in another: visits that ask in between are in its group.
//! 2. A state is in the table before its report is followed by a visit.
//! 3. A worker that is not the last one of its resource changes nothing here.
//! 4. In a step, the records of the notifications of a resource come before its permission to act.
//!    It acts only when these records are on disk.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;

use crate::base::error::BoxError;
use crate::declare::declaration::Declaration;
use crate::declare::order::Order;
use crate::kind::kinds::Kinds;
use crate::report::crash_loops::CrashLoops;
use crate::report::flood::Flood;
use crate::report::released::Released;
use crate::schedule::asking::{Question, Scheduling};
use crate::schedule::state::State;
use crate::schedule::{Answer, Ticket};
use crate::state::facilities::Facilities;

use self::holds::Holds;
pub use self::rest::Rest;
pub(crate) use self::site_state::SiteState;
pub(crate) use self::visit::{AfterVisit, BegunVisit, Consequence, Place, VisitReport};

mod entries;
mod holding;
mod holds;
mod rest;
mod site_state;
mod unanswered;
mod visit;

/// The schedule of one site: the states of its resources, their notifications, and the order of
/// their visits. Cheap to clone; clones are the same schedule.
///
/// It outlives the workers of the resources: a notification is kept until the resource has done
/// what it means, however often its worker is started meanwhile. Notifications that come before the
/// first one was answered are one. No caller waits to send one.
#[derive(Clone, Default)]
pub struct Schedule(Arc<Shared>);

#[derive(Default)]
struct Shared {
    kept: Mutex<SiteState>,
    flood: Flood,
    crash_loops: CrashLoops,
    rest: watch::Sender<Rest>,
    /// Counts the new states.
    states: watch::Sender<u64>,
    holds: Mutex<Holds>,
}

/// Whether the resources of a site are at rest. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Activity(watch::Receiver<Rest>);

impl Activity {
    /// Returns whether they are at rest; that counts as seen.
    pub fn rest(&mut self) -> Rest {
        *self.0.borrow_and_update()
    }

    /// Returns whether that has changed and was not seen.
    pub fn has_changed(&self) -> bool {
        self.0.has_changed().unwrap_or(false)
    }

    /// Waits until it has changed and was not seen; for ever once the site is no longer kept.
    /// Cancel safe.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Schedule {
    /// Takes over the resources of a site with their order and kinds, and forgets all others. A
    /// resource in `fresh` is another one than before under its name. The first site gets the
    /// notifications that an earlier agent has left unanswered.
    pub fn connect<'a>(
        &self,
        resources: (&Order, &[Declaration]),
        kinds: &Kinds,
        facilities: &Facilities,
        fresh: impl IntoIterator<Item = &'a str>,
    ) {
        let fresh = fresh.into_iter().collect::<Vec<_>>();
        self.step(|kept| kept.connect(resources, kinds, facilities, &fresh));
    }

    /// Runs `hand_over`, which hands other declarations to the resources with these names, and
    /// requests their visits. None of the site's resources begins to act meanwhile.
    pub fn renew<'a>(&self, names: impl IntoIterator<Item = &'a str>, hand_over: impl FnOnce()) {
        self.step(|kept| {
            hand_over();
            names.into_iter().for_each(|name| kept.redeclare(name));
        });
    }

    /// Notifies a resource, as a changed resource would. The notification is on disk when this
    /// returns. Returns whether there is such a resource.
    pub(crate) async fn notify(&self, resource: &str, by: &str) -> Result<bool, BoxError> {
        let Some((records, position)) = self.step(|kept| kept.notify(resource, by)) else {
            return Ok(false);
        };
        records.flush(position).await?;
        Ok(true)
    }

    /// Returns whether the resources are at rest.
    pub fn activity(&self) -> Activity {
        Activity(self.0.rest.subscribe())
    }

    /// Returns a receiver that tells of each new state of a resource.
    pub(crate) fn states(&self) -> watch::Receiver<u64> {
        self.0.states.subscribe()
    }

    /// Returns the last event of the resource with this name, as JSON of a
    /// [`LastEvent`](crate::report::LastEvent).
    pub fn last_event(&self, resource: &str) -> Option<Value> {
        // Unpacked when the lock is free again.
        let event = self.look(|kept| kept.last_event(resource))?;
        Some(event.value())
    }

    /// Notes the resources that are not kept any more.
    pub fn note_released(&self, released: Vec<Released>) {
        self.look(|kept| kept.note_released(released));
    }

    /// Logs how many resources were changed beyond those that the log tells of one by one, which
    /// are 100 in a second; and once a minute how often a program has ended by itself after its
    /// first end. Never ends. Cancel safe.
    pub async fn summarize(self) {
        let Shared { flood, crash_loops, .. } = &*self.0;
        tokio::join!(flood.clone().summarize(), crash_loops.clone().summarize());
    }

    pub(crate) fn flood(&self) -> &Flood {
        &self.0.flood
    }

    pub(crate) fn crash_loops(&self) -> &CrashLoops {
        &self.0.crash_loops
    }

    /// Returns the last state of the resource with this name.
    pub(crate) fn last_state(&self, name: &str) -> Option<State> {
        self.look(|kept| kept.state(name))
    }

    /// Locks and returns the resources that people hold. A task that has the lock of the schedule
    /// may take this lock too, but not the other way round.
    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.0.holds.lock()
    }

    /// Does something under the lock that is no event of the schedule.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut SiteState) -> T) -> T {
        look(&mut self.0.kept.lock())
    }

    /// Passes an event to the schedule, and takes the commands that follow.
    pub(crate) fn step<T>(&self, event: impl FnOnce(&mut SiteState) -> T) -> T {
        self.0.step(event)
    }

    /// Returns the handle with which visits ask the schedule.
    pub(crate) fn scheduling(&self) -> Arc<dyn Scheduling> {
        Arc::<Shared>::clone(&self.0)
    }
}

impl Shared {
    fn step<T>(&self, event: impl FnOnce(&mut SiteState) -> T) -> T {
        let mut kept = self.kept.lock();
        let result = event(&mut kept);
        kept.take_commands();
        let (rest, states) = (kept.rest(), kept.states());
        self.rest.send_if_modified(|was| std::mem::replace(was, rest) != rest);
        self.states.send_if_modified(|was| std::mem::replace(was, states) != states);
        result
    }
}

impl Scheduling for Shared {
    fn ask(&self, ticket: Ticket, key: Option<String>, question: Question) {
        self.kept.lock().ask(ticket, key, question);
    }

    fn take_commands(&self) {
        self.step(|_| {});
    }

    fn allows(&self, ticket: Ticket) -> bool {
        self.kept.lock().answer(ticket) == Some(Answer::Act)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.lock().fmt(f)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
