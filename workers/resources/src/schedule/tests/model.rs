//! The naive model of a site that is kept as declared: what the rules say, from scratch.
//!
//! It has no counters. Each question searches the whole site.

use std::collections::{BTreeMap, BTreeSet};

use super::sites::Site;
use crate::schedule::{Answer, Ending, Id, Outcome, Reason, Ticket};

/// The knowledge of the rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) site: Site,
    pub(super) facts: BTreeMap<Id, Fact>,
    /// By target and source: the time at which the notification was last sent, and whether its
    /// source may act.
    pub(super) notifications: BTreeMap<(Id, Id), (Option<u64>, bool)>,
    /// The visits that wait for their answers, in the order of their questions.
    pub(super) asked: Vec<Asked>,
    /// The groups that a question may join.
    pub(super) open: BTreeMap<Shared, Opened>,
    pub(super) now: u64,
    /// How many looks that failed were excused.
    pub(super) excused: u64,
}

/// The knowledge of the rules about one resource.
#[derive(Debug, Clone, Default)]
pub(super) struct Fact {
    pub(super) has_worker: bool,
    pub(super) request: Option<Reason>,
    pub(super) visit: Option<Visited>,
    pub(super) is_good: bool,
    pub(super) has_failed: bool,
    pub(super) is_held_back: bool,
    pub(super) is_excused: bool,
    pub(super) is_holding: bool,
}

/// The knowledge of the rules about a visit.
#[derive(Debug, Clone)]
pub(super) struct Visited {
    pub(super) reason: Reason,
    pub(super) is_outdated: bool,
    /// Another visit acts for it.
    pub(super) is_led: bool,
    pub(super) answer: Option<Answer>,
    pub(super) began: u64,
    pub(super) delivered: Vec<Id>,
}

/// A visit that has asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    ticket: Ticket,
    group: Option<Shared>,
    /// The time of the first question of its group.
    since: u64,
}

/// Kind, depth and key of a group.
type Shared = (u32, usize, u64);

/// A group that has had no turn yet. Groups have their turns in the order of their first questions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    since: u64,
    /// How many visits have asked, also those that have ended.
    count: usize,
}

impl Fact {
    fn has_change(&self) -> bool {
        let visit = self.visit.as_ref().map(|visit| visit.reason);
        self.has_worker && self.request.max(visit) == Some(Reason::Change)
    }

    fn is_unsettled(&self) -> bool {
        !self.has_failed && self.has_change()
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.is_holding || self.has_change()
    }

    pub(super) fn is_failing(&self) -> bool {
        self.has_failed || !self.has_worker && !self.is_good
    }
}

impl Model {
    pub(super) fn fact(&mut self, id: Id) -> &mut Fact {
        self.facts.get_mut(&id).expect("a resource of the site")
    }

    pub(super) fn visit(&mut self, id: Id) -> &mut Visited {
        self.fact(id).visit.as_mut().expect("I4: it is visited")
    }

    pub(super) fn is_unsettled_before(&self, id: Id) -> bool {
        self.site.all_before(id).iter().any(|before| self.facts[before].is_unsettled())
    }

    pub(super) fn needs_failing(&self, id: Id) -> bool {
        self.site.all_needs(id).iter().any(|used| self.facts[used].is_failing())
    }

    /// Returns whether a notification was sent and does not wait for its source.
    pub(super) fn can_deliver(&self, target: Id, source: Id) -> bool {
        let waits =
            self.site.notifications.contains(&(source, target)) && !self.facts[&source].is_good;
        self.notifications.get(&(target, source)).is_some_and(|it| it.0.is_some()) && !waits
    }

    /// Returns the sources whose notifications are delivered to a visit that begins now.
    pub(super) fn to_deliver(&self, id: Id) -> Vec<Id> {
        let of = self.notifications.keys().filter(|(target, _)| *target == id);
        of.map(|(_, source)| *source).filter(|source| self.can_deliver(id, *source)).collect()
    }

