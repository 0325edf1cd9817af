//! The machine of the schedule: events in, commands out.
//!
//! The module `schedule` has the words and the invariants (I1 to I11).

mod carrying;
mod questions;
mod sending;
mod visits;

use std::collections::{BTreeSet, VecDeque};

use super::graph::Graph;
use super::groups::{Group, Groups};
use super::id::{Id, Table};
use super::interface::{
    Answer, Because, Command, Ending, Outcome, Policy, Reason, Record, Reported, Ticket,
};
use super::node::{Condition, Node};
use super::notifications::Notifications;

/// Decides which resources are visited when, and which visits may act.
#[derive(Debug)]
pub(crate) struct Machine {
    policy: Policy,
    graph: Graph,
    /// As long as the graph. Numbers that belong to no resource have default values.
    nodes: Table<Node>,
    /// The ranks of the resources whose visits may begin.
    ready: BTreeSet<usize>,
    groups: Groups,
    notifications: Notifications,
    commands: VecDeque<Command>,
    /// The number of the last visit.
    last_visit: u64,
    /// How many visits are under way.
    visited: usize,
    /// How many of them have a slot.
    working: usize,
    /// How many resources are at work.
    at_work: usize,
    /// How many resources have failed.
    failed: usize,
}

impl Machine {
    /// Makes the machine of a site. `pending` are the notifications of the store, as target and
    /// source; they were all sent.
    pub(crate) fn new(
        policy: Policy,
        graph: Graph,
        pending: impl IntoIterator<Item = (Id, Id)>,
    ) -> Self {
        let mut notifications = Notifications::default();
        for (target, source) in pending {
            notifications.send(target, source);
        }
        let mut machine = Self {
            policy,
            graph: Graph::default(),
            nodes: Table::new(0),
            ready: BTreeSet::new(),
            groups: Groups::default(),
            notifications,
            commands: VecDeque::new(),
            last_visit: 0,
            visited: 0,
            working: 0,
            at_work: 0,
            failed: 0,
        };
        machine.swap(graph, &[], &[]);
        if policy.is_one_pass {
            machine.begin_pass();
        }
        machine
    }

    /// Requests a visit of every resource, which all have workers.
    fn begin_pass(&mut self) {
        for id in self.graph.ids() {
            let (node, class) = (&mut self.nodes[*id], self.graph.class(*id));
            (node.has_worker, node.request) = (true, Some(Reason::Change));
            node.is_awaited = class.is_some();
            class.into_iter().for_each(|class| self.groups.expect(class));
        }
        self.recount();
    }

