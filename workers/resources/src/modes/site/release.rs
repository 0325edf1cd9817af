//! Notes what a site keeps, and tells what has left it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::base::text::chain;
use crate::declare::declaration::Declaration;
use crate::declare::kept_thing::KeptThing;
use crate::modes::site::Site;
use crate::report::observer::{Event, EventKind};
use crate::report::released::Released;
use crate::state::facilities::Facilities;
use crate::state::hold;
use crate::state::reversal::Reversal;
use crate::state::{Keep, Key, Loaded, Record};
use crate::visit::last_good;

/// The resources of a site, by their names.
type Keeps = BTreeMap<Arc<str>, Keep>;

/// What would leave a site, and what is kept from then on.
#[derive(Debug)]
pub struct Leaving {
    released: Vec<Released>,
    keeps: Keeps,
    /// The keys of the holds of resources that are not declared any more.
    lost: Vec<Key>,
}

impl Leaving {
    /// Returns what would be released, in the order of the names.
    pub fn released(&self) -> &[Released] {
        &self.released
    }

    /// Takes out the keys of what would be forgotten of resources that people hold. It stays on
    /// record then until it is removed, for a site that declares these resources again.
    #[must_use]
    pub fn take_lost(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.lost)
    }

    /// Tells the observer what is released, notes what is kept from now on, and returns what is released.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was not noted is told again the next time.
    pub async fn release(self, facilities: &Facilities) -> Vec<Released> {
        let Self { released, keeps, lost } = self;
        if let Some(observer) = facilities.observer() {
            for Released { name, kind } in &released {
                let why = ("its manifest has it no more", Duration::ZERO);
                observer.happened(&Event::new(EventKind::Released, (name, kind), why));
            }
        }
        let records = facilities.records();
        let mut changes = records.look(|loaded| changes(loaded, keeps));
        changes.extend(lost.into_iter().map(|key| Record::Removed { key }));
        if !changes.is_empty()
            && let Err(error) = records.flush(records.push(changes)).await
        {
            let error = chain(&error);
            tracing::warn!(error, "cannot write the list of kept resources");
        }
        released
    }
}

impl Site {
    /// Returns what this agent, or the one before it, has kept last and this site does not. Changes nothing.
    ///
    /// A resource that was only renamed is still kept, and one whose name is still declared has not left.
    /// What is [put back](Self::with_departed), or waits for that, is not released. A site that was
    /// [cut](Self::select) down to some resources releases nothing.
    pub fn leaving(&self, facilities: &Facilities) -> Leaving {
        let (records, unsure) = (facilities.records(), self.unsure());
        let kept = records.look(|loaded| loaded.kept.clone());
        let declared = self.declarations().iter().map(|declared| (declared, declared.thing()));
        let declared: Vec<_> = declared.collect();
        let (mut released, mut keeps) = (Vec::new(), Keeps::new());
        // What is put back is kept no more as soon as it is back.
        let kept_now = |declared: &Declaration| !declared.is_put_back() && !declared.is_unsure;
        for (declared, thing) in declared.iter().filter(|(declared, _)| kept_now(declared)) {
            let (kind, thing) = (declared.kind.clone(), thing.name().to_owned());
            keeps.insert(declared.name.as_str().into(), Keep { kind, thing });
        }
        let things: HashSet<_> = declared.iter().map(|(_, thing)| thing.name()).collect();
        let before: HashSet<_> = kept.values().map(|keep| keep.thing.clone()).collect();
        // The name of what was only renamed may be that of something that has left.
        let others = declared.iter().filter(|(_, thing)| !before.contains(thing.name()));
        let others: HashSet<_> = others.map(|(declared, _)| &*declared.name).collect();
        for (name, keep) in kept {
            if self.is_cut() || unsure.has(&name) {
                keeps.entry(name).or_insert(keep);
            } else if !things.contains(&*keep.thing) && !others.contains(&*name) {
                if Reversal::is_on_record(records, &KeptThing::named(&keep.thing)) {
                    keeps.entry(name).or_insert(keep);
                } else {
                    released.push(Released { name: name.to_string(), kind: keep.kind });
                }
            }
        }
        let names: HashSet<_> = declared.iter().map(|(declared, _)| &*declared.name).collect();
        let is_there = |name: &str| {
            self.is_cut() || unsure.has(name) || names.contains(name) || keeps.contains_key(name)
        };
        let lost = records.look(|loaded| lost(loaded, is_there));
        Leaving { released, keeps, lost }
    }
}

/// Returns the keys of what is on record of resources that people hold and that are not there any
/// more: the holds, and the configs with which their programs ran.
fn lost(loaded: &Loaded, is_there: impl Fn(&str) -> bool) -> Vec<Key> {
    let holds = hold::lost(loaded, is_there);
    let configs = holds.iter().flat_map(|key| last_good::keys(loaded, &key.name).cloned());
    let mut lost: Vec<Key> = configs.collect();
    lost.extend(holds);
    lost
}

/// Returns what is put on record when other resources are kept than before.
fn changes(loaded: &Loaded, keeps: Keeps) -> Vec<Record> {
    let mut changes = Vec::new();
    for name in loaded.kept.keys().filter(|name| !keeps.contains_key(*name)) {
        // The config of one that a person holds is forgotten together with the hold.
        if !hold::is_held(loaded, name) {
            changes.extend(last_good::forget(loaded, name));
        }
        changes.push(Record::Released { resource: Arc::clone(name) });
    }
    let kept = keeps.into_iter().filter(|(name, keep)| loaded.kept.get(name) != Some(keep));
    changes.extend(kept.map(|(resource, keep)| Record::Kept { resource, keep }));
    changes
}