    pub(super) fn expected_answer(&self, id: Id) -> Answer {
        let is_outdated = self.facts[&id].visit.as_ref().is_some_and(|visit| visit.is_outdated);
        if is_outdated || self.is_unsettled_before(id) {
            Answer::Again
        } else if self.needs_failing(id) {
            Answer::HeldBack
        } else {
            Answer::Act
        }
    }

    /// A visit asks.
    pub(super) fn ask(&mut self, ticket: Ticket, group: Option<Shared>) {
        self.now += 1;
        let mut alone = Opened { since: self.now, count: 0 };
        let opened = match group {
            Some(group) => self.open.entry(group).or_insert(alone),
            None => &mut alone,
        };
        opened.count += 1;
        self.asked.push(Asked { ticket, group, since: opened.since });
        let visit = self.visit(ticket.id);
        (visit.reason, visit.is_led) = (Reason::Change, false);
    }

    /// Takes from the waiting visits those whose answer comes now, together with that of a ticket.
    pub(super) fn take_answered(&mut self, first: Ticket) -> (Vec<Ticket>, Answer) {
        let place = self.asked.iter().position(|asked| asked.ticket == first);
        let place = place.expect("I4: the answer is for a visit that waits");
        let Asked { group, since, .. } = self.asked[place];
        let answer = self.expected_answer(first.id);
        let opened = group.and_then(|group| self.open.get(&group));
        // No visit of its group could act, so all of them wait alone, behind all others.
        let is_last = answer != Answer::Act && opened.is_some_and(|opened| opened.count > 1);
        let mut tickets = Vec::new();
        for asked in std::mem::take(&mut self.asked) {
            let is_shared = group.is_some() && asked.group == group && answer == Answer::Act;
            let is_in = is_shared && self.expected_answer(asked.ticket.id) == Answer::Act;
            if asked.ticket == first || is_in {
                tickets.push(asked.ticket);
            } else {
                self.asked.push(asked);
            }
        }
        self.split(if is_last { u64::MAX } else { since });
        tickets.sort_by_key(|ticket| ticket.id);
        for led in &tickets[1..] {
            self.visit(led.id).is_led = true;
        }
        (tickets, answer)
    }

    /// Splits the groups up to one, whose turns have come. Their visits that still wait could not
    /// act then. Each of them is answered alone, when there is a slot.
    fn split(&mut self, last: u64) {
        self.now += 1;
        self.open.retain(|_, opened| opened.since > last);
        for asked in &mut self.asked {
            if asked.group.is_some_and(|group| !self.open.contains_key(&group)) {
                (asked.group, asked.since) = (None, self.now);
            }
        }
    }

    /// Requests a visit.
    pub(super) fn request(&mut self, id: Id, reason: Reason) {
        let Some(fact) = self.facts.get_mut(&id) else { return };
        fact.request = fact.request.max(Some(reason));
        fact.is_good &= fact.has_worker || reason == Reason::Routine;
    }

    /// Requests a visit because of something new.
    pub(super) fn request_newer(&mut self, id: Id) {
        self.request(id, Reason::Change);
        let visit = self.facts.get_mut(&id).and_then(|fact| fact.visit.as_mut());
        visit.into_iter().for_each(|visit| visit.is_outdated = true);
    }

    pub(super) fn send(&mut self, target: Id, source: Id) {
        self.now += 1;
        self.notifications.insert((target, source), (Some(self.now), false));
        if self.can_deliver(target, source) {
            self.request_newer(target);
        }
    }

    /// Requests visits of the resources that were held back, and that need nothing that is failing
    /// any more.
    pub(super) fn end_holds(&mut self) {
        for id in self.site.ids.clone() {
            if self.facts[&id].is_held_back && !self.needs_failing(id) {
                let fact = self.fact(id);
                (fact.is_held_back, fact.request) = (false, Some(Reason::Change));
            }
        }
    }

    pub(super) fn attach(&mut self, id: Id) {
        self.fact(id).has_worker = true;
        self.request_newer(id);
    }

    /// The worker is gone. Returns the resources that its visit notifies.
    pub(super) fn detach(&mut self, id: Id) -> Vec<Id> {
        let fact = self.fact(id);
        (fact.has_worker, fact.is_held_back, fact.is_holding) = (false, false, false);
        let targets = self.give_up(id);
        let fact = self.fact(id);
        fact.is_good &= fact.request != Some(Reason::Change);
        targets.iter().for_each(|target| self.send(*target, id));
        targets
    }

