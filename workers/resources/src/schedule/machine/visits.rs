//! How visits begin, get their answers and end.

use super::super::groups::Group;
use super::super::interface::{Answer, Because, Command, Reason, Ticket};
use super::super::node::{Condition, Visit};
use super::{Id, Machine};

impl Machine {
    /// Begins or skips the visit of the first resource that is ready. Returns whether it has.
    pub(super) fn start(&mut self) -> bool {
        let Some(id) = self.ready.first().map(|rank| self.graph.ids()[*rank]) else { return false };
        if self.policy.is_one_pass && self.nodes[id].failing_needs > 0 {
            self.skip(id);
        } else if !self.has_slot() {
            return false;
        } else {
            self.begin(id);
        }
        true
    }

    fn skip(&mut self, id: Id) {
        let node = &mut self.nodes[id];
        node.finish();
        node.is_held_back = true;
        self.commands.push_back(Command::Skip { id });
        self.refresh(id);
        self.leave_class(id);
    }

    fn begin(&mut self, id: Id) {
        self.last_visit += 1;
        self.visited += 1;
        self.working += 1;
        let ticket = Ticket { number: self.last_visit, id };
        let sent = self.notifications.sent_to(id);
        let delivered: Vec<Id> = sent.filter(|source| !self.waits(id, *source)).collect();
        let node = &mut self.nodes[id];
        let because = node.because.take();
        node.visit = Some(Box::new(Visit {
            number: ticket.number,
            reason: node.request.take().unwrap_or(Reason::Routine),
            is_waiting: false,
            has_slot: true,
            is_outdated: false,
            began: self.notifications.sent(),
            delivered: delivered.clone(),
            targets: Vec::new(),
            answer: None,
        }));
        self.refresh(id);
        self.commands.push_back(Command::Visit { ticket, delivered, because });
    }

    /// Whether a visit may begin or go on.
    pub(super) fn has_slot(&self) -> bool {
        self.working < self.policy.slots
    }

    /// Answers the visits of a group that are still under way. Only the first that is answered gets
    /// a slot, so visits of a group that may not act are answered one by one.
    pub(super) fn answer(&mut self, tickets: Vec<Ticket>) {
        let is_group = tickets.len() > 1;
        let mut allowed = Vec::new();
        for ticket in tickets {
            match self.judge(ticket) {
                None => {}
                Some(Answer::Act) => allowed.push(ticket),
                Some(_) if is_group => self.groups.join(ticket, Group::Alone(ticket)),
                Some(answer) => self.give(vec![ticket], answer),
            }
        }
        allowed.sort_unstable_by_key(|ticket| ticket.id);
        for ticket in &allowed {
            self.expect_notifications(ticket.id);
        }
        if !allowed.is_empty() {
            self.give(allowed, Answer::Act);
        }
    }

    fn give(&mut self, tickets: Vec<Ticket>, answer: Answer) {
        for (place, ticket) in tickets.iter().enumerate() {
            let Some(visit) = self.visit_mut(*ticket) else { continue };
            let has_slot = place == 0;
            (visit.is_waiting, visit.has_slot, visit.answer) = (false, has_slot, Some(answer));
            self.working += usize::from(has_slot);
        }
        self.commands.push_back(Command::Answer { tickets, answer });
    }

    /// Returns whether a visit may act (I3), unless it has ended.
    pub(crate) fn judge(&self, ticket: Ticket) -> Option<Answer> {
        let node = self.nodes.get(ticket.id)?;
        let visit = node.visit.as_ref().filter(|visit| visit.number == ticket.number)?;
        Some(if node.unsettled_before > 0 || visit.is_outdated {
            Answer::Again
        } else if node.failing_needs > 0 {
            Answer::HeldBack
        } else {
            Answer::Act
        })
    }

    /// Returns the visit of a ticket, unless it has ended.
    pub(super) fn visit_mut(&mut self, ticket: Ticket) -> Option<&mut Visit> {
        let visit = self.nodes.get_mut(ticket.id)?.visit.as_deref_mut();
        visit.filter(|visit| visit.number == ticket.number)
    }

    pub(super) fn end_visit(&mut self, ticket: Ticket) -> Option<Visit> {
        self.visit_mut(ticket)?;
        self.take_visit(ticket.id)
    }

    fn take_visit(&mut self, id: Id) -> Option<Visit> {
        let visit = *self.nodes[id].visit.take()?;
        self.visited -= 1;
        self.working -= usize::from(visit.has_slot);
        Some(visit)
    }

    /// Ends a visit that will not report, and requests it again. Returns the targets of its
    /// notifications: it may have acted.
    pub(super) fn give_up_visit(&mut self, id: Id) -> Vec<Id> {
        let Some(visit) = self.take_visit(id) else { return Vec::new() };
        let request = &mut self.nodes[id].request;
        *request = (*request).max(Some(visit.reason));
        visit.targets
    }

    /// Notes that nobody knows any more whether the resource is as declared.
    pub(super) fn doubt(&mut self, id: Id) {
        let condition = &mut self.nodes[id].condition;
        if *condition == Condition::Good {
            *condition = Condition::Unknown;
        }
    }

    pub(super) fn set_good(&mut self, id: Id) {
        self.nodes[id].is_excused = false;
        self.set_condition(id, Condition::Good);
    }

    /// Notes that the resource is as it was declared before. The next look that fails is not
    /// excused, so each time that the resource is tried again it wakes nobody.
    pub(super) fn keep_as_before(&mut self, id: Id) {
        self.nodes[id].is_excused = true;
        self.set_condition(id, Condition::Good);
    }

    pub(super) fn set_failed(&mut self, id: Id) {
        self.nodes[id].is_excused = false;
        self.set_condition(id, Condition::Failed);
    }

    fn set_condition(&mut self, id: Id, condition: Condition) {
        let was = std::mem::replace(&mut self.nodes[id].condition, condition);
        self.failed += usize::from(condition == Condition::Failed);
        self.failed -= usize::from(was == Condition::Failed);
    }

    /// Returns whether a look that has failed is no failure yet: a visit of something before the
    /// resource comes first, and then the resource is visited again. A resource that has failed
    /// already is not excused, so each time that it is tried again it wakes nobody.
    pub(super) fn excuse(&mut self, id: Id) -> bool {
        if self.policy.is_one_pass {
            return false;
        }
        let node = &self.nodes[id];
        if node.unsettled_before > 0 || node.failing_needs > 0 {
            self.hold_back(id);
            return true;
        }
        let mut asked = self.graph.needs(id).to_vec();
        asked.retain(|used| self.nodes[*used].has_worker);
        let has_failed = node.condition == Condition::Failed;
        if node.is_excused || has_failed || asked.is_empty() {
            return false;
        }
        (self.nodes[id].is_excused, self.nodes[id].request) = (true, Some(Reason::Change));
        for used in asked {
            self.note_because(used, Because::LookFailed(id));
            self.request(used, Reason::Change);
        }
        true
    }

    /// Makes a resource wait until nothing that it needs is failing, or for the next visit if
    /// something before it is unsettled.
    pub(super) fn hold_back(&mut self, id: Id) {
        let node = &mut self.nodes[id];
        node.is_excused = false;
        if node.unsettled_before == 0 && node.failing_needs > 0 {
            node.is_held_back = true;
        } else {
            node.request = Some(Reason::Change);
        }
    }

    /// One pass: the groups of a resource wait for it no more.
    pub(super) fn leave_class(&mut self, id: Id) {
        if std::mem::take(&mut self.nodes[id].is_awaited)
            && let Some(class) = self.graph.class(id)
        {
            self.groups.leave(class);
        }
    }
}
