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

impl Site {
    /// Returns what this agent, or the one before it, has kept last and this site does not, in the order of
    /// the names; and notes what is kept from now on. A resource that was only renamed is still kept, and
    /// one that is [put back](Self::with_departed) is not released. A site that was
    /// [cut](Self::select) down to some resources releases nothing.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: dropped, it may have noted what nobody is told.
    pub async fn release(&self, facilities: &Facilities) -> Vec<Released> {
        let released = self.leaving(facilities).await;
        if !self.is_cut() {
            let keeps = self.keeps();
            on_disk(facilities, move |facilities| facilities.keep(keeps)).await;
        }
        if let Some(observer) = facilities.observer() {
            for Released { name, kind } in &released {
                let why = ("its manifest has it no more", Duration::ZERO);
                observer.happened(&Happened::new(What::Released, (name, kind), why));
            }
        }
        released
    }

    /// Returns what the site would release. Changes nothing.
    pub(crate) async fn leaving(&self, facilities: &Facilities) -> Vec<Released> {
        if self.is_cut() {
            return Vec::new();
        }
        let kept = on_disk(facilities, Facilities::kept).await;
        if kept.is_empty() {
            return Vec::new();
        }
        let declarations = self.declarations();
        let names: HashSet<_> = declarations.iter().map(|it| (&*it.name, &*it.kind)).collect();
        let gone = kept.into_iter().filter(|(name, keep)| !names.contains(&(name, &keep.kind)));
        let gone: Vec<_> = gone.collect();
        if gone.is_empty() {
            return Vec::new();
        }
        let things: HashSet<_> = declarations.iter().map(Declaration::thing).collect();
        let things: HashSet<_> = things.iter().map(Thing::name).collect();
        let gone = gone.into_iter().filter(|(_, keep)| !things.contains(&*keep.thing));
        gone.map(|(name, Keep { kind, .. })| Released { name, kind }).collect()
    }

    fn keeps(&self) -> Keeps {
        // What is put back is kept no more as soon as it is back.
        let kept = self.declarations().iter().filter(|declared| !declared.is_put_back());
        let keeps = kept.map(|declared| {
            let (kind, thing) = (declared.kind.clone(), declared.thing().name().to_owned());
            (declared.name.clone(), Keep { kind, thing })
        });
        keeps.collect()
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
