use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crankcase_engine::Origin;
use tokio::sync::{Notify, watch};

use crate::context::Notice;
use crate::declaration::{Declaration, OnChange};
use crate::facilities::Notices;
use crate::observer::{Happened, LastEvent};
use crate::reconcile::state::State;
use crate::reconcile::tally::{Count, Tally};
use crate::released::Released;

pub(super) mod blocker;

/// The entries of a board, by the names of the resources.
#[derive(Debug, Default)]
pub(in crate::reconcile) struct Entries {
    by_name: HashMap<Arc<str>, Entry>,
    /// The names of those that are at work.
    at_work: watch::Sender<BTreeSet<Arc<str>>>,
    /// How many are not at rest.
    unsettled: usize,
    /// How many workers have had a seat.
    workers: u64,
    /// What was released last.
    released: Vec<Released>,
}

/// What is known of one resource.
#[derive(Debug, Default)]
struct Entry {
    /// The resources that it depends on.
    needs: Vec<Arc<str>>,
    /// The resources that depend on it.
    needed_by: Vec<Arc<str>>,
    /// The resources that notify it.
    notified_by: Vec<Arc<str>>,
    /// The resources that it notifies.
    notifies: Vec<Arc<str>>,
    standing: Standing,
    /// The resources that wait for this one.
    awaited_by: BTreeSet<Arc<str>>,
    /// The number of the worker that keeps it, if one does.
    worker: Option<u64>,
    wake: Arc<Notify>,
    /// Whether it was woken and has not looked since.
    has_news: bool,
    /// How often it was notified.
    told: u64,
    /// How many of these notifications it has answered.
    answered: u64,
    /// The notifications that it has not answered, by the resources that gave them, each with how often
    /// it had been notified by then.
    told_by: BTreeMap<Arc<str>, (u64, Notice)>,
    state: Option<State>,
    /// Whether it holds up the end of the run, though it is at rest.
    is_holding: bool,
    /// Why it was held back when it last wanted to act, until a look of it has ended: this resource had
    /// failed. Unlike its standing it stays while that one is tried again.
    held_back_by: Option<Arc<str>>,
    count: Count,
}

/// How a resource stands, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Standing {
    /// It has not been looked at since it was declared, or since something changed for it, and no
    /// worker has begun to.
    #[default]
    New,
    /// It was as declared, or left alone, when it was looked at last.
    AtRest,
    /// It has a reason to look, and has not looked yet.
    AtWork,
    /// It waits for a resource that is at work.
    Waiting,
    /// It is not as declared.
    Failed,
    /// It must not act, because this resource has failed.
    HeldBack(Arc<str>),
}

/// How a look at a resource has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reconcile) enum Ended {
    /// It is as declared.
    Well {
        /// Whether it had to be changed.
        is_changed: bool,
        /// Whether it holds up the end of the run all the same.
        is_holding: bool,
    },
    /// It is not as declared.
    Failed,
}

/// What a resource was notified of and has not answered.
#[derive(Debug)]
pub(in crate::reconcile) struct Told {
    count: u64,
    /// Who notified it, in order of their names.
    pub(in crate::reconcile) notices: Vec<Notice>,
}

impl Told {
    /// Returns at whose wish the resource does what it was told.
    pub(in crate::reconcile) fn origin(&self) -> Origin {
        let by: Vec<_> = self.notices.iter().map(|notice| notice.by.as_str()).collect();
        Origin::new(by.join(", "), "a change notifies it")
    }
}

