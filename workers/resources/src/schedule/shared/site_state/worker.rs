//! One resource of a site that is kept, and its worker.

use std::sync::Arc;

use super::SiteState;
use crate::base::packed::Packed;
use crate::kind::context::Notice;
use crate::report::observer::EventKind;
use crate::schedule::asking::Question;
use crate::schedule::shared::unanswered::Unanswered;
use crate::schedule::shared::visit::{AfterVisit, BegunVisit, Consequence, Place, VisitReport};
use crate::schedule::state::State;
use crate::schedule::{Answer, Ending, Id, Outcome, Reason, Reported, Standing, Ticket};
use crate::state::Position;

impl SiteState {
    /// Gives a worker the place of its resource, which is visited then. The worker before it has no
    /// effect any more. Without such a resource there is no place.
    pub(crate) fn take_place(&mut self, name: &str) -> Option<Place> {
        let id = self.entries.resource(name)?;
        self.workers += 1;
        let entry = self.entries.get_mut(id);
        self.starting -= usize::from(entry.is_starting());
        entry.was_started = true;
        let awaited_by = std::mem::take(&mut entry.awaited_by);
        // Each worker has its own: one that still waits must not be woken in the place of the last.
        entry.wake = Arc::default();
        let (before, wake) = (entry.worker.replace(self.workers), Arc::clone(&entry.wake));
        if before.is_some() {
            self.detach(id);
        }
        self.machine.attach(id);
        awaited_by.into_iter().for_each(|id| self.machine.request(id, Reason::Change));
        Some(Place { id, worker: self.workers, wake })
    }

    /// Returns whether a worker is the one that keeps its resource.
    pub(crate) fn is_kept_by(&self, place: &Place) -> bool {
        self.entries.get(place.id).worker == Some(place.worker)
    }

