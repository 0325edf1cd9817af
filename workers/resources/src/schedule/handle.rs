//! The place of one worker in the schedule of its site.

use std::future::pending;
use std::sync::Arc;

use crate::report::observer::{Event, LastEvent};
use crate::schedule::asking::Turn;
use crate::schedule::shared::{
    AfterVisit, BegunVisit, Consequence, Place, Schedule, SiteState, VisitReport,
};
use crate::schedule::{Id, Reason, Ticket};
use crate::state::Position;

/// The place of one worker in the schedule of its site. Its resource is visited first of all.
///
/// Once another worker of the resource has taken the place, this one has no effect any more.
#[derive(Debug)]
pub(crate) struct ScheduleHandle {
    schedule: Schedule,
    /// None if the resource was taken out before the worker came.
    place: Option<Place>,
}

impl ScheduleHandle {
    pub(crate) fn new(schedule: Schedule, name: &str) -> Self {
        let place = schedule.step(|kept| kept.take_place(name));
        Self { schedule, place }
    }

    /// Passes an event to the schedule, unless the worker no longer keeps the resource.
    fn step<T>(&self, step: impl FnOnce(&mut SiteState, Id) -> T) -> Option<T> {
        let place = self.place.as_ref()?;
        self.schedule.step(|kept| kept.is_kept_by(place).then(|| step(kept, place.id)))
    }

    /// Does something that is no event of the schedule, unless the worker no longer keeps the
    /// resource.
    fn look<T>(&self, look: impl FnOnce(&mut SiteState, Id) -> T) -> Option<T> {
        let place = self.place.as_ref()?;
        self.schedule.look(|kept| kept.is_kept_by(place).then(|| look(kept, place.id)))
    }

    /// Requests a visit.
    pub(crate) fn request(&self, reason: Reason) {
        self.step(|kept, id| kept.request(id, reason));
    }

    /// Waits for a visit that begins. Cancel safe.
    pub(crate) async fn visit(&self) -> Box<BegunVisit> {
        let Some(place) = &self.place else { return pending().await };
        loop {
            if let Some(visit) = self.look(SiteState::take_visit).flatten() {
                return visit;
            }
            place.wake.notified().await;
        }
    }

    /// Waits until something new was sent to the resource since its visit began. Cancel safe.
    pub(crate) async fn outdated(&self) {
        let Some(place) = &self.place else { return pending().await };
        while self.look(|kept, id| kept.is_outdated(id)) != Some(true) {
            place.wake.notified().await;
        }
    }

    /// Reports, before the visit ends, that it has done what the resource was notified of. Returns
    /// the position up to which records are to be written.
    pub(crate) fn answer(&self) -> Position {
        self.step(SiteState::answer_notices).unwrap_or_default()
    }

    /// Returns the handle with which a visit asks the schedule.
    pub(crate) fn turn(&self, ticket: Ticket) -> Turn {
        Turn::new(self.schedule.scheduling(), ticket)
    }

    /// Returns the names of the resources that the resource notifies.
    pub(crate) fn notified(&self) -> Vec<Arc<str>> {
        self.look(|kept, id| kept.notified(id)).unwrap_or_default()
    }

    /// Returns a resource that this one waits for.
    pub(crate) fn waits_for(&self) -> Option<Arc<str>> {
        self.look(|kept, id| kept.waits_for(id)).flatten()
    }

    /// Returns how many resources are worked on at a time, if this one waits only until one of them
    /// is done.
    pub(crate) fn lacks_slot(&self) -> Option<usize> {
        self.look(|kept, id| kept.lacks_slot(id)).flatten()
    }

    /// Reports the end of a visit.
    pub(crate) fn report(&self, closing: VisitReport) -> Consequence {
        let nothing = || Consequence { stands: AfterVisit::Waits, records: Position::default() };
        self.step(|kept, _| kept.report(closing)).unwrap_or_else(nothing)
    }

    /// Reports that a visit has not ended well because the worker was told to stop. The next worker
    /// visits the resource again.
    pub(crate) fn give_up(&self, closing: &VisitReport) {
        self.step(|kept, _| kept.give_up(closing));
    }

    /// Reports that the resource is not as declared until another worker has kept it.
    pub(crate) fn fail(&self) {
        self.step(SiteState::fail);
    }

    /// Returns whether another worker is to keep the resource, whose kind is still this one, because
    /// the site has changed.
    pub(crate) fn has_successor(&self, name: &str, kind: &str) -> bool {
        self.look(|_, _| ()).is_none() && self.schedule.look(|kept| kept.has_of_kind(name, kind))
    }

    /// Returns whether a resource has left the manifest, and is put back as it was.
    pub(crate) fn is_put_back(&self, name: &str) -> bool {
        self.schedule.look(|kept| kept.is_put_back(name))
    }

    /// Returns why the worker was told to stop, as far as the site tells.
    pub(crate) fn why_stopped(&self, name: &str) -> &'static str {
        if self.look(|_, _| ()).is_some() {
            "its worker was told to stop"
        } else if self.schedule.look(|kept| kept.has(name)) {
            "its type or its dependencies have changed"
        } else {
            "it has left the manifest"
        }
    }

    /// Counts a change of the resource, which may be a repair.
    pub(crate) fn note_change(&self, is_repaired: bool) {
        self.look(|kept, id| kept.note_change(id, is_repaired));
    }

    /// Keeps an event as the last one of the resource.
    pub(crate) fn note_event(&self, happened: Event) {
        // Packed before it takes the lock.
        let (what, event) = (happened.event, LastEvent::pack(happened));
        self.look(|kept, id| kept.note_event(id, (what, event)));
    }
}

impl Drop for ScheduleHandle {
    fn drop(&mut self) {
        self.step(SiteState::leave);
    }
}

#[cfg(test)]
mod tests;
