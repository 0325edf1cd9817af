//! Notes what a site keeps, and tells what has left it.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use crate::blocking::blocking;
use crate::declaration::Declaration;
use crate::facilities::{Facilities, Keep, Keeps};
use crate::observer::{Happened, What};
use crate::released::Released;
use crate::site::Site;
use crate::thing::Thing;

/// What would leave a site, and what is kept from then on.
#[derive(Debug)]
pub struct Leaving {
    released: Vec<Released>,
    keeps: Keeps,
}

impl Leaving {
    /// Returns what would be released, in the order of the names.
    pub fn released(&self) -> &[Released] {
        &self.released
    }

    /// Tells the observer what is released, notes what is kept from now on, and returns what is released.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was not noted is told again the next time.
    pub async fn release(self, facilities: &Facilities) -> Vec<Released> {
        let Self { released, keeps } = self;
        if let Some(observer) = facilities.observer() {
            for Released { name, kind } in &released {
                let why = ("its manifest has it no more", Duration::ZERO);
                observer.happened(&Happened::new(What::Released, (name, kind), why));
            }
        }
        on_disk(facilities, move |facilities| facilities.keep(keeps)).await;
        released
    }
}

impl Site {
    /// Returns what this agent, or the one before it, has kept last and this site does not. Changes nothing.
    ///
    /// A resource that was only renamed is still kept, and one whose name is still declared has not left.
    /// What is [put back](Self::with_departed), or waits for that, is not released. A site that was
    /// [cut](Self::select) down to some resources releases nothing.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn leaving(&self, facilities: &Facilities) -> Leaving {
        let (kept, unsure) = (on_disk(facilities, Facilities::kept).await, self.unsure());
        let declared = self.declarations().iter().map(|declared| (declared, declared.thing()));
        let declared: Vec<_> = declared.collect();
        let (mut released, mut keeps) = (Vec::new(), Keeps::new());
        // What is put back is kept no more as soon as it is back.
        let kept_now = |declared: &Declaration| !declared.is_put_back() && !declared.is_unsure;
        for (declared, thing) in declared.iter().filter(|(declared, _)| kept_now(declared)) {
            let (kind, thing) = (declared.kind.clone(), thing.name().to_owned());
            keeps.insert(declared.name.clone(), Keep { kind, thing });
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
                if facilities.has_reversal(&Thing::named(&keep.thing)).await {
                    keeps.entry(name).or_insert(keep);
                } else {
                    released.push(Released { name, kind: keep.kind });
                }
            }
        }
        Leaving { released, keeps }
    }
}

/// Does something with what may be on disk; where nothing is, it waits for no thread, so that a simulation
/// replays.
async fn on_disk<T: Default + Send + 'static>(
    facilities: &Facilities,
    work: impl FnOnce(&Facilities) -> T + Send + 'static,
) -> T {
    if facilities.state().is_none() {
        return work(facilities);
    }
    let facilities = facilities.clone();
    blocking(move || Ok::<_, Infallible>(work(&facilities))).await.unwrap_or_default()
}
