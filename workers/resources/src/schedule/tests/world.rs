//! A site that is kept as declared, its workers and its store.
//!
//! It judges each command of the machine by the naive model and by what is true: the versions of
//! states that there are, the visits that have seen them, and the times at which sources have
//! acted.

mod commands;

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Fact, Model};
use super::random::Random;
use super::sites::Site;
use crate::schedule::{Ending, Id, Machine, Outcome, Policy, Reason, Record, Reported, Ticket};

/// The most resources of a site.
const COUNT: usize = 8;
/// A rule that notifies resources.
const RULE: Id = Id(100);

/// The truth about one resource, whatever the machine knows.
#[derive(Debug, Clone, Default)]
pub(super) struct Truth {
    pub(super) has_drifted: bool,
    /// It has drifted, and its watch has not reported that.
    pub(super) is_unreported: bool,
    pub(super) look_fails: bool,
    pub(super) action_fails: bool,
    /// It cannot be looked at while something that it needs has drifted.
    is_inside: bool,
    pub(super) is_noop: bool,
    /// It could not be made as declared, and is as it was before.
    pub(super) is_kept_as_before: bool,
    version: u64,
    /// The version that others see; none before its first good visit.
    published: Option<u64>,
    /// The versions that its last good visit has seen.
    last_seen: Versions,
    pub(super) visit: Option<Visiting>,
}

type Versions = BTreeMap<Id, Option<u64>>;

#[derive(Debug, Clone)]
pub(super) struct Visiting {
    ticket: Ticket,
    step: Step,
    seen: Versions,
    delivered: Vec<Id>,
    /// The resources that its actions notify.
    targets: Vec<Id>,
    has_acted: bool,
    /// Another one has acted for it, with success.
    is_acted_for: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Look,
    Asked,
    /// It acts this many times more.
    Act(usize),
    /// Another one acts for it.
    Led(Ticket),
    End(Outcome),
}