    /// Ends a visit that will not report. Returns the resources that it notifies.
    pub(super) fn give_up(&mut self, id: Id) -> Vec<Id> {
        self.asked.retain(|asked| asked.ticket.id != id);
        let fact = self.fact(id);
        let Some(visit) = fact.visit.take() else { return Vec::new() };
        fact.request = fact.request.max(Some(visit.reason));
        self.expected_from(id)
    }

    /// Returns the resources that a resource notifies if its visit acts.
    fn expected_from(&self, id: Id) -> Vec<Id> {
        let of = self.notifications.iter().filter(|((_, source), it)| *source == id && it.1);
        of.map(|((target, _), _)| *target).collect()
    }

    /// Takes over another site. Returns the notifications that visits that are gone have sent, as
    /// target and source.
    pub(super) fn swap(&mut self, new: Site, replaced: &[Id], redeclared: &[Id]) -> Vec<(Id, Id)> {
        self.split(u64::MAX);
        let mut sent = Vec::new();
        for id in self.site.ids.clone() {
            if !new.has(id) || replaced.contains(&id) {
                sent.extend(self.give_up(id).into_iter().map(|target| (target, id)));
                self.facts.remove(&id);
            }
        }
        self.site = new;
        for id in &self.site.ids {
            self.facts.entry(*id).or_default();
        }
        self.end_holds();
        sent.iter().for_each(|(target, source)| self.send(*target, *source));
        redeclared.iter().for_each(|id| self.request_newer(*id));
        for (target, source) in self.notifications.keys().copied().collect::<Vec<_>>() {
            if self.can_deliver(target, source) {
                self.request_newer(target);
            }
        }
        sent
    }

    /// A visit has ended. Returns the sources whose notifications are acknowledged, and the
    /// resources that its action has notified.
    pub(super) fn report(&mut self, id: Id, ending: Ending) -> (Vec<Id>, Vec<Id>) {
        let visit = self.fact(id).visit.take().expect("I4: a visit reports once");
        self.asked.retain(|asked| asked.ticket.id != id);
        self.fact(id).is_holding = ending.is_holding;
        let before = self.facts[&id].clone();
        let is_good = self.conclude(id, ending.outcome, visit.answer);
        let is_answer = ending.outcome == Outcome::Good;
        let acknowledged = if is_answer { self.acknowledge(id, &visit) } else { Vec::new() };
        let targets = self.expected_from(id);
        for target in &targets {
            if ending.has_acted { self.send(*target, id) } else { self.withdraw(*target, id) }
        }
        if is_good && ending.has_new_state {
            let needed_by: Vec<Id> = self.site.needed_by(id).collect();
            needed_by.into_iter().for_each(|after| self.request_newer(after));
        }
        if is_good && !before.is_good {
            for target in self.site.notifies(id).collect::<Vec<_>>() {
                if self.can_deliver(target, id) {
                    self.request_newer(target);
                }
            }
        }
        if is_good && (ending.has_acted || before.has_failed) {
            for after in self.site.ids.clone() {
                if self.facts[&after].has_failed && self.site.all_needs(after).contains(&id) {
                    self.request(after, Reason::Change);
                }
            }
        }
        (acknowledged, if ending.has_acted { targets } else { Vec::new() })
    }

