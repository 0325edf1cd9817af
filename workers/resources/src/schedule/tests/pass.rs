//! Random passes over random sites, judged from scratch.

use std::collections::{BTreeMap, BTreeSet};

use super::random::{Random, number};
use super::sites::Site;
use crate::schedule::{
    Answer, Command, Ending, Id, Machine, Outcome, Policy, Reason, Record, Standing, Ticket,
};

/// How many passes there are, unless `CRANKCASE_SCHEDULE_STEPS` asks for more: one for a hundred
/// steps.
const PASSES: u64 = 2_000;

/// The fate of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fared {
    Visited(Outcome),
    HeldBack,
}

/// The acts of a visit of a resource.
#[derive(Debug, Clone, Copy)]
struct Habit {
    fails: bool,
    /// How many actions it takes.
    actions: usize,
    key: Option<u64>,
}

#[derive(Debug, Clone)]
struct Visiting {
    step: Step,
    actions: usize,
    has_acted: bool,
    /// Another one has acted for it, with success.
    is_acted_for: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Look,
    /// It waits for the answer, with the key of its group.
    Asked(Option<u64>),
    Act,
    /// Another one acts for it.
    Led(Ticket),
    /// Another one has acted for it, or has failed to.
    Follow,
    /// Another one has acted for it, and it has a slot again.
    Verify,
}

#[derive(Debug, Default)]
struct Counts {
    steps: u64,
    shared: u64,
    skipped: u64,
    dropped: u64,
    delivered: u64,
}

#[derive(Debug)]
struct Pass<'a> {
    random: Random,
    site: Site,
    policy: Policy,
    machine: Machine,
    habits: BTreeMap<Id, Habit>,
    visits: BTreeMap<Ticket, Visiting>,
    ends: BTreeMap<Id, Fared>,
    /// The resources that have begun an action.
    acted: BTreeSet<Id>,
    /// The notifications that an earlier run has left, as target and source.
    left: BTreeSet<(Id, Id)>,
    disk: BTreeSet<(Id, Id)>,
    counts: &'a mut Counts,
}

impl<'a> Pass<'a> {
    fn new(seed: u64, counts: &'a mut Counts) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(8);
        let site = Site::random(&mut random, count);
        let policy = Policy::pass(1 + random.below(4));
        let mut habit = |_| Habit {
            fails: random.chance(15),
            actions: [0, 1, 1, 2][random.below(4)],
            key: random.chance(80).then(|| u64::from(random.chance(30))),
        };
        let habits = site.ids.iter().map(|id| (*id, habit(id))).collect();
        let mut left: BTreeSet<(Id, Id)> = BTreeSet::new();
        for (source, target) in &site.notifications {
            if random.chance(20) {
                left.insert((*target, *source));
            }
        }
        Self {
            machine: Machine::new(policy, site.graph(), left.iter().copied()),
            disk: left.clone(),
            visits: BTreeMap::new(),
            ends: BTreeMap::new(),
            acted: BTreeSet::new(),
            random,
            site,
            policy,
            habits,
            left,
            counts,
        }
    }

    fn live(&mut self) {
        loop {
            if self.can_go_on().is_empty() || self.random.chance(70) {
                self.take_commands();
            }
            let tickets = self.can_go_on();
            if tickets.is_empty() {
                break;
            }
            self.counts.steps += 1;
            if self.random.chance(3) {
                self.drop_one();
            }
            if self.random.chance(3) {
                // Something changes meanwhile. That is no reason for a second visit.
                let place = self.random.below(self.site.ids.len());
                self.machine.request(self.site.ids[place], Reason::Change);
            } else {
                let ticket = tickets[self.random.below(tickets.len())];
                self.go_on(ticket);
            }
        }
        assert!(self.visits.is_empty(), "I9: all wait for each other: {:?}", self.visits);
        assert!(self.machine.is_at_rest(), "I5: the pass does not end");
        assert_eq!(self.ends.len(), self.site.ids.len(), "I5: not all had their visit");
        for (id, fared) in &self.ends {
            let is_right = match self.machine.standing(*id) {
                Some(Standing::Good) => *fared == Fared::Visited(Outcome::Good),
                Some(Standing::HeldBack(_)) => *fared == Fared::HeldBack,
                Some(Standing::Failed) => matches!(fared, Fared::Visited(_)),
                Some(Standing::AtWork | Standing::Absent) | None => false,
            };
            assert!(is_right, "I11: {id:?} has fared {fared:?}");
        }
        let pending: BTreeSet<(Id, Id)> = self.machine.pending().collect();
        assert_eq!(pending, self.disk, "I6: the store is not as the machine");
    }

    fn can_go_on(&self) -> Vec<Ticket> {
        let visits = self.visits.iter().filter(|(_, visit)| match visit.step {
            Step::Asked(_) | Step::Led(_) => false,
            Step::Look | Step::Act | Step::Follow | Step::Verify => true,
        });
        visits.map(|(it, _)| *it).collect()
    }

