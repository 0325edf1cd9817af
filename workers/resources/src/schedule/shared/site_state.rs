//! The schedule of a site that is kept, and the state that belongs to it under the same lock.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::declare::declaration::Declaration;
use crate::declare::order::Order;
use crate::kind::kinds::Kinds;
use crate::report::released::Released;
use crate::report::tally::Tally;
use crate::schedule::asking::Questions;
use crate::schedule::declared::graph;
use crate::schedule::shared::entries::Entries;
use crate::schedule::shared::rest::Rest;
use crate::schedule::shared::unanswered::Unanswered;
use crate::schedule::{Graph, Id, Machine, Policy};
use crate::state::facilities::Facilities;
use crate::state::{Position, Records};

mod commands;
mod worker;

/// The state of the resources of a site.
#[derive(Debug)]
pub(crate) struct SiteState {
    machine: Machine,
    entries: Entries,
    questions: Questions,
    /// The content of each unanswered notification, by target and source. The content of those that
    /// an earlier agent has left is not known.
    notices: HashMap<(Id, Id), Unanswered>,
    /// The records of the site, once there is one.
    records: Option<Records>,
    /// The position of the last record of the schedule.
    last_record: Position,
    /// How many workers there were.
    workers: u64,
    /// How many resources wait only for their start.
    starting: usize,
    /// How many new states there were.
    states: u64,
    /// The resources that were last released.
    released: Vec<Released>,
}

impl Default for SiteState {
    fn default() -> Self {
        Self {
            machine: Machine::new(Policy::keep(), Graph::default(), []),
            entries: Entries::default(),
            questions: Questions::default(),
            notices: HashMap::new(),
            records: None,
            last_record: Position::default(),
            workers: 0,
            starting: 0,
            states: 0,
            released: Vec::new(),
        }
    }
}

impl SiteState {
    /// Takes over the resources of a site, and forgets all others.
    pub(super) fn connect(
        &mut self,
        (order, declarations): (&Order, &[Declaration]),
        kinds: &Kinds,
        facilities: &Facilities,
        fresh: &[&str],
    ) {
        let before = self.entries.resources();
        before.iter().for_each(|id| self.entries.get_mut(*id).is_resource = false);
        let mut numbers = Vec::with_capacity(declarations.len());
        for declaration in declarations {
            let id = self.entries.number(&declaration.name);
            let entry = self.entries.get_mut(id);
            entry.is_resource = true;
            entry.is_put_back = declaration.is_put_back();
            entry.count.declare(&declaration.kind, &declaration.tags);
            numbers.push(id);
        }
        let fresh: Vec<Id> = fresh.iter().filter_map(|name| self.entries.resource(name)).collect();
        let gone = before.iter().filter(|id| !self.entries.get(**id).is_resource);
        for id in gone.chain(&fresh).copied().collect::<Vec<_>>() {
            self.entries.get_mut(id).forget();
        }
        self.entries.end_waits_of_others();
        let graph = graph(order, declarations, kinds, |node| numbers[node]);
        let on_record = self.on_record(facilities.records());
        if self.records.replace(facilities.records().clone()).is_some() {
            self.machine.swap(graph, &fresh, &[]);
            self.take_over_notices(&on_record);
        } else {
            self.machine = Machine::new(Policy::keep(), graph, on_record);
        }
        self.forget_lost();
        self.count_missing();
        self.released.retain(|released| self.entries.resource(&released.name).is_none());
    }

    /// Returns the notifications that are on record, as target and source.
    fn on_record(&mut self, records: &Records) -> BTreeSet<(Id, Id)> {
        let mut number = |name: &str| self.entries.number(name);
        records.look(|loaded| {
            let pending = loaded.pending.iter();
            pending.map(|it| (number(&it.target), number(&it.source))).collect()
        })
    }

    /// Forgets the notifications of resources that have left the site, as the record did, and
    /// notifies the resources to which the record hands them over.
    fn take_over_notices(&mut self, on_record: &BTreeSet<(Id, Id)>) {
        let pending: BTreeSet<(Id, Id)> = self.machine.pending().collect();
        for (target, source) in &pending - on_record {
            if !self.machine.graph().contains(target) {
                self.machine.forget(target, source);
            }
        }
        for (target, source) in on_record - &pending {
            self.machine.notify(target, source);
        }
    }

    /// Forgets the notifications that are not pending any more, the numbers to which nothing
    /// refers, and the questions of visits that were given up.
    fn forget_lost(&mut self) {
        let pending: HashSet<(Id, Id)> = self.machine.pending().collect();
        self.notices.retain(|pair, _| pending.contains(pair));
        let meant: HashSet<Id> = pending.iter().flat_map(|(one, other)| [*one, *other]).collect();
        self.entries.free(|id| meant.contains(&id));
        self.questions.refuse_lost(&self.machine);
    }

    /// Counts anew how many states each resource waits for.
    fn count_missing(&mut self) {
        self.starting = 0;
        for id in self.machine.graph().ids() {
            let needs = self.machine.graph().needs(*id).iter();
            let missing = needs.filter(|used| self.entries.get(**used).state.is_none()).count();
            let entry = self.entries.get_mut(*id);
            entry.missing = missing;
            self.starting += usize::from(entry.is_starting());
        }
    }

    pub(super) fn redeclare(&mut self, name: &str) {
        if let Some(id) = self.entries.resource(name) {
            self.machine.redeclare(id);
        }
    }

    /// Notifies one resource, for a reason that is no resource. Returns the records, and the
    /// position up to which they are to be on disk; none if there is no such resource.
    pub(super) fn notify(&mut self, target: &str, source: &str) -> Option<(Records, Position)> {
        let target = self.entries.resource(target)?;
        let source = self.entries.number(source);
        self.machine.notify(target, source);
        self.take_commands();
        Some((self.records.clone()?, self.last_record))
    }

    /// Returns whether nothing is to be done before the next event.
    pub(super) fn rest(&self) -> Rest {
        match (self.machine.is_at_rest(), self.starting) {
            (false, _) => Rest::AtWork,
            (true, 0) => Rest::AtRest,
            (true, _) => Rest::Starting,
        }
    }

    /// Returns how many new states there were.
    pub(super) fn states(&self) -> u64 {
        self.states
    }

    /// Notes the resources that were released, if there are any.
    pub(super) fn note_released(&mut self, released: Vec<Released>) {
        if !released.is_empty() {
            self.released = released;
        }
    }

    /// Returns how the resources have fared.
    pub(crate) fn tally(&self) -> Tally {
        let resources = self.entries.resources().into_iter().map(|id| {
            let entry = self.entries.get(id);
            let held_back_by = entry.held_back_by.as_ref().map(ToString::to_string);
            (entry.name.to_string(), entry.count.tally(held_back_by))
        });
        Tally { resources: resources.collect(), released: self.released.clone() }
    }
}
