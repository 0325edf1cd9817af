//! The commands of the machine, and the judgement after they were taken.

use std::collections::BTreeSet;

use super::{Step, Versions, Visiting, World};
use crate::schedule::tests::model::Visited;
use crate::schedule::{Answer, Command, Id, Outcome, Standing, Ticket};

impl World {
    /// Takes all commands, and judges each.
    pub(in crate::schedule::tests) fn take_commands(&mut self) {
        while let Some(command) = self.machine.next() {
            match command {
                Command::Write(record) => self.tail.push(record),
                // No visit waits for something of its own.
                Command::Wake { .. } => {}
                Command::Skip { id, .. } => panic!("I8: {id:?} is skipped in no pass"),
                Command::Visit { ticket, delivered, .. } => self.begin(ticket, delivered),
                Command::Answer { tickets, answer } => self.answered(&tickets, answer),
            }
        }
        assert_eq!(self.machine.miscount(), None, "I1: miscounted");
        if self.model.working() < self.policy.slots {
            assert_eq!(self.model.asked, [], "I9: a question is left open");
            self.model.open.clear();
            assert_eq!(self.model.forgotten(), BTreeSet::new(), "I5: not visited");
        }
        for id in self.site().ids.iter().copied() {
            self.judge_standing(id);
        }
        assert_eq!(self.machine.is_at_rest(), self.model.is_at_rest(), "I5: at rest");
        let mut undelivered = self.model.undelivered();
        // A resource that is left alone, or kept as before, acknowledges nothing, and is not
        // visited for that again and again.
        undelivered.retain(|(target, _)| {
            let truth = &self.truths[target];
            !truth.is_noop && !truth.is_kept_as_before
        });
        assert_eq!(undelivered, BTreeSet::new(), "I7: not delivered");
    }

    fn begin(&mut self, ticket: Ticket, delivered: Vec<Id>) {
        let id = ticket.id;
        self.counts.visits += 1;
        self.model.now += 1;
        assert!(self.model.working() < self.policy.slots, "I10: {id:?} has no slot");
        // Questions come first.
        assert_eq!(self.model.asked, [], "I9: a question is left open");
        self.model.open.clear();
        assert!(!self.model.is_unsettled_before(id), "I2: {id:?} is visited too early");
        assert_eq!(delivered, self.model.to_deliver(id), "I7: delivered to {id:?}");
        for source in &delivered {
            let key = (id, *source);
            let has_cause = self.debts.contains_key(&key) || self.free.contains(&key);
            assert!(has_cause, "I7: nobody has notified {key:?}");
            self.counts.delivered += 1;
        }
        let began = self.model.now;
        let fact = self.model.fact(id);
        assert!(fact.has_worker && fact.visit.is_none(), "I4: {id:?} is visited: {fact:?}");
        let reason = fact.request.take().expect("I5: a visit was requested");
        fact.visit = Some(Visited {
            reason,
            is_outdated: false,
            is_led: false,
            answer: None,
            began,
            delivered: delivered.clone(),
        });
        let seen = self.versions(id);
        self.truth(id).visit = Some(Visiting {
            ticket,
            step: Step::Look,
            seen,
            delivered,
            targets: Vec::new(),
            has_acted: false,
            is_acted_for: false,
        });
    }

    fn answered(&mut self, tickets: &[Ticket], answer: Answer) {
        assert!(self.model.working() < self.policy.slots, "I10: {tickets:?} have no slot");
        let (expected, expected_answer) = self.model.take_answered(tickets[0]);
        assert_eq!(answer, expected_answer, "I3: the answer to {:?}", tickets[0]);
        assert_eq!(tickets, expected, "I9: who acts together");
        for ticket in tickets {
            let before = self.site().all_before(ticket.id);
            let is_joined = tickets.iter().any(|other| before.contains(&other.id));
            assert!(!is_joined, "I9: {ticket:?} comes after another one of {tickets:?}");
        }
        self.counts.shared += u64::from(tickets.len() > 1);
        for ticket in tickets {
            self.judge_answer(*ticket, answer);
        }
        let leader = tickets[0];
        for led in &tickets[1..] {
            let visit = self.truth(led.id).visit.as_mut().expect("it is visited");
            visit.step = Step::Led(leader);
        }
        // All records up to here are on disk before an action begins.
        if answer == Answer::Act {
            self.flush();
        }
    }