    // Events.

    fn go_on(&mut self, ticket: Ticket) {
        let habit = self.habits[&ticket.id];
        let visit = self.visits.get_mut(&ticket).expect("it is visited");
        match visit.step {
            Step::Look if visit.actions > 0 => {
                visit.step = Step::Asked(habit.key);
                self.machine.ask(ticket, habit.key);
            }
            Step::Look if habit.fails => self.report(ticket, Outcome::CannotLook),
            Step::Look => self.report(ticket, Outcome::Good),
            Step::Act => {
                (visit.actions, visit.has_acted) = (visit.actions - 1, true);
                let has_failed = habit.fails;
                self.has_acted_for(ticket, has_failed);
                if has_failed {
                    self.report(ticket, Outcome::Failed);
                } else {
                    self.act_more(ticket);
                }
            }
            Step::Follow => {
                visit.step = Step::Asked(None);
                self.machine.ask(ticket, None);
            }
            Step::Verify => self.act_more(ticket),
            Step::Asked(_) | Step::Led(_) => panic!("it waits"),
        }
    }

    /// Asks for the next action, or reports that there is none.
    fn act_more(&mut self, ticket: Ticket) {
        let visit = self.visits.get_mut(&ticket).expect("it is visited");
        visit.is_acted_for = false;
        if visit.actions > 0 {
            // No visit shares a later action: the group would wait for those that have left.
            visit.step = Step::Asked(None);
            self.machine.ask(ticket, self.habits[&ticket.id].key);
        } else {
            self.report(ticket, Outcome::Good);
        }
    }

    /// A visit has acted for the visits that it leads as well, or has failed to.
    fn has_acted_for(&mut self, leader: Ticket, has_failed: bool) {
        for visit in self.visits.values_mut().filter(|visit| visit.step == Step::Led(leader)) {
            (visit.step, visit.has_acted, visit.is_acted_for) = (Step::Follow, true, !has_failed);
            visit.actions -= usize::from(!has_failed);
        }
    }

    /// Drops a visit that waits for its answer, if there is one.
    fn drop_one(&mut self) {
        let waiting = |visit: &Visiting| matches!(visit.step, Step::Asked(_));
        let first = self.visits.iter().find(|(_, visit)| waiting(visit)).map(|(it, _)| *it);
        if let Some(ticket) = first {
            self.counts.dropped += 1;
            self.report(ticket, Outcome::Stopped);
        }
    }

    fn report(&mut self, ticket: Ticket, outcome: Outcome) {
        let visit = self.visits.remove(&ticket).expect("it is visited");
        self.ends.insert(ticket.id, Fared::Visited(outcome));
        if visit.has_acted {
            self.acted.insert(ticket.id);
        }
        let has_acted = visit.has_acted;
        let ending = Ending { has_acted, has_new_state: true, ..Ending::new(outcome) };
        self.machine.report(ticket, ending);
    }

    // Commands.

    fn take_commands(&mut self) {
        while let Some(command) = self.machine.next() {
            match command {
                Command::Visit { ticket, delivered, .. } => self.begin(ticket, &delivered),
                Command::Answer { tickets, answer } => self.answered(&tickets, answer),
                Command::Skip { id } => self.skip(id),
                Command::Wake { id } => panic!("I2: {id:?} was visited too early"),
                Command::Write(Record::Pending { target, source }) => {
                    self.disk.insert((target, source));
                }
                Command::Write(Record::Acknowledged { target, source }) => {
                    self.disk.remove(&(target, source));
                }
            }
        }
        assert_eq!(self.machine.miscount(), None, "I1: miscounted");
        let has_slot = self.working() < self.policy.slots;
        for id in &self.site.ids {
            let is_new = !self.has_ended(*id) && self.visits.keys().all(|it| it.id != *id);
            let is_due = self.site.before(*id).all(|before| self.has_ended(before));
            assert!(!(is_new && is_due && has_slot), "I5: {id:?} is not visited");
        }
        for (ticket, visit) in &self.visits {
            if let Step::Asked(key) = visit.step {
                let is_due = key.is_none() || self.is_complete(ticket.id);
                assert!(!has_slot || !is_due, "I9: {ticket:?} waits for nobody");
            }
        }
    }

