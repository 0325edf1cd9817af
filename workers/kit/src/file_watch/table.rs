//! The table of subscriptions, and of the kernel watches that they share.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::inotify::ReadFlags;
use rustix::io::Errno;

use super::error::{WatchLimits, WatchProblem};
use super::events::FileEvent;
use super::kernel::Kernel;
use super::looks::WatchStatus;
use super::notifier::{Changes, Notifier, Writing};
use super::trail::{Place, Trail, follow};
use crate::condition::chain;

/// Changes that leave the meaning of every name as it is.
const CONTENTS: ReadFlags = ReadFlags::MODIFY.union(ReadFlags::CLOSE_WRITE);

/// The subscribers whom each entry of a watched folder concerns. Those under `None` are concerned by all entries.
type Users = BTreeMap<Option<Arc<OsStr>>, BTreeSet<u64>>;

struct Subscriber {
    path: Arc<Path>,
    /// In order. Their names are those in the table of folders: most paths share most of them.
    places: Box<[Place]>,
    end: Option<(u64, u64)>,
    notifier: Notifier,
}

/// The subscriptions and the kernel watches that they share.
pub(super) struct Table {
    /// The inotify instance, or why there is none.
    kernel: Result<Kernel, Errno>,
    folders: BTreeMap<i32, Users>,
    subscribers: BTreeMap<u64, Subscriber>,
    /// The subscribers with a problem.
    troubled: BTreeSet<u64>,
    next_id: u64,
    is_ended: bool,
}

impl Table {
    /// Returns an empty table, with an inotify instance if there is one to be had.
    pub(super) fn open() -> Self {
        Self {
            kernel: Kernel::open(),
            folders: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            troubled: BTreeSet::new(),
            next_id: 0,
            is_ended: false,
        }
    }

    pub(super) fn instance(&self) -> Option<Arc<OwnedFd>> {
        self.kernel.as_ref().ok().map(|kernel| Arc::clone(kernel.fd()))
    }

    /// Returns how many subscribers have a problem, and that of the first of them.
    pub(super) fn problems(&self) -> Option<(usize, Arc<WatchProblem>)> {
        let first = self.subscribers.get(self.troubled.first()?)?;
        let problem = first.notifier.problem()?;
        Some((self.troubled.len(), problem))
    }

    pub(super) fn status(&self) -> WatchStatus {
        WatchStatus {
            subscriptions: self.subscribers.len(),
            watches: self.folders.len(),
            problems: self.troubled.len(),
            first_problem: self.problems().map(|(_, problem)| chain(&*problem)),
        }
    }

    /// Adds a subscriber on `path`, or returns `None` if the worker has ended.
    pub(super) fn add(&mut self, path: &Arc<Path>) -> Option<(u64, Changes)> {
        if self.is_ended {
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        let notifier = Notifier::default();
        let (receiver, path) = (notifier.receiver(), Arc::clone(path));
        let subscriber = Subscriber { path, places: Box::default(), end: None, notifier };
        self.subscribers.insert(id, subscriber);
        self.follow_and_tell(id);
        receiver.forget();
        Some((id, receiver))
    }

    /// Removes a subscriber and releases what only it has used.
    pub(super) fn remove(&mut self, id: u64) {
        self.troubled.remove(&id);
        if let Some(subscriber) = self.subscribers.remove(&id) {
            for place in &*subscriber.places {
                self.release(id, place);
            }
        }
    }

    /// Ends every subscription, for ever.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
        self.subscribers.clear();
        self.folders.clear();
        self.troubled.clear();
        self.kernel = Err(Errno::BADF);
    }

    /// Tries again what could not be watched, and tells those who are concerned to look.
    pub(super) fn look(&mut self) {
        if self.kernel.is_err() {
            self.kernel = Kernel::open();
        }
        for id in self.troubled.clone() {
            self.follow_and_tell(id);
        }
    }

    /// Follows every path anew, because a mount replaces a folder without an event in its parent,
    /// and tells those who now see something else.
    pub(super) fn on_mounts_changed(&mut self) {
        let ids: Vec<_> = self.subscribers.keys().copied().collect();
        for id in ids {
            if self.follow(id) {
                self.tell(id);
            }
        }
    }

    /// Takes what the kernel has told.
    pub(super) fn on_events(&mut self, events: Vec<FileEvent>) {
        let mut concerned = Concerned::default();
        for event in events {
            self.on_event(event, &mut concerned);
        }
        for (id, writing) in &concerned.writing {
            if let Some(subscriber) = self.subscribers.get(id) {
                subscriber.notifier.set_writing(*writing);
            }
        }
        for id in &concerned.must_follow {
            self.follow_and_tell(*id);
        }
        for id in concerned.told.difference(&concerned.must_follow) {
            self.tell(*id);
        }
    }