    /// Notes what the end of a visit means for its resource. Returns whether that is good.
    fn conclude(&mut self, id: Id, outcome: Outcome, answer: Option<Answer>) -> bool {
        let may_be_excused = matches!(outcome, Outcome::CannotLook | Outcome::KeptAsBefore);
        let is_unsettled = self.is_unsettled_before(id);
        let is_failing = self.needs_failing(id);
        let mut workers: Vec<Id> = self.site.needs(id).collect();
        workers.retain(|used| self.facts[used].has_worker);
        let fact = self.fact(id);
        fact.is_held_back = false;
        match (outcome, answer) {
            (Outcome::NotAllowed, Some(Answer::Again)) => fact.request = Some(Reason::Change),
            (_, answer)
                if outcome == Outcome::NotAllowed && answer == Some(Answer::HeldBack)
                    || may_be_excused && (is_unsettled || is_failing) =>
            {
                fact.is_excused = false;
                if is_failing && !is_unsettled {
                    fact.is_held_back = true;
                } else {
                    fact.request = Some(Reason::Change);
                }
            }
            _ if may_be_excused && !fact.is_excused && !fact.has_failed && !workers.is_empty() => {
                (fact.is_excused, fact.request) = (true, Some(Reason::Change));
                self.excused += 1;
                workers.into_iter().for_each(|used| self.request(used, Reason::Change));
            }
            (Outcome::Good | Outcome::LeftAlone | Outcome::KeptAsBefore, _) => {
                // A resource that is kept as before wakes nobody each time that it is tried again.
                let is_excused = outcome == Outcome::KeptAsBefore;
                (fact.is_good, fact.has_failed, fact.is_excused) = (true, false, is_excused);
                return true;
            }
            _ => (fact.is_good, fact.has_failed, fact.is_excused) = (false, true, false),
        }
        false
    }

    fn acknowledge(&mut self, id: Id, visit: &Visited) -> Vec<Id> {
        let mut acknowledged = Vec::new();
        for source in visit.delivered.iter().copied() {
            let Some(it) = self.notifications.get_mut(&(id, source)) else { continue };
            if it.0.is_some_and(|sent| sent <= visit.began) {
                it.0 = None;
                acknowledged.push(source);
            }
        }
        self.notifications.retain(|_, it| it.0.is_some() || it.1);
        acknowledged
    }

    fn withdraw(&mut self, target: Id, source: Id) {
        self.notifications.entry((target, source)).or_default().1 = false;
        self.notifications.retain(|_, it| it.0.is_some() || it.1);
    }

    /// Returns how many visits do not wait for their answers, or for another one that acts for
    /// them.
    pub(super) fn working(&self) -> usize {
        let visits = self.facts.values().filter_map(|fact| fact.visit.as_ref());
        visits.filter(|visit| !visit.is_led).count() - self.asked.len()
    }

    /// Returns the resources that are to be visited and can be: the machine has forgotten them.
    pub(super) fn forgotten(&self) -> BTreeSet<Id> {
        let mut due: BTreeSet<Id> = self.facts.keys().copied().collect();
        due.retain(|id| {
            let fact = &self.facts[id];
            let is_due = fact.has_worker && fact.request.is_some() && fact.visit.is_none();
            is_due && !self.is_unsettled_before(*id)
        });
        due
    }

    /// Returns whether nothing is to be done before the next event.
    pub(super) fn is_at_rest(&self) -> bool {
        let mut facts = self.facts.values();
        facts.all(|fact| fact.visit.is_none() && !fact.is_at_work()) && self.forgotten().is_empty()
    }

    /// Returns the notifications, as target and source, that were sent and can be delivered,
    /// although no visit of the target is to come and no visit answers them.
    pub(super) fn undelivered(&self) -> BTreeSet<(Id, Id)> {
        let mut undelivered = BTreeSet::new();
        for ((target, source), (sent, _)) in &self.notifications {
            let Some(fact) = self.facts.get(target) else { continue };
            // A resource that has failed is tried again, and one that is held back goes on later.
            let is_to_come = fact.request == Some(Reason::Change)
                || fact.has_failed
                || fact.is_held_back
                || !fact.has_worker;
            let answers = |visit: &Visited| {
                visit.delivered.contains(source) && sent.is_some_and(|sent| sent <= visit.began)
            };
            let is_answered = fact.visit.as_ref().is_some_and(answers);
            if self.can_deliver(*target, *source) && !is_to_come && !is_answered {
                undelivered.insert((*target, *source));
            }
        }
        undelivered
    }

    /// Returns whether a resource may be named as the one that holds back another one.
    pub(super) fn may_hold_back(&self, id: Id, by: Id) -> bool {
        self.site.all_needs(id).contains(&by) && self.facts[&by].is_failing()
    }
}