    fn begin(&mut self, ticket: Ticket, delivered: &[Id]) {
        let id = ticket.id;
        let is_visited = self.visits.keys().any(|it| it.id == id);
        assert!(!self.has_ended(id) && !is_visited, "I8: {id:?} is visited twice");
        assert!(self.working() < self.policy.slots, "I10: {id:?} has no slot");
        for before in self.site.all_before(id) {
            assert!(self.has_ended(before), "I2: {id:?} is visited before {before:?}");
        }
        for used in self.site.all_needs(id) {
            let is_good = self.ends[&used] == Fared::Visited(Outcome::Good);
            assert!(is_good, "I8: {id:?} is visited, but {used:?} is failing");
        }
        let mut expected = Vec::new();
        for (source, target) in &self.site.notifications {
            let is_sent = self.acted.contains(source) || self.left.contains(&(*target, *source));
            let is_good = self.ends.get(source) == Some(&Fared::Visited(Outcome::Good));
            if *target == id && is_sent && is_good {
                expected.push(*source);
            }
        }
        assert_eq!(*delivered, expected, "I7: delivered to {id:?}");
        self.counts.delivered += delivered.len() as u64;
        let least = usize::from(!delivered.is_empty());
        let actions = self.habits[&id].actions.max(least);
        let visit = Visiting { step: Step::Look, actions, has_acted: false, is_acted_for: false };
        self.visits.insert(ticket, visit);
    }

    fn answered(&mut self, tickets: &[Ticket], answer: Answer) {
        assert!(self.working() < self.policy.slots, "I10: {tickets:?} have no slot");
        assert_eq!(answer, Answer::Act, "I3: nothing before {tickets:?} is unsettled or failing");
        let mut members = tickets.to_vec();
        members.sort();
        assert_eq!(members, self.group(tickets[0]), "I9: who acts together");
        self.counts.shared += u64::from(tickets.len() > 1);
        for ticket in tickets {
            let visit = self.visits.get_mut(ticket).expect("I4: the answer is for a visit");
            assert!(matches!(visit.step, Step::Asked(_)), "I4: {ticket:?} has not asked");
            visit.step = if visit.is_acted_for {
                Step::Verify
            } else if *ticket == tickets[0] {
                Step::Act
            } else {
                Step::Led(tickets[0])
            };
            for target in self.site.notifies(ticket.id) {
                let is_on_disk = self.disk.contains(&(target, ticket.id));
                assert!(is_on_disk, "I6: {target:?} of {ticket:?} is not on record");
            }
        }
    }

    /// Returns the visits that an action has to be for, if it is for this visit.
    fn group(&self, ticket: Ticket) -> Vec<Ticket> {
        let Step::Asked(Some(key)) = self.visits[&ticket].step else { return vec![ticket] };
        let Some(class) = self.class(ticket.id) else { return vec![ticket] };
        assert!(self.is_complete(ticket.id), "I9: {ticket:?} acts before others have asked");
        let mut group: Vec<Ticket> = self.visits.keys().copied().collect();
        group.retain(|it| {
            self.visits[it].step == Step::Asked(Some(key)) && self.class(it.id) == Some(class)
        });
        group
    }

    /// Returns whether all resources of the kind and depth of a resource have asked or ended.
    fn is_complete(&self, id: Id) -> bool {
        let Some(class) = self.class(id) else { return true };
        let mut others = self.site.ids.iter().filter(|other| self.class(**other) == Some(class));
        others.all(|other| {
            let mut visits = self.visits.iter().filter(|(ticket, _)| ticket.id == *other);
            self.has_ended(*other) || visits.any(|(_, visit)| visit.step != Step::Look)
        })
    }

    fn class(&self, id: Id) -> Option<(u32, usize)> {
        Site::kind(id).map(|kind| (kind, self.site.depth(id)))
    }

    fn skip(&mut self, id: Id) {
        self.counts.skipped += 1;
        let Some(Standing::HeldBack(by)) = self.machine.standing(id) else {
            panic!("I8: {id:?} is skipped")
        };
        assert!(self.site.all_needs(id).contains(&by), "I11: {id:?} does not need {by:?}");
        let has_failed = !matches!(self.ends[&by], Fared::Visited(Outcome::Good) | Fared::HeldBack);
        assert!(has_failed, "I11: {id:?} is held back by {by:?}, which has not failed");
        self.ends.insert(id, Fared::HeldBack);
    }

    fn has_ended(&self, id: Id) -> bool {
        self.ends.contains_key(&id)
    }

    /// Returns how many visits have a slot.
    fn working(&self) -> usize {
        let has_slot =
            |visit: &&Visiting| !matches!(visit.step, Step::Asked(_) | Step::Led(_) | Step::Follow);
        self.visits.values().filter(has_slot).count()
    }
}

#[test]
fn every_invariant_holds_in_random_passes() {
    let mut counts = Counts::default();
    if let Some(seed) = number("CRANKCASE_SEED") {
        return Pass::new(seed, &mut counts).live();
    }
    let wanted = number("CRANKCASE_SCHEDULE_STEPS").map_or(PASSES, |steps| steps / 100);
    for seed in 0..wanted {
        Pass::new(seed, &mut counts).live();
    }
    println!("{counts:?}");
    let rare = [counts.shared, counts.skipped, counts.dropped, counts.delivered];
    let has_all = rare.iter().all(|count| *count > 20);
    assert!(has_all || wanted < PASSES, "the passes do not reach everything: {counts:?}");
}