impl Entries {
    /// Takes over the resources of a site, and forgets all others. One that is new here is told what
    /// an earlier agent has not.
    pub(super) fn connect(&mut self, declarations: &[Declaration], notices: &Notices) {
        let mut before = std::mem::take(&mut self.by_name);
        for declaration in declarations {
            let known = before.remove_entry(declaration.name.as_str());
            let (name, mut entry) = known.unwrap_or_else(|| {
                let notice = |by: &str| (0, Notice::new(by, Vec::new(), Arc::default()));
                let due = notices.due(&declaration.name);
                let told_by: BTreeMap<_, _> = due.by().map(|by| (by.into(), notice(by))).collect();
                let told = told_by.len() as u64;
                (declaration.name.as_str().into(), Entry { told, told_by, ..Entry::default() })
            });
            entry.unlink();
            entry.count.declare(&declaration.kind, &declaration.tags);
            self.by_name.insert(name, entry);
        }
        for declaration in declarations {
            for (used, on_change) in declaration.needs() {
                self.link(used, &declaration.name);
                if on_change == OnChange::Notify {
                    self.link_notice(used, &declaration.name);
                }
            }
            for notified in &declaration.notify {
                self.link_notice(&declaration.name, notified);
            }
        }
        self.released.retain(|released| !self.by_name.contains_key(&*released.name));
        let entries = self.by_name.values();
        self.unsettled = entries.filter(|entry| entry.standing != Standing::AtRest).count();
        let known = &self.by_name;
        self.at_work.send_if_modified(|names| {
            let count = names.len();
            names.retain(|name| known.contains_key(name));
            names.len() < count
        });
        // What they wait for may come before them no more.
        let is_held =
            |entry: &Entry| matches!(entry.standing, Standing::Waiting | Standing::HeldBack(_));
        let held = self.by_name.iter().filter(|(_, entry)| is_held(entry));
        // In order, so that a seed of a simulation replays.
        let held: BTreeSet<_> = held.map(|(name, _)| Arc::clone(name)).collect();
        self.wake_all(held);
    }

    /// Forgets what is known of a resource, in whose place another one of its name comes.
    pub(super) fn forget(&mut self, name: &str) {
        // The worker of the one before, which may still run, is of no effect any more.
        self.edit(name, |entry| {
            (entry.state, entry.worker, entry.is_holding) = (None, None, false);
            entry.held_back_by = None;
        });
        self.set(name, Standing::New);
    }

    /// Enters that `target` depends on `source`.
    fn link(&mut self, source: &str, target: &str) {
        if let Some((source, target)) = self.names(source, target) {
            self.edit(&source, |entry| entry.needed_by.push(Arc::clone(&target)));
            self.edit(&target, |entry| entry.needs.push(source));
        }
    }

    /// Enters that `source` notifies `target`.
    fn link_notice(&mut self, source: &str, target: &str) {
        if let Some((source, target)) = self.names(source, target) {
            self.edit(&source, |entry| entry.notifies.push(Arc::clone(&target)));
            self.edit(&target, |entry| entry.notified_by.push(source));
        }
    }

    fn names(&self, one: &str, other: &str) -> Option<(Arc<str>, Arc<str>)> {
        let (one, _) = self.by_name.get_key_value(one)?;
        let (other, _) = self.by_name.get_key_value(other)?;
        Some((Arc::clone(one), Arc::clone(other)))
    }

    fn edit<T>(&mut self, name: &str, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.by_name.get_mut(name).map(change)
    }

    pub(super) fn at_work(&self) -> watch::Receiver<BTreeSet<Arc<str>>> {
        self.at_work.subscribe()
    }

    /// Seats a worker at the entry of its resource; it is at work. Returns the worker's number and
    /// what wakes it.
    pub(in crate::reconcile) fn seat(&mut self, name: &str) -> (u64, Arc<Notify>) {
        self.workers += 1;
        let number = self.workers;
        let wake = self.edit(name, |entry| {
            entry.worker = Some(number);
            Arc::clone(&entry.wake)
        });
        self.set(name, Standing::AtWork);
        // A resource that is taken out at this moment has no entry any more.
        (number, wake.unwrap_or_default())
    }

    /// Returns whether this worker is the one that keeps the resource.
    pub(in crate::reconcile) fn is_kept_by(&self, name: &str, worker: u64) -> bool {
        self.by_name.get(name).is_some_and(|entry| entry.worker == Some(worker))
    }

    /// Takes the worker from its resource, which is not as declared if it owes an answer.
    pub(in crate::reconcile) fn leave(&mut self, name: &str) {
        let standing = self.edit(name, |entry| {
            (entry.worker, entry.is_holding, entry.held_back_by) = (None, false, None);
            match entry.standing {
                Standing::Failed => Standing::Failed,
                _ if entry.told > entry.answered => Standing::Failed,
                Standing::AtRest => Standing::AtRest,
                _ => Standing::New,
            }
        });
        self.set(name, standing.unwrap_or_default());
        self.show(name);
    }