/// How often each thing has happened.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) steps: u64,
    pub(super) visits: u64,
    pub(super) acts: u64,
    pub(super) again: u64,
    pub(super) held_back: u64,
    pub(super) shared: u64,
    pub(super) split: u64,
    pub(super) delivered: u64,
    pub(super) crashes: u64,
    pub(super) swaps: u64,
    pub(super) stops: u64,
    pub(super) excused: u64,
    pub(super) kept_as_before: u64,
    pub(super) rests: u64,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) random: Random,
    policy: Policy,
    pub(super) machine: Machine,
    pub(super) model: Model,
    pub(super) truths: BTreeMap<Id, Truth>,
    /// By target and source: the time at which the source has last acted, if that is not
    /// acknowledged.
    pub(super) debts: BTreeMap<(Id, Id), u64>,
    /// The notifications that may be delivered without a debt: left in the store by a crash, or
    /// without effect.
    pub(super) free: BTreeSet<(Id, Id)>,
    /// The notifications on disk.
    pub(super) disk: BTreeSet<(Id, Id)>,
    /// The records that are not on disk yet.
    pub(super) tail: Vec<Record>,
    /// Visits that were given up, and may not know it.
    lost: Vec<Ticket>,
    /// Set while the driver takes no commands: all events are of one step.
    is_in_step: bool,
    pub(super) counts: Counts,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let site = Site::random(&mut random, COUNT);
        let slots = if random.chance(30) { 1 + random.below(3) } else { usize::MAX };
        let policy = Policy { slots, ..Policy::keep() };
        let mut world = Self {
            machine: Machine::new(policy, site.graph(), []),
            policy,
            model: Model { site, ..Model::default() },
            truths: BTreeMap::new(),
            debts: BTreeMap::new(),
            free: BTreeSet::new(),
            disk: BTreeSet::new(),
            tail: Vec::new(),
            lost: Vec::new(),
            is_in_step: false,
            counts: Counts::default(),
            random,
        };
        world.settle_in();
        world.site().ids.clone().into_iter().for_each(|id| world.attach(id));
        world
    }

    pub(super) fn site(&self) -> &Site {
        &self.model.site
    }

    pub(super) fn truth(&mut self, id: Id) -> &mut Truth {
        self.truths.get_mut(&id).expect("a resource of the site")
    }

    /// Makes up the truth about resources that are new.
    fn settle_in(&mut self) {
        for id in self.site().ids.clone() {
            let truth = Truth {
                has_drifted: self.random.chance(50),
                is_inside: self.random.chance(40),
                is_noop: self.random.chance(10),
                ..Truth::default()
            };
            self.truths.entry(id).or_insert(truth);
            self.model.facts.entry(id).or_default();
        }
    }

    // Events.

    /// Ends an event. Often the driver takes the commands then; otherwise more events of the same
    /// step follow.
    fn end_event(&mut self) {
        self.model.end_holds();
        if !self.is_in_step && self.random.chance(60) {
            self.take_commands();
        }
    }

    /// Makes something happen to all resources in one step.
    pub(super) fn together(&mut self, mut event: impl FnMut(&mut Self, Id)) {
        self.is_in_step = true;
        self.site().ids.clone().into_iter().for_each(|id| event(self, id));
        self.is_in_step = false;
        self.end_event();
    }

    pub(super) fn attach(&mut self, id: Id) {
        self.model.attach(id);
        self.machine.attach(id);
        self.end_event();
    }

    pub(super) fn detach(&mut self, id: Id) {
        let lost = self.truth(id).visit.take();
        self.lost.extend(lost.map(|visit| visit.ticket));
        // It may have acted, or not.
        let targets = self.model.detach(id);
        self.free.extend(targets.into_iter().map(|target| (target, id)));
        self.machine.detach(id);
        self.end_event();
    }

    /// A visit that was given up asks and reports.
    pub(super) fn lost_visit_speaks(&mut self) {
        let Some(ticket) = self.lost.pop() else { return };
        let before = format!("{:?}", self.machine);
        self.machine.ask(ticket, None);
        self.machine.report(ticket, Ending { has_acted: true, ..Ending::new(Outcome::Failed) });
        assert!(format!("{:?}", self.machine) == before, "I4: {ticket:?} has an effect");
    }

    pub(super) fn request(&mut self, id: Id, reason: Reason) {
        self.model.request(id, reason);
        self.machine.request(id, reason);
        self.end_event();
    }

    pub(super) fn drift(&mut self, id: Id) {
        let truth = self.truth(id);
        (truth.has_drifted, truth.is_unreported) = (true, true);
        if self.random.chance(50) {
            self.watch_reports(id);
        }
    }

    pub(super) fn watch_reports(&mut self, id: Id) {
        self.truth(id).is_unreported = false;
        self.request(id, Reason::Change);
    }

    /// A rule notifies a resource, which may come with another site.
    pub(super) fn rule_notifies(&mut self) {
        let target = Id(self.random.below(COUNT));
        self.model.now += 1;
        self.debts.insert((target, RULE), self.model.now);
        self.model.send(target, RULE);
        self.machine.notify(target, RULE);
        self.end_event();
        // The rule goes on when it is on disk.
        self.take_commands();
        self.flush();
    }

    pub(super) fn swap(&mut self) {
        self.counts.swaps += 1;
        self.counts.split += u64::from(self.model.asked.len() > 1);
        let (old, new) = (self.site().clone(), Site::random(&mut self.random, COUNT));
        let kept: Vec<Id> = old.ids.iter().copied().filter(|id| new.has(*id)).collect();
        let (mut replaced, mut redeclared) = (Vec::new(), Vec::new());
        for id in kept {
            let has_other_needs = !new.needs(id).eq(old.needs(id));
            if self.random.chance(if has_other_needs { 50 } else { 10 }) {
                replaced.push(id);
            } else if has_other_needs || self.random.chance(30) {
                redeclared.push(id);
            }
        }
        let graph = new.graph();
        for id in old.ids.iter().copied().filter(|id| !new.has(*id) || replaced.contains(id)) {
            let lost = self.truths.remove(&id).and_then(|truth| truth.visit);
            self.lost.extend(lost.map(|visit| visit.ticket));
            // Another resource of this number may come.
            self.debts.retain(|(target, _), _| *target != id);
        }
        let sent = self.model.swap(new, &replaced, &redeclared);
        self.free.extend(self.model.notifications.keys().copied().chain(sent));
        self.settle_in();
        self.machine.swap(graph, &replaced, &redeclared);
        self.end_event();
    }

    /// The agent is killed. Some of what was not flushed may be on disk.
    pub(super) fn crash(&mut self) {
        self.counts.crashes += 1;
        let left = self.random.below(self.tail.len() + 1);
        self.tail.truncate(left);
        self.flush();
        self.restart();
    }

    /// The agent is told to stop. Visits end or are dropped; then the next agent comes.
    pub(super) fn stop(&mut self) {
        self.counts.stops += 1;
        for id in self.site().ids.clone() {
            for _ in 0..4 {
                if self.random.chance(80) {
                    self.go_on(id);
                }
            }
            self.detach(id);
        }
        self.take_commands();
        assert!(self.machine.is_at_rest(), "I5: not at rest after a stop");
        self.flush();
        self.restart();
    }

    fn restart(&mut self) {
        self.lost.clear();
        for truth in self.truths.values_mut() {
            truth.visit = None;
        }
        let facts = self.site().ids.iter().map(|id| (*id, Fact::default())).collect();
        let sent = self.disk.iter().map(|key| (*key, (Some(0), false))).collect();
        self.model = Model {
            facts,
            notifications: sent,
            asked: Vec::new(),
            open: BTreeMap::new(),
            ..std::mem::take(&mut self.model)
        };
        self.free.extend(self.disk.iter().copied());
        let graph = self.site().graph();
        self.machine = Machine::new(self.policy, graph, self.disk.iter().copied());
        for (target, source) in self.disk.clone() {
            if self.model.can_deliver(target, source) {
                self.model.request_newer(target);
            }
        }
        self.end_event();
    }

    pub(super) fn flush(&mut self) {
        for record in std::mem::take(&mut self.tail) {
            match record {
                Record::Pending { target, source } => self.disk.insert((target, source)),
                Record::Acknowledged { target, source } => self.disk.remove(&(target, source)),
            };
        }
    }

    // The steps of a visit.

    pub(super) fn go_on(&mut self, id: Id) {
        self.model.now += 1;
        let Some(visit) = self.truths[&id].visit.clone() else { return };
        match visit.step {
            Step::Look => self.look(id, visit),
            Step::Asked => {}
            Step::Act(left) => self.act(id, visit, left),
            Step::Led(by) => self.follow(id, visit, by),
            Step::End(outcome) => self.report(id, &visit, outcome),
        }
    }

    fn look(&mut self, id: Id, mut visit: Visiting) {
        let truth = &self.truths[&id];
        let is_away = |used: Id| self.truths[&used].has_drifted && !self.truths[&used].is_noop;
        let cannot = truth.look_fails || truth.is_inside && self.site().needs(id).any(is_away);
        let has_seen = visit.seen == truth.last_seen && visit.delivered.is_empty();
        let was_good = truth.published.is_some();
        let is_kept = cannot && was_good && self.random.chance(20);
        let truth = &self.truths[&id];
        visit.step = match () {
            () if is_kept => Step::End(Outcome::KeptAsBefore),
            () if cannot => Step::End(Outcome::CannotLook),
            () if truth.is_noop => Step::End(Outcome::LeftAlone),
            () if has_seen && !truth.has_drifted => Step::End(Outcome::Good),
            () => Step::Asked,
        };
        let (step, ticket) = (visit.step, visit.ticket);
        self.truth(id).visit = Some(visit);
        if step == Step::Asked {
            let key = self.random.chance(80).then(|| u64::from(self.random.chance(20)));
            self.ask(ticket, key);
        }
    }

    fn ask(&mut self, ticket: Ticket, key: Option<u64>) {
        let shared = key.zip(Site::kind(ticket.id));
        let group = shared.map(|(key, kind)| (kind, self.site().depth(ticket.id), key));
        self.model.ask(ticket, group);
        self.machine.ask(ticket, key);
        self.end_event();
    }

    /// Returns whether a resource is visited, and its visit does not wait.
    pub(super) fn can_go_on(&self, id: Id) -> bool {
        self.truths[&id].visit.as_ref().is_some_and(|visit| match visit.step {
            Step::Asked => false,
            Step::Led(by) => !self.acts(by),
            Step::Look | Step::Act(_) | Step::End(_) => true,
        })
    }

    fn acts(&self, ticket: Ticket) -> bool {
        let visit = self.truths.get(&ticket.id).and_then(|truth| truth.visit.as_ref());
        visit.is_some_and(|visit| visit.ticket == ticket && matches!(visit.step, Step::Act(_)))
    }

    /// Goes on after another one has acted, or will not.
    fn follow(&mut self, id: Id, mut visit: Visiting, by: Ticket) {
        if self.acts(by) {
            return;
        }
        visit.is_acted_for = visit.has_acted && self.random.chance(70);
        if visit.is_acted_for {
            self.succeed(id);
        }
        let (ticket, has_acted) = (visit.ticket, visit.has_acted);
        visit.step = if has_acted { Step::Asked } else { Step::End(Outcome::Stopped) };
        self.truth(id).visit = Some(visit);
        if has_acted {
            self.ask(ticket, None);
        }
    }

    /// An action begins.
    fn begin_action(&mut self, id: Id, visit: &mut Visiting) {
        visit.has_acted = true;
        for target in &visit.targets {
            assert!(
                self.disk.contains(&(*target, id)),
                "I6: {target:?} of {id:?} is not on record"
            );
            self.debts.insert((*target, id), self.model.now);
        }
    }

    /// The actions of a resource have repaired it.
    fn succeed(&mut self, id: Id) {
        let has_changed = self.random.chance(60);
        let truth = self.truth(id);
        (truth.has_drifted, truth.is_unreported) = (false, false);
        truth.version += u64::from(has_changed);
    }

    fn act(&mut self, id: Id, mut visit: Visiting, left: usize) {
        self.begin_action(id, &mut visit);
        for other in self.site().ids.clone() {
            let led = self.truths[&other].visit.clone();
            if let Some(mut led) = led.filter(|led| led.step == Step::Led(visit.ticket)) {
                self.begin_action(other, &mut led);
                self.truth(other).visit = Some(led);
            }
        }
        visit.step = if left > 0 {
            Step::Act(left - 1)
        } else if self.truths[&id].action_fails {
            Step::End(Outcome::Failed)
        } else {
            self.succeed(id);
            Step::End(Outcome::Good)
        };
        self.truth(id).visit = Some(visit);
    }

    fn report(&mut self, id: Id, visit: &Visiting, outcome: Outcome) {
        let mut ending = Ending { has_acted: visit.has_acted, ..Ending::new(outcome) };
        let truth = self.truth(id);
        truth.visit = None;
        if matches!(outcome, Outcome::Good | Outcome::LeftAlone) {
            let version = Some(truth.version);
            ending.has_new_state = std::mem::replace(&mut truth.published, version) != version;
            truth.last_seen.clone_from(&visit.seen);
            ending.is_holding = self.random.chance(3);
        }
        let began = self.model.facts[&id].visit.as_ref().map_or(0, |visit| visit.began);
        let (acknowledged, sent) = self.model.report(id, ending);
        for source in acknowledged {
            self.free.remove(&(id, source));
            if self.debts.get(&(id, source)).is_some_and(|at| *at < began) {
                self.debts.remove(&(id, source));
            }
        }
        // Without an edge any more the target may have looked before it is notified.
        self.free.extend(sent.into_iter().map(|target| (target, id)));
        let is_counted = self.machine.report(visit.ticket, ending) == Reported::Counted;
        let truth = self.truth(id);
        truth.is_kept_as_before = outcome == Outcome::KeptAsBefore && is_counted;
        if truth.is_kept_as_before {
            truth.last_seen.clone_from(&visit.seen);
            self.counts.kept_as_before += 1;
        }
        self.end_event();
    }
}
