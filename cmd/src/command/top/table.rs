//! All workers of the live view, and which of them are shown in which order.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crankcase_status::picture::Look;
use crankcase_status::wire::{EngineReport, WorkerReport, WorkerState};

use super::row::{Row, nested};

/// How the rows are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// Root causes first, then what waits for them.
    #[default]
    Trouble,
    /// Each engine, and below it its workers.
    Tree,
}

/// The path of a worker, with a character between its parts that is less than any other: so the workers of an
/// engine come right after it.
type Key = Arc<str>;

fn key(path: &str) -> Key {
    path.replace('/', "\u{1}").into()
}

/// All workers, and which of them are shown in which order.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: BTreeMap<Key, Row>,
    shown: Vec<Key>,
    order: Order,
    /// What a path or a state has to contain.
    filter: String,
    /// The row that was picked; the first one if none was.
    picked: Option<Key>,
    /// The place of the picked row among those that are shown. It is looked up only when rows come or go.
    place: usize,
}

/// How many workers are how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) all: usize,
    pub(super) trouble: usize,
    pub(super) off: usize,
    pub(super) on_their_way: usize,
    pub(super) well: usize,
}

impl Table {
    /// Puts the workers of a whole report in the place of all others.
    pub(super) fn replace(&mut self, report: &EngineReport) {
        self.rows.clear();
        self.merge(report, &[]);
    }

    /// Removes the workers that are gone with all that is in them, and then takes over the workers of a part of a
    /// report. The others stay as they are.
    pub(super) fn merge(&mut self, report: &EngineReport, gone: &[String]) {
        for key in gone.iter().map(|path| key(path)) {
            self.remove_inside(&key);
            self.rows.remove(&key);
        }
        self.merge_engine(report);
        self.arrange();
    }

    fn merge_engine(&mut self, report: &EngineReport) {
        for worker in report.workers.values() {
            self.merge_worker(worker);
        }
    }

    fn merge_worker(&mut self, worker: &WorkerReport) {
        let (key, row) = (key(&worker.path), Row::of(worker));
        let before = self.rows.get(&key);
        let is_another = before.is_some_and(|before| before.generation != row.generation);
        // An engine that is too busy to report still has its workers.
        let is_unknown = worker.reporter.is_some() && worker.state == WorkerState::Running;
        if is_another || (!row.is_engine && !is_unknown) {
            self.remove_inside(&key);
        }
        self.rows.insert(key, row);
        if let Some(engine) = nested(worker) {
            self.merge_engine(engine);
        }
    }

    fn remove_inside(&mut self, engine: &Key) {
        for key in self.keys_inside(engine).collect::<Vec<_>>() {
            self.rows.remove(&key);
        }
    }

    fn keys_inside(&self, engine: &str) -> impl Iterator<Item = Key> {
        let (first, end) = (format!("{engine}\u{1}"), format!("{engine}\u{2}"));
        let bounds = (Bound::Included(&*first), Bound::Excluded(&*end));
        let inside: Vec<_> =
            self.rows.range::<str, _>(bounds).map(|(key, _)| key.clone()).collect();
        inside.into_iter()
    }

    /// Returns the row of a worker.
    pub(super) fn row(&self, path: &str) -> Option<&Row> {
        self.rows.get(&key(path))
    }

    /// Returns how many rows are shown.
    pub(super) fn len(&self) -> usize {
        self.shown.len()
    }

    /// Returns some of the rows that are shown.
    pub(super) fn rows(&self, first: usize, count: usize) -> impl Iterator<Item = &Row> {
        self.shown.iter().skip(first).take(count).filter_map(|key| self.rows.get(key))
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Changes between the two orders.
    pub(super) fn turn(&mut self) {
        self.order = match self.order {
            Order::Trouble => Order::Tree,
            Order::Tree => Order::Trouble,
        };
        self.arrange();
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn set_filter(&mut self, filter: &str) {
        filter.clone_into(&mut self.filter);
        self.arrange();
    }

    /// Returns the place of the picked row among those that are shown.
    pub(super) fn position(&self) -> usize {
        self.place
    }

    /// Returns the picked row; `None` if none is shown.
    pub(super) fn picked(&self) -> Option<&Row> {
        self.rows.get(self.shown.get(self.position())?)
    }

    /// Picks the row that is so far down from the picked one, as far as there are rows.
    pub(super) fn step(&mut self, down: isize) {
        let last = self.len().saturating_sub(1);
        self.pick(self.place.saturating_add_signed(down).min(last));
    }

    fn pick(&mut self, place: usize) {
        self.place = place;
        // The first row is not held: what comes to stand there is picked.
        self.picked = self.shown.get(place).filter(|_| place > 0).cloned();
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally { all: self.rows.len(), ..Tally::default() };
        for row in self.rows.values() {
            let count = match row.look {
                Look::Trouble => &mut tally.trouble,
                Look::Off => &mut tally.off,
                Look::OnItsWay => &mut tally.on_their_way,
                Look::Well | Look::Plain => &mut tally.well,
            };
            *count += 1;
        }
        tally
    }

    fn arrange(&mut self) {
        let filter = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let kept = self
            .rows
            .iter()
            .filter(|(_, row)| filter.is_empty() || has(&row.shown) || has(&row.state));
        let mut shown: Vec<_> = kept.collect();
        if self.order == Order::Trouble {
            // Stable: rows of the same rank stay in the order of the tree.
            shown.sort_by_key(|(_, row)| row.rank);
        }
        self.shown = shown.into_iter().map(|(key, _)| key.clone()).collect();
        let picked = self.picked.as_ref();
        match picked.and_then(|picked| self.shown.iter().position(|key| key == picked)) {
            Some(place) => self.place = place,
            // Where it was is another one now.
            None if picked.is_some() => self.pick(self.place.min(self.len().saturating_sub(1))),
            None => self.place = 0,
        }
    }
}

#[cfg(test)]
mod tests;