    /// Says that a resource has a reason to look. One that has failed stays so until it has looked.
    pub(in crate::reconcile) fn begin(&mut self, name: &str) {
        let standing = self.by_name.get(name).map(|entry| &entry.standing);
        if standing.is_some_and(|standing| *standing != Standing::Failed) {
            self.set(name, Standing::AtWork);
        }
    }

    /// Gives a resource a reason to look.
    pub(super) fn wake(&mut self, name: &str) {
        let has_worker = self.edit(name, |entry| {
            entry.has_news = true;
            entry.wake.notify_one();
            entry.worker.is_some()
        });
        match has_worker {
            Some(true) => self.begin(name),
            Some(false) if self.stands(name, &Standing::AtRest) => self.set(name, Standing::New),
            _ => {}
        }
        if self.stands(name, &Standing::Failed)
            && let Some((key, _)) = self.by_name.get_key_value(name)
        {
            let key = Arc::clone(key);
            self.at_work.send_if_modified(|names| names.insert(key));
        }
    }

    fn stands(&self, name: &str, standing: &Standing) -> bool {
        self.by_name.get(name).is_some_and(|entry| entry.standing == *standing)
    }

    fn wake_all(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        names.into_iter().for_each(|name| self.wake(&name));
    }

    /// Returns what a resource was notified of and has not answered. It has seen all news then.
    pub(in crate::reconcile) fn look(&mut self, name: &str) -> Option<Told> {
        let told = self.edit(name, |entry| {
            entry.has_news = false;
            let notices = || entry.told_by.values().map(|(_, notice)| notice.clone()).collect();
            (entry.told > entry.answered).then(|| Told { count: entry.told, notices: notices() })
        });
        told.flatten()
    }

    /// Says that a resource has done what notifications meant.
    pub(in crate::reconcile) fn answer(&mut self, name: &str, told: &Told) {
        self.edit(name, |entry| {
            entry.answered = told.count;
            entry.told_by.retain(|_, (at, _)| *at > told.count);
        });
    }

    /// Returns the names of those that a resource notifies.
    pub(in crate::reconcile) fn notified(&mut self, name: &str) -> Vec<Arc<str>> {
        self.edit(name, |entry| entry.notifies.clone()).unwrap_or_default()
    }