    fn judge_answer(&mut self, ticket: Ticket, answer: Answer) {
        let id = ticket.id;
        self.model.visit(id).answer = Some(answer);
        let mut step = Step::End(Outcome::NotAllowed);
        match answer {
            Answer::Act => {
                self.counts.acts += 1;
                self.judge_action(id);
                for target in self.site().notifies(id).collect::<Vec<_>>() {
                    self.model.notifications.entry((target, id)).or_default().1 = true;
                }
                // Its change may not be approved.
                let is_approved = self.random.chance(95);
                let more = self.random.below(2);
                step = if is_approved { Step::Act(more) } else { Step::End(Outcome::Stopped) };
            }
            Answer::Again => self.counts.again += 1,
            Answer::HeldBack => self.counts.held_back += 1,
            Answer::Halted => panic!("I3: nothing was halted"),
        }
        let targets = self.site().notifies(id).collect();
        let visit = self.truth(id).visit.as_mut().expect("I4: the answer is for a visit");
        assert_eq!((visit.ticket, visit.step), (ticket, Step::Asked), "I4: not asked");
        if visit.is_acted_for {
            step = Step::End(Outcome::Good);
        }
        (visit.step, visit.targets) = (step, targets);
    }

    /// Judges what has to be true when a resource may act, whatever the machine knows.
    fn judge_action(&self, id: Id) {
        let seen = self.truths[&id].visit.as_ref().map(|visit| &visit.seen);
        assert_eq!(seen, Some(&self.versions(id)), "I3: {id:?} has seen old states");
        for before in self.site().all_needs(id) {
            let fact = &self.model.facts[&before];
            assert!(fact.is_good && !fact.has_failed, "I3: {id:?} acts and {before:?} is not good");
            let last_seen = &self.truths[&before].last_seen;
            assert_eq!(*last_seen, self.versions(before), "I3: {before:?} has not looked");
        }
    }

    fn judge_standing(&self, id: Id) {
        let fact = &self.model.facts[&id];
        let is_at_work = fact.is_at_work();
        let standing = self.machine.standing(id).expect("a resource of the site");
        let is_right = match standing {
            Standing::AtWork => is_at_work,
            Standing::Failed => !is_at_work && fact.has_failed,
            Standing::HeldBack(by) => {
                !is_at_work && fact.is_held_back && self.model.may_hold_back(id, by)
            }
            Standing::Absent => !is_at_work && !fact.has_failed && !fact.has_worker,
            Standing::Good => !is_at_work && !fact.is_held_back && fact.has_worker && fact.is_good,
        };
        assert!(is_right, "I11: {id:?} stands as {standing:?}: {fact:?}");
    }

    /// Returns the versions of the states that a resource uses.
    fn versions(&self, id: Id) -> Versions {
        self.site().needs(id).map(|used| (used, self.truths[&used].published)).collect()
    }

    /// Judges a site at rest, to which nothing bad happens any more.
    pub(in crate::schedule::tests) fn judge_rest(&mut self) {
        assert!(self.machine.is_at_rest(), "I5: not at rest");
        for id in self.site().ids.iter().copied() {
            let (fact, truth) = (&self.model.facts[&id], &self.truths[&id]);
            assert!(fact.is_good && !fact.has_failed && !fact.is_held_back, "I5: {id:?} {fact:?}");
            assert_eq!(self.machine.standing(id), Some(Standing::Good), "I11: {id:?} at rest");
            assert!(truth.is_noop || !truth.has_drifted, "I5: {id:?} has drifted: {truth:?}");
            assert_eq!(truth.last_seen, self.versions(id), "I5: {id:?} has seen old states");
        }
        self.flush();
        let is_noop = |target: &Id| self.truths.get(target).is_none_or(|truth| truth.is_noop);
        for (target, source) in self.debts.keys() {
            assert!(is_noop(target), "I7: nothing of {source:?} was delivered to {target:?}");
        }
        let pending: BTreeSet<(Id, Id)> = self.machine.pending().collect();
        let is_left_alone = pending.iter().all(|(target, _)| is_noop(target));
        assert!(is_left_alone, "I7: pending at rest: {pending:?}");
        assert_eq!(pending, self.disk, "I6: the store is not as the machine");
    }
}