    /// Returns whether the site has a resource of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.resource(name).is_some()
    }

    /// Returns whether the site has a resource of this name and kind.
    pub(crate) fn has_of_kind(&self, name: &str, kind: &str) -> bool {
        let id = self.entries.resource(name);
        id.is_some_and(|id| self.entries.get(id).count.kind() == kind)
    }

    /// Returns whether the site has a resource of this name only to put it back as it was.
    pub(crate) fn is_put_back(&self, name: &str) -> bool {
        self.entries.resource(name).is_some_and(|id| self.entries.get(id).is_put_back)
    }

    /// Takes the worker from its resource.
    pub(crate) fn leave(&mut self, id: Id) {
        self.entries.get_mut(id).worker = None;
        self.detach(id);
    }

    /// Takes the worker from its resource, which is not as declared until another one has kept it.
    pub(crate) fn fail(&mut self, id: Id) {
        self.entries.get_mut(id).count.note_failure();
        self.machine.request(id, Reason::Change);
        self.leave(id);
    }

    fn detach(&mut self, id: Id) {
        self.machine.detach(id);
        let entry = self.entries.get_mut(id);
        (entry.visit, entry.held_back_by) = (None, None);
        self.questions.refuse_lost(&self.machine);
    }

    /// Requests a visit.
    pub(crate) fn request(&mut self, id: Id, reason: Reason) {
        self.machine.request(id, reason);
    }

    /// Returns the visit that has begun, unless it was given up.
    pub(crate) fn take_visit(&mut self, id: Id) -> Option<Box<BegunVisit>> {
        let visit = self.entries.get_mut(id).visit.take()?;
        self.answer(visit.ticket).map(|_| visit)
    }

    pub(in crate::schedule::shared) fn ask(
        &mut self,
        ticket: Ticket,
        key: Option<String>,
        question: Question,
    ) {
        self.questions.ask(&mut self.machine, (ticket, key), question);
    }

    /// Returns the answer that a visit would get now, unless it has ended.
    pub(in crate::schedule::shared) fn answer(&self, ticket: Ticket) -> Option<Answer> {
        self.machine.judge(ticket)
    }

    /// Returns whether something new was sent to a resource since its visit began.
    pub(crate) fn is_outdated(&self, id: Id) -> bool {
        self.machine.is_outdated(id)
    }

    /// Notes, before a visit ends, that it has done what the resource was notified of. Returns the
    /// position up to which records are to be written because of it.
    pub(crate) fn answer_notices(&mut self, id: Id) -> Position {
        let before = self.last_record;
        self.machine.acknowledge_delivered(id);
        self.answer_delivered(id);
        self.take_commands();
        self.written_since(before)
    }

    /// Returns the position up to which records are to be written, if there are any after `before`.
    fn written_since(&self, before: Position) -> Position {
        if self.last_record > before { self.last_record } else { Position::default() }
    }

    /// Returns the names of the resources that a resource notifies.
    pub(crate) fn notified(&self, id: Id) -> Vec<Arc<str>> {
        self.machine.graph().notifies(id).iter().map(|target| self.entries.name(*target)).collect()
    }

    /// Returns a resource that this one waits for.
    pub(crate) fn waits_for(&self, id: Id) -> Option<Arc<str>> {
        let awaited = self.machine.waits_for(id).or(match self.machine.standing(id) {
            Some(Standing::HeldBack(by)) => Some(by),
            _ => None,
        });
        awaited.map(|awaited| self.entries.name(awaited))
    }

    /// Returns how many resources are worked on at a time, if this one waits only until one of them
    /// is done.
    pub(crate) fn lacks_slot(&self, id: Id) -> Option<usize> {
        self.machine.lacks_slot(id)
    }

    /// Gives up a visit, because its worker was told to stop. Nobody knows whether the resource is
    /// as declared, so others wait for the next worker.
    pub(crate) fn give_up(&mut self, closing: &VisitReport) {
        let VisitReport { ticket, has_acted, notice, .. } = closing;
        if *has_acted {
            self.note_notice(ticket.id, notice);
        }
        let entry = self.entries.get_mut(ticket.id);
        entry.was_started = false;
        self.starting += usize::from(entry.is_starting());
        self.detach(ticket.id);
    }

    /// Notes the notice of a resource for each resource that it notifies.
    fn note_notice(&mut self, id: Id, notice: &Notice) {
        for target in self.machine.graph().notifies(id).to_vec() {
            self.notices.entry((target, id)).or_default().add(notice);
        }
    }

    /// Takes over the report of a visit.
    pub(crate) fn report(&mut self, closing: VisitReport) -> Consequence {
        let VisitReport { ticket, outcome, has_acted, is_holding, state, notice } = closing;
        let (id, before) = (ticket.id, self.last_record);
        if has_acted {
            self.note_notice(id, &notice);
        }
        let has_new_state = state.is_some() && self.entries.get(id).state != state;
        let ending = Ending { outcome, has_acted, has_new_state, is_holding };
        let reported = self.machine.report(ticket, ending);
        let is_counted = reported == Reported::Counted;
        if is_counted && outcome == Outcome::Good {
            self.answer_delivered(id);
        }
        if has_new_state && is_counted && outcome.is_good() {
            self.publish(id, state);
        }
        let stands = match self.machine.standing(id) {
            _ if is_counted && outcome != Outcome::NotAllowed => AfterVisit::Counted,
            Some(Standing::HeldBack(by)) if self.entries.get(by).was_started => {
                AfterVisit::HeldBack(self.entries.name(by))
            }
            // Nobody knows yet whether that one is as declared.
            Some(Standing::HeldBack(by)) => {
                self.entries.get_mut(by).awaited_by.insert(id);
                AfterVisit::Waits
            }
            _ => AfterVisit::Waits,
        };
        let count = &mut self.entries.get_mut(id).count;
        count.note_look();
        let is_failed =
            matches!(outcome, Outcome::CannotLook | Outcome::KeptAsBefore | Outcome::Failed);
        if is_failed && stands == AfterVisit::Counted {
            count.note_failure();
        }
        if stands != AfterVisit::Waits {
            self.entries.get_mut(id).held_back_by = match &stands {
                AfterVisit::HeldBack(by) => Some(Arc::clone(by)),
                _ => None,
            };
        }
        self.take_commands();
        Consequence { stands, records: self.written_since(before) }
    }

    /// Forgets the notices that the last visit of a resource got. If a source acts meanwhile, its
    /// notification is still pending, but has only the part that comes after that.
    fn answer_delivered(&mut self, id: Id) {
        for source in std::mem::take(&mut self.entries.get_mut(id).delivered) {
            self.notices.get_mut(&(id, source)).into_iter().for_each(Unanswered::answer);
        }
    }

    /// Takes over a resource's state, before any visit because of it.
    fn publish(&mut self, id: Id, state: Option<State>) {
        self.states += 1;
        if std::mem::replace(&mut self.entries.get_mut(id).state, state).is_some() {
            return;
        }
        for after in self.machine.graph().needed_by(id) {
            let entry = self.entries.get_mut(*after);
            entry.missing = entry.missing.saturating_sub(1);
            self.starting += usize::from(entry.is_starting());
        }
    }

    pub(in crate::schedule::shared) fn state(&self, name: &str) -> Option<State> {
        self.entries.get(self.entries.resource(name)?).state.clone()
    }

    /// Counts a change of a resource, which may be a repair.
    pub(crate) fn note_change(&mut self, id: Id, is_repaired: bool) {
        self.entries.get_mut(id).count.note_change(is_repaired);
    }

    pub(crate) fn note_event(&mut self, id: Id, (what, event): (EventKind, Packed)) {
        self.entries.get_mut(id).count.note_event(what, event);
    }

    pub(in crate::schedule::shared) fn last_event(&self, name: &str) -> Option<Arc<Packed>> {
        self.entries.get(self.entries.resource(name)?).count.last_event()
    }
}