    /// Notifies all that a resource which has changed notifies.
    pub(in crate::reconcile) fn tell(&mut self, notice: &Notice) {
        let Some((source, entry)) = self.by_name.get_key_value(&*notice.by) else { return };
        let (source, targets) = (Arc::clone(source), entry.notifies.clone());
        targets.iter().for_each(|target| self.tell_as(target, &source, notice));
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Notifies one resource, for a reason that is no resource; returns whether there is one.
    pub(super) fn tell_one(&mut self, target: &str, notice: &Notice) -> bool {
        let is_there = self.has(target);
        if is_there {
            self.tell_as(target, &notice.by.as_str().into(), notice);
        }
        is_there
    }

    fn tell_as(&mut self, target: &str, source: &Arc<str>, notice: &Notice) {
        let has_worker = self.edit(target, |entry| {
            entry.told += 1;
            let told_by = entry.told_by.entry(Arc::clone(source));
            let told_by = told_by.and_modify(|(_, before)| before.add(notice));
            told_by.or_insert_with(|| (0, notice.clone())).0 = entry.told;
            entry.worker.is_some()
        });
        if has_worker == Some(false) {
            self.set(target, Standing::Failed);
        }
        self.wake(target);
    }

    /// Takes over a resource's state. If it is another one, those that depend on it are to look.
    pub(in crate::reconcile) fn publish(&mut self, name: &str, state: State) {
        let Some(entry) = self.by_name.get_mut(name) else { return };
        let is_other = entry.state.replace(state.clone()).is_none_or(|old| old != state);
        if is_other {
            let dependents = entry.needed_by.clone();
            self.wake_all(dependents);
        }
    }

    /// Returns a resource's last state.
    pub(in crate::reconcile) fn state(&self, name: &str) -> Option<State> {
        self.by_name.get(name)?.state.clone()
    }

    /// Counts a change of a resource, which may be a repair.
    pub(in crate::reconcile) fn note_change(&mut self, name: &str, is_repaired: bool) {
        self.edit(name, |entry| entry.count.note_change(is_repaired));
    }

    pub(in crate::reconcile) fn note_event(&mut self, name: &str, happened: Happened) {
        self.edit(name, |entry| entry.count.note_event(happened));
    }

    pub(super) fn last_event(&self, name: &str) -> Option<Arc<LastEvent>> {
        self.by_name.get(name)?.count.last_event()
    }

    /// Notes what was released, unless that is nothing.
    pub(super) fn note_released(&mut self, released: Vec<Released>) {
        if !released.is_empty() {
            self.released = released;
        }
    }

    /// Returns how the resources have fared.
    pub(in crate::reconcile) fn tally(&self) -> Tally {
        let resources = self.by_name.iter().map(|(name, entry)| {
            let held_back_by = entry.held_back_by.as_ref().map(ToString::to_string);
            (name.to_string(), entry.count.tally(held_back_by))
        });
        Tally { resources: resources.collect(), released: self.released.clone() }
    }

    /// Says how a look has ended. A resource that has news stays at work, unless it has failed.
    pub(in crate::reconcile) fn end(&mut self, name: &str, ended: Ended) {
        let Some(entry) = self.by_name.get_mut(name) else { return };
        entry.is_holding = matches!(ended, Ended::Well { is_holding: true, .. });
        entry.held_back_by = None;
        let mends = matches!(ended, Ended::Well { is_changed: true, .. })
            || ended != Ended::Failed && entry.standing == Standing::Failed;
        let standing = match ended {
            Ended::Failed => Standing::Failed,
            Ended::Well { .. } if entry.has_news => Standing::AtWork,
            Ended::Well { .. } => Standing::AtRest,
        };
        let dependents = if mends { entry.needed_by.clone() } else { Vec::new() };
        self.set(name, standing);
        self.show(name);
        for dependent in dependents {
            if self.by_name.get(&dependent).is_some_and(|it| it.standing == Standing::Failed) {
                self.wake(&dependent);
            }
        }
    }

    /// Has the resources that this one depends on look again, and returns whether there are any.
    pub(in crate::reconcile) fn ask(&mut self, name: &str) -> bool {
        let Some(entry) = self.by_name.get(name) else { return false };
        let needs = entry.needs.clone();
        let has_worker =
            |name: &Arc<str>| self.by_name.get(name).is_some_and(|it| it.worker.is_some());
        let asked: Vec<_> = needs.into_iter().filter(has_worker).collect();
        let is_any = !asked.is_empty();
        self.wake_all(asked);
        is_any
    }

    /// Changes how a resource stands. If others need not wait for it any more, they are woken.
    fn set(&mut self, name: &str, standing: Standing) {
        let Some(entry) = self.by_name.get_mut(name) else { return };
        if entry.standing == standing {
            return;
        }
        let before = std::mem::replace(&mut entry.standing, standing);
        let now = &entry.standing;
        self.unsettled -= usize::from(before != Standing::AtRest);
        self.unsettled += usize::from(*now != Standing::AtRest);
        let waiting = match now {
            Standing::AtWork | Standing::Waiting | Standing::New => BTreeSet::new(),
            _ => std::mem::take(&mut entry.awaited_by),
        };
        self.show(name);
        for name in waiting {
            self.release(&name);
        }
    }

    /// Tells those who wait for the end of the run whether a resource is at work, or holds it up.
    fn show(&self, name: &str) {
        let Some((key, entry)) = self.by_name.get_key_value(name) else { return };
        let is_shown = match entry.standing {
            Standing::AtWork => true,
            Standing::AtRest | Standing::Waiting => entry.is_holding,
            _ => false,
        };
        self.at_work.send_if_modified(|names| {
            if is_shown { names.insert(Arc::clone(key)) } else { names.remove(key) }
        });
    }
}

impl Entry {
    /// Forgets who needs whom.
    fn unlink(&mut self) {
        let links =
            [&mut self.needs, &mut self.needed_by, &mut self.notified_by, &mut self.notifies];
        links.into_iter().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests;
