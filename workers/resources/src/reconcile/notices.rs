use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crankcase_engine::Origin;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::declaration::{Declaration, OnChange};

/// The state of a resource, as those that depend on it see it.
///
/// States are equal when their values are, so that a state that came about anew is no change.
#[derive(Debug, Clone)]
pub struct State {
    value: Arc<Value>,
    /// Counts the states of a site: of two of one resource, the newer has the higher.
    stamp: u64,
}

impl State {
    /// Returns the value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns whether this is the later one of two states of a resource.
    pub(super) fn is_newer(&self, other: &Self) -> bool {
        self.stamp > other.stamp
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// Carries notifications from the resources that changed to those that they notify.
///
/// A notification comes with the source's new state: one that depends on the source and is notified
/// sees both at once, however long the state takes on its own way.
///
/// It belongs to a site and outlives the workers on both sides: what was told to a resource is kept
/// until it has done what it means, however often either worker is started in between. Who tells
/// waits for nobody. Notifications that come before the first was heeded are one.
#[derive(Clone, Default)]
pub struct Notices {
    board: Arc<Mutex<Board>>,
    at_work: watch::Sender<BTreeSet<String>>,
}

/// Which resources of a site are at work: each that was notified until it has looked, and each that
/// looks for another reason than the time. Cheap to clone.
///
/// A resource that fails and waits for its next try is not at work.
#[derive(Debug, Clone)]
pub struct Activity(watch::Receiver<BTreeSet<String>>);

impl Activity {
    /// Returns the names of those that are at work; counts them as seen.
    pub fn names(&mut self) -> BTreeSet<String> {
        self.0.borrow_and_update().clone()
    }

    /// Returns whether any have begun or ended that were not seen.
    pub fn has_changed(&self) -> bool {
        self.0.has_changed().unwrap_or(false)
    }

    /// Waits until any have begun or ended that were not seen; for ever once the site is no longer
    /// kept. Cancel safe.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[derive(Default)]
struct Board {
    /// Whom each resource notifies.
    targets: HashMap<String, Vec<String>>,
    /// What each resource was told. Its worker shares it, and goes on with it when the resource is
    /// declared no more: what comes later under the same name has another.
    rings: HashMap<String, watch::Sender<Ring>>,
    stamp: u64,
}

/// How often a resource was notified, and how many of these it has heeded.
#[derive(Debug, Default)]
struct Ring {
    told: u64,
    heeded: u64,
    /// Those that notified, as far as that is not heeded.
    by: HashSet<String>,
    /// The states of those that notified, as far as that is not heeded.
    states: HashMap<String, State>,
}

impl Notices {
    /// Takes over who notifies whom, and forgets what is not declared.
    pub fn connect(&self, declarations: &[Declaration]) {
        let mut targets: HashMap<String, Vec<String>> = HashMap::new();
        let mut add = |source: &str, target: &str| {
            targets.entry(source.to_owned()).or_default().push(target.to_owned());
        };
        for declaration in declarations {
            for target in &declaration.notify {
                add(&declaration.name, target);
            }
            let uses = declaration.dependencies.iter();
            for used in uses.filter(|used| used.on_change == OnChange::Notify) {
                add(&used.resource, &declaration.name);
            }
        }
        let mut board = self.board.lock();
        let mut rings = std::mem::take(&mut board.rings);
        board.rings = declarations
            .iter()
            .filter_map(|declaration| rings.remove_entry(&declaration.name))
            .collect();
        board.targets = targets;
        let rings = &board.rings;
        self.at_work.send_if_modified(|names| {
            let before = names.len();
            names.retain(|name| rings.contains_key(name));
            names.len() < before
        });
    }

    /// Returns which resources are at work.
    pub fn activity(&self) -> Activity {
        Activity(self.at_work.subscribe())
    }

    /// Returns the state that has just come about.
    pub(super) fn state(&self, value: Value) -> State {
        let mut board = self.board.lock();
        board.stamp += 1;
        State { value: Arc::new(value), stamp: board.stamp }
    }

    /// Notifies all that a changed resource is to notify, with its state if it has one.
    pub(super) fn tell(&self, source: &str, state: Option<&State>) {
        let mut board = self.board.lock();
        let targets = board.targets.get(source).cloned().unwrap_or_default();
        for target in targets {
            board.ring(&target).send_modify(|ring| {
                ring.told += 1;
                ring.by.insert(source.to_owned());
                ring.states.extend(state.map(|state| (source.to_owned(), state.clone())));
            });
            self.at_work.send_if_modified(|names| names.insert(target));
        }
    }

    /// Returns what tells a resource that it was notified.
    pub(super) fn bell(&self, name: &str) -> Bell {
        let ring = self.board.lock().ring(name).clone();
        let (told, at_work) = (ring.subscribe(), self.at_work.clone());
        Bell { name: name.to_owned(), told, ring, at_work }
    }
}

impl Board {
    fn ring(&mut self, name: &str) -> &mut watch::Sender<Ring> {
        self.rings.entry(name.to_owned()).or_default()
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices").field("targets", &self.board.lock().targets).finish()
    }
}

/// What one resource was told and has not heeded.
#[derive(Debug)]
pub(super) struct Told {
    count: u64,
    /// The names of those that told it.
    by: HashSet<String>,
    /// The states of those of them that have one, by name.
    pub(super) states: HashMap<String, State>,
}

impl Told {
    /// Returns at whose wish the resource does what it was told.
    pub(super) fn origin(&self) -> Origin {
        let mut by: Vec<_> = self.by.iter().map(String::as_str).collect();
        by.sort_unstable();
        Origin::new(by.join(", "), "a change notifies it")
    }
}

/// Tells one resource that it was notified.
#[derive(Debug)]
pub(super) struct Bell {
    name: String,
    ring: watch::Sender<Ring>,
    told: watch::Receiver<Ring>,
    at_work: watch::Sender<BTreeSet<String>>,
}

impl Bell {
    /// Says that the resource is at work.
    pub(super) fn begin(&self) {
        self.at_work.send_if_modified(|names| names.insert(self.name.clone()));
    }

    /// Says that the resource is at rest, unless it was notified and has not seen that yet.
    pub(super) fn rest(&self) {
        self.at_work.send_if_modified(|names| {
            // Asked in here: who notifies first tells it, and then enters the name here.
            let has_news = self.told.has_changed().unwrap_or(false);
            !has_news && names.remove(&self.name)
        });
    }

    /// Returns what the resource has to heed; counts it as seen.
    pub(super) fn pending(&mut self) -> Option<Told> {
        let ring = self.told.borrow_and_update();
        (ring.told > ring.heeded).then(|| Told {
            count: ring.told,
            by: ring.by.clone(),
            states: ring.states.clone(),
        })
    }

    /// Says that what was told is done.
    pub(super) fn heed(&self, told: &Told) {
        self.ring.send_if_modified(|ring| {
            ring.heeded = told.count;
            if ring.told == told.count {
                ring.by.clear();
                ring.states.clear();
            }
            // There is nothing new in it for who waits to be told.
            false
        });
    }

    /// Waits for a notification that was not seen. Cancel safe.
    pub(super) async fn told(&mut self) {
        self.told.changed().await.expect("the other end is held here");
    }
}