    fn on_event(&mut self, event: FileEvent, concerned: &mut Concerned) {
        let FileEvent { watch, flags, name } = event;
        let name: Option<Arc<OsStr>> = name.map(Arc::from);
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            tracing::warn!("file events lost");
            concerned.replace(self.subscribers.keys());
            return;
        }
        if flags.contains(ReadFlags::IGNORED) {
            // The kernel has released the watch, with the folder or its file system.
            let users = self.folders.remove(&watch).unwrap_or_default();
            concerned.replace(users.values().flatten());
            return;
        }
        let Some(users) = self.folders.get(&watch) else { return };
        if name.is_none() {
            let all = users.values().flatten();
            // Of a file that is watched itself, or of the folder.
            concerned.take(flags, all);
            return;
        }
        concerned.told.extend(users.get(&None).into_iter().flatten());
        let through = users.get(&name).into_iter().flatten();
        concerned.take(flags, through);
    }

    /// Invariant 2: follows, then tells.
    fn follow_and_tell(&mut self, id: u64) {
        self.follow(id);
        self.tell(id);
    }

    fn tell(&self, id: u64) {
        if let Some(subscriber) = self.subscribers.get(&id) {
            subscriber.notifier.notify();
        }
    }

    /// Follows a subscriber's path anew, and returns whether it now leads elsewhere.
    fn follow(&mut self, id: u64) -> bool {
        let Some(subscriber) = self.subscribers.get_mut(&id) else { return false };
        let Trail { places, end, problem } = match &self.kernel {
            Ok(kernel) => follow(&subscriber.path, kernel),
            Err(errno) => {
                let (source, limits) = ((*errno).into(), WatchLimits::of_instances());
                let problem = Some(WatchProblem::Instance { source, limits });
                Trail { problem, ..Trail::default() }
            }
        };
        if problem.is_some() {
            self.troubled.insert(id)
        } else {
            self.troubled.remove(&id)
        };
        let problem = problem.map(Arc::new);
        let is_else = !places.iter().eq(&*subscriber.places)
            || subscriber.end != end
            || subscriber.notifier.has_problem() != problem.is_some();
        subscriber.notifier.set_problem(problem);
        subscriber.end = end;
        let before = std::mem::take(&mut subscriber.places);
        for place in places.iter().filter(|place| !before.contains(place)) {
            let users = self.folders.entry(place.watch).or_default();
            users.entry(place.entry.clone()).or_default().insert(id);
        }
        for place in before.iter().filter(|place| !places.contains(*place)) {
            self.release(id, place);
        }
        let places = places.into_iter().map(|place| self.shared(place)).collect();
        if let Some(subscriber) = self.subscribers.get_mut(&id) {
            subscriber.places = places;
        }
        is_else
    }

    /// Returns a place with the name that the table has for it.
    fn shared(&self, place: Place) -> Place {
        let users = self.folders.get(&place.watch);
        let known = users.and_then(|users| users.get_key_value(&place.entry));
        let entry = known.map_or(place.entry, |(entry, _)| entry.clone());
        Place { watch: place.watch, entry }
    }

    fn release(&mut self, id: u64, place: &Place) {
        let Some(users) = self.folders.get_mut(&place.watch) else { return };
        if let Some(ids) = users.get_mut(&place.entry) {
            ids.remove(&id);
            if ids.is_empty() {
                users.remove(&place.entry);
            }
        }
        if users.is_empty() {
            self.folders.remove(&place.watch);
            if let Ok(kernel) = &self.kernel {
                kernel.remove(place.watch);
            }
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("subscriptions", &self.subscribers.len())
            .field("watches", &self.folders.len())
            .field("problems", &self.troubled.len())
            .field("is_ended", &self.is_ended)
            .finish_non_exhaustive()
    }
}

/// The subscribers whom a batch of events concerns.
#[derive(Default)]
struct Concerned {
    told: BTreeSet<u64>,
    /// The subscribers whose path may lead elsewhere now. They are told as well.
    must_follow: BTreeSet<u64>,
    /// Whether their files are being written, where the events say so.
    writing: BTreeMap<u64, Writing>,
}

impl Concerned {
    /// Takes an event of the entries that these subscribers look up.
    fn take<'a>(&mut self, flags: ReadFlags, ids: impl Iterator<Item = &'a u64>) {
        let flags = flags.difference(ReadFlags::ISDIR);
        if flags == ReadFlags::MODIFY {
            self.write(Writing::Open, ids);
        } else if CONTENTS.contains(flags) {
            self.write(Writing::Closed, ids);
        } else if flags == ReadFlags::ATTRIB {
            // Other attributes do not make it another file.
            self.must_follow.extend(ids);
        } else {
            self.replace(ids);
        }
    }

    fn write<'a>(&mut self, writing: Writing, ids: impl Iterator<Item = &'a u64>) {
        for id in ids {
            self.told.insert(*id);
            self.writing.insert(*id, writing);
        }
    }

    /// Notes that other files may be there now. Nobody is known to write to them.
    fn replace<'a>(&mut self, ids: impl Iterator<Item = &'a u64>) {
        for id in ids {
            self.must_follow.insert(*id);
            self.writing.insert(*id, Writing::Closed);
        }
    }
}