    /// Takes the next command. The driver takes commands until there are none, under the same lock
    /// as the events before.
    pub(crate) fn next(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = self.commands.pop_front() {
                return Some(command);
            }
            let tickets = if self.has_slot() { self.groups.next() } else { None };
            if let Some(tickets) = tickets {
                self.answer(tickets);
            } else if !self.start() {
                return None;
            }
        }
    }

    /// Notes that a worker can visit the resource from now on. Requests a visit.
    pub(crate) fn attach(&mut self, id: Id) {
        if self.graph.contains(id) {
            self.nodes[id].has_worker = true;
            self.request_newer(id);
        }
    }

    /// Notes that the worker of the resource is gone, perhaps in the middle of a visit. In one pass
    /// there are no workers: a visit that is dropped reports that it was stopped.
    pub(crate) fn detach(&mut self, id: Id) {
        if !self.graph.contains(id) {
            return;
        }
        let node = &mut self.nodes[id];
        (node.has_worker, node.is_holding, node.is_held_back) = (false, false, false);
        let targets = self.give_up_visit(id);
        // A routine visit has not asked, so it has not acted.
        if self.nodes[id].request == Some(Reason::Change) {
            self.doubt(id);
        }
        for target in targets {
            self.send(target, id);
        }
        self.refresh(id);
    }

    /// Requests a visit: for a watch, a fact, a timer, or by hand.
    pub(crate) fn request(&mut self, id: Id, reason: Reason) {
        if !self.graph.contains(id) || self.nodes[id].is_done {
            return;
        }
        let node = &mut self.nodes[id];
        node.request = node.request.max(Some(reason));
        if !node.has_worker && reason == Reason::Change {
            self.doubt(id);
        }
        self.refresh(id);
    }

    /// Sends a notification of a rule. If there is no such target, it waits for a site that has one.
    /// It is put on record even if it is pending: the rule waits until the record is on disk (I6).
    pub(crate) fn notify(&mut self, target: Id, source: Id) {
        self.write(Record::Pending { target, source });
        self.send(target, source);
    }

    /// Forgets a notification whose target has left the site. It is on record no more.
    pub(crate) fn forget(&mut self, target: Id, source: Id) {
        self.notifications.forget(target, source);
        let visit = self.nodes.get_mut(source).and_then(|node| node.visit.as_mut());
        visit.into_iter().for_each(|visit| visit.targets.retain(|it| *it != target));
    }

    /// Asks whether a visit may act. The answer is a command.
    ///
    /// One action may be for all visits that ask with the same key, if their resources are of one
    /// kind and depth. Other resources wait from now on. A visit for which another one has acted
    /// asks again before it goes on, whatever the answer to that is: it has no slot.
    pub(crate) fn ask(&mut self, ticket: Ticket, key: Option<u64>) {
        let id = ticket.id;
        let Some(visit) = self.visit_mut(ticket).filter(|visit| !visit.is_waiting) else { return };
        (visit.reason, visit.is_waiting) = (Reason::Change, true);
        let had_slot = std::mem::take(&mut visit.has_slot);
        self.working -= usize::from(had_slot);
        let may_share = !self.policy.is_one_pass || self.nodes[id].is_awaited;
        let shared = self.graph.class(id).zip(key).filter(|_| may_share);
        let group = shared.map(|(class, key)| Group::Shared { class, key });
        self.groups.join(ticket, group.unwrap_or(Group::Alone(ticket)));
        self.leave_class(id);
        self.refresh(id);
    }

    /// Notes how a visit has ended. A new state was published before.
    pub(crate) fn report(&mut self, ticket: Ticket, ending: Ending) -> Reported {
        let Some(visit) = self.end_visit(ticket) else { return Reported::Ignored };
        let id = ticket.id;
        let before = self.nodes[id].condition;
        let node = &mut self.nodes[id];
        (node.is_holding, node.is_held_back) = (ending.is_holding, false);
        let can_be_excused = matches!(ending.outcome, Outcome::CannotLook | Outcome::KeptAsBefore);
        let is_excused = can_be_excused && self.excuse(id);
        let is_good = !is_excused && ending.outcome.is_good();
        match (ending.outcome, visit.answer) {
            _ if is_excused => {}
            (Outcome::Good, _) => {
                self.set_good(id);
                self.acknowledge(id, &visit);
            }
            (Outcome::LeftAlone, _) => self.set_good(id),
            (Outcome::KeptAsBefore, _) => self.keep_as_before(id),
            (Outcome::NotAllowed, Some(Answer::Again)) => {
                self.nodes[id].request = Some(Reason::Change);
            }
            (Outcome::NotAllowed, Some(Answer::HeldBack)) => self.hold_back(id),
            _ => self.set_failed(id),
        }
        for target in visit.targets {
            if ending.has_acted { self.send(target, id) } else { self.withdraw(target, id) }
        }
        if is_good && ending.has_new_state {
            for after in self.graph.needed_by(id).to_vec() {
                self.note_because(after, Because::NewState(id));
                self.request_newer(after);
            }
        }
        if is_good && before != Condition::Good {
            self.deliver_from(id);
        }
        if is_good && (ending.has_acted || before == Condition::Failed) {
            self.wake_failed_after(id);
        }
        if self.policy.is_one_pass {
            self.nodes[id].finish();
        }
        // Only now: those after it would come to rest, and be unsettled again.
        self.refresh(id);
        self.leave_class(id);
        if is_excused { Reported::Excused } else { Reported::Counted }
    }

    /// Requests a visit, as the resource is declared in another way.
    pub(crate) fn redeclare(&mut self, id: Id) {
        self.request_newer(id);
    }

    /// Takes over the resources of another site. A resource that is `replaced` is another one, and
    /// has the number of an old one. A resource that is `redeclared` is the same, and is declared
    /// in another way. All resources that stay and are not replaced are kept with their visits.
    pub(crate) fn swap(&mut self, graph: Graph, replaced: &[Id], redeclared: &[Id]) {
        // The depths are others, and a path may join two that wait.
        self.groups.split();
        let gone = self.graph.ids().iter().filter(|id| !graph.contains(**id));
        let replaced = replaced.iter().filter(|id| self.graph.contains(**id));
        let mut targets = Vec::new();
        for id in gone.chain(replaced).copied().collect::<Vec<_>>() {
            targets.extend(self.give_up_visit(id).into_iter().map(|target| (target, id)));
            self.nodes[id] = Node::default();
        }
        self.nodes.resize(graph.len());
        // The number of a resource that is gone may mean another one soon.
        for node in self.nodes.values_mut() {
            node.because = node.because.filter(|because| graph.contains(because.id()));
        }
        self.graph = graph;
        self.recount();
        for (target, source) in targets {
            self.send(target, source);
        }
        redeclared.iter().for_each(|id| self.redeclare(*id));
        // The source that a notification waited for may not be there any more.
        for (target, source) in self.notifications.pending().collect::<Vec<_>>() {
            self.deliver(target, source);
        }
    }

    fn write(&mut self, record: Record) {
        self.commands.push_back(Command::Write(record));
    }
}
