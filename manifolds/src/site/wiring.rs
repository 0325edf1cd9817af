//! The change of the engine that makes its workers the resources of another site.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crankcase_engine::{Change, ChangeError, Engine, Live, Name, NameError};
use crankcase_resources::front::worker_name;
use crankcase_resources::run::{
    Activity, Claims, CurrentDeclaration, Leaving, Program, Schedule, State, Tallies,
};
use crankcase_resources::state::{Hold, Key, Topic};
use crankcase_resources::{Declaration, Facilities, Released, Site};
use crankcase_workers::{Watches, name_first};

use super::config::Config;
use super::resource::{self, Resource};
use super::trial::SiteTrial;
use crate::site_origin::ORIGIN;

/// The connections of the resources of a site. They stay when another site replaces it.
#[derive(Debug)]
pub(super) struct Wiring {
    config: Config,
    facilities: Facilities,
    watches: Live<Watches>,
    schedule: Schedule,
    claims: Claims,
    installed: BTreeMap<String, Installed>,
}

/// The changes that another site brings.
#[derive(Debug)]
pub(super) struct Moved {
    /// How many resources there are now.
    total: usize,
    /// How many of them are new, or of another type or with other dependencies than before.
    new: usize,
    /// The names of the other resources whose declarations have changed.
    renewed: Vec<String>,
    /// The names of the new resources that are on record as parked.
    parked: Vec<String>,
}

/// How many resources that were released are named.
const NAMED: usize = 20;

/// How many of the resources whose declarations have changed are named. Each resource that acts
/// logs more of itself.
const NAMED_RENEWED: usize = 5;

impl Moved {
    /// Logs it.
    pub(super) fn log(&self, released: &[Released], why: &str) {
        let Self { total, new, renewed, .. } = self;
        let differ = (!renewed.is_empty()).then(|| name_first(NAMED_RENEWED, renewed.iter()));
        for Released { name: resource, kind } in released.iter().take(NAMED) {
            tracing::info!(resource, kind, "released: it is not kept any more");
        }
        let released = released.len();
        let renewed = renewed.len();
        tracing::info!(resources = total, new, renewed, released, differ, why, "the site is kept");
    }
}

/// A resource that has a manifold.
#[derive(Debug)]
struct Installed {
    name: Name<State>,
    /// The declaration that the worker got last; at first the one that the manifold was made for.
    declaration: CurrentDeclaration,
    /// The declaration that the worker gets with the next [`hand_over`](Wiring::hand_over).
    next: Option<Declaration>,
}

impl Wiring {
    pub(super) fn new(config: Config, facilities: Facilities, watches: Live<Watches>) -> Self {
        let (schedule, claims) = (Schedule::default(), Claims::default());
        Self { config, facilities, watches, schedule, claims, installed: BTreeMap::new() }
    }

    /// Returns whether the machine is only looked at.
    pub(super) fn looks_only(&self) -> bool {
        self.config.looks_only
    }

    pub(super) fn facilities(&self) -> &Facilities {
        &self.facilities
    }

    /// Returns the trial that is told when a site is in force.
    pub(super) fn trial(&self) -> Option<&SiteTrial> {
        self.config.trial.as_ref()
    }

    /// Returns the schedule that the resources share.
    pub(super) fn schedule(&self) -> Schedule {
        self.schedule.clone()
    }

    /// Returns whether the resources are at rest.
    pub(super) fn activity(&self) -> Activity {
        self.schedule.activity()
    }

    /// Returns what tells how the resources have fared.
    pub(super) fn tallies(&self) -> Tallies {
        self.schedule.tallies()
    }

    /// Releases what the site does not keep any more, and tells so. Returns the keys of what is to
    /// be forgotten when the trial of the site is over: after going back, people still hold that.
    pub(super) async fn release(&self, mut leaving: Leaving) -> Vec<Key> {
        let lost = if self.trial().is_some() { leaving.take_lost() } else { Vec::new() };
        self.schedule.note_released(leaving.release(&self.facilities).await);
        lost
    }

    /// Logs how many resources were changed beyond those that are logged one by one. Never ends.
    pub(super) fn summarize(&self) -> impl Future<Output = ()> + Send + use<> {
        self.schedule.clone().summarize()
    }

    /// Returns the change that makes the engine's resources those of a site, as one group.
    ///
    /// # Errors
    ///
    /// When a resource has a name that no manifold can have; that of a loaded site never has.
    pub(super) fn change(&mut self, site: &Site) -> Result<(Change, Moved), NameError> {
        self.claims.connect(site.declarations());
        let facilities = self.facilities.hiding(site.secrets());
        let setting = Arc::new(self.config.reconcile(site.kinds(), &facilities));
        let (mut change, mut fresh) = (Change::new(), Vec::new());
        let mut before = std::mem::take(&mut self.installed);
        for declaration in site.declarations() {
            let name = declaration.name.clone();
            let kept =
                before.remove(&name).filter(|old| is_same(&old.declaration.get(), declaration));
            let installed = match kept {
                Some(old) => {
                    let is_equal = old.declaration.get().is_equal(declaration);
                    Installed { next: (!is_equal).then(|| declaration.clone()), ..old }
                }
                None => {
                    fresh.push(declaration.name.clone());
                    let name = Name::parse(&worker_name(&declaration.name))?;
                    let declaration = CurrentDeclaration::new(declaration.clone());
                    let resource = Resource {
                        declaration: declaration.clone(),
                        setting: Arc::clone(&setting),
                        watches: self.watches.clone(),
                        schedule: self.schedule.clone(),
                        claims: self.claims.clone(),
                        program: Program::default(),
                    };
                    change = change.install_or_replace(name.clone(), resource::manifold(resource)?);
                    Installed { name, declaration, next: None }
                }
            };
            self.installed.insert(name, installed);
        }
        let resources = (site.order(), site.declarations());
        let names = fresh.iter().map(String::as_str);
        self.schedule.connect(resources, site.kinds(), &self.facilities, names);
        let renewed = self.installed.iter().filter(|(_, installed)| installed.next.is_some());
        let renewed = renewed.map(|(name, _)| name.clone()).collect();
        let (total, new) = (self.installed.len(), fresh.len());
        let parked = self.expect_parks(fresh);
        let moved = Moved { total, new, renewed, parked };
        let change =
            before.values().fold(change, |change, gone| change.uninstall(gone.name.clone()));
        Ok((change, moved))
    }

    /// Notes the new declarations of a site that was renewed: the same resources hang together in the
    /// same way.
    pub(super) fn renew<'a>(
        &mut self,
        declarations: impl Iterator<Item = &'a Declaration>,
    ) -> Moved {
        let mut renewed = Vec::new();
        for declaration in declarations {
            if let Some(installed) = self.installed.get_mut(&declaration.name) {
                installed.next = Some(declaration.clone());
                renewed.push(declaration.name.clone());
            }
        }
        Moved { total: self.installed.len(), new: 0, renewed, parked: Vec::new() }
    }

    /// Takes over which resources are on record as paused.
    pub(super) async fn take_over_pauses(&self) {
        let records = self.facilities.records();
        self.schedule.take_over_pauses(records, Hold::all(records, Topic::Pause).await);
    }

    /// Has those new resources that are on record as parked do nothing. Returns their names.
    fn expect_parks(&self, mut fresh: Vec<String>) -> Vec<String> {
        self.facilities.records().look(|loaded| {
            fresh.retain(|name| loaded.documents.contains(&Key::new(Topic::Park, name.as_str())));
        });
        self.schedule.expect_parks(&fresh);
        fresh
    }

    /// Parks again what is on record as parked, on behalf of the person who has parked it. What a
    /// person has unparked meanwhile is kept, and so is what cannot be parked.
    pub(super) async fn park(&self, engine: &Engine, moved: Moved) {
        let records = self.facilities.records();
        for resource in moved.parked {
            let Some(name) = self.installed.get(&resource).map(|it| it.name.clone()) else {
                continue;
            };
            let key = Key::new(Topic::Park, &*resource);
            let hold = Hold::read(records, &key).await;
            let unknown = || Hold::new("someone", "it was parked before", String::new());
            let Hold { who, why, .. } = hold.unwrap_or_else(unknown);
            let parked = engine.asked_by(who, why).park(name.clone()).await;
            // From here on a worker that starts keeps the resource.
            self.schedule.end_expected_park(&resource);
            let (change, why) = match parked {
                Ok(()) | Err(ChangeError::Stuck { .. }) => {
                    if records.look(|loaded| loaded.documents.contains(&key)) {
                        continue;
                    }
                    (Change::new().unpark(name), "it was unparked before it was parked again")
                }
                Err(error) => {
                    tracing::warn!(resource, %error, "cannot park what was parked before");
                    (Change::new().bounce(name), "it cannot be parked")
                }
            };
            // If the engine has ended, there is nothing to do.
            drop(engine.asked_by(ORIGIN, why).apply(change).await);
        }
    }

    /// Hands their new declarations to the resources that were left in place. None of them makes use
    /// of its own before all have theirs.
    pub(super) fn hand_over(&mut self) {
        let handed: Vec<_> = self
            .installed
            .iter_mut()
            .filter_map(|(name, installed)| {
                let next = installed.next.take()?;
                Some((name.as_str(), &installed.declaration, next))
            })
            .collect();
        let names: Vec<&str> = handed.iter().map(|(name, ..)| *name).collect();
        self.schedule.renew(names, || {
            for (_, declaration, next) in handed {
                declaration.replace(next);
            }
        });
    }
}

/// Returns whether a worker can go on with another declaration: its inputs are still there. One that
/// is only ordered after more resources than before goes on; the schedule has that order.
fn is_same(old: &Declaration, new: &Declaration) -> bool {
    let uses = |declaration: &Declaration| -> Vec<(String, String)> {
        let uses = declaration.dependencies.iter();
        uses.map(|used| (used.alias.clone(), used.resource.clone())).collect()
    };
    let needs: HashSet<&str> = new.needs().map(|(name, _)| name).collect();
    old.kind == new.kind
        && uses(old) == uses(new)
        && old.needs().all(|(name, _)| needs.contains(name))
}
