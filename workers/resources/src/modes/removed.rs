//! What has left a site and is put back as it was.

use std::collections::{BTreeSet, HashSet};

use crate::base::blocking::blocking;
use crate::base::error::BoxError;
use crate::base::naming::part_name;
use crate::declare::automatic::{conflicts, connect};
use crate::declare::claim::{Claim, PATH};
use crate::declare::declaration::Declaration;
use crate::declare::kept_thing::KeptThing;
use crate::declare::known::KnownConfig;
use crate::declare::literal::Literal;
use crate::kind::kind_source::{RequestError, WantedKind};
use crate::kind::kinds::Kinds;
use crate::modes::site::Site;
use crate::state::facilities::Facilities;
use crate::state::reversal::Reversal;

/// What was put on record, and is not kept by the site any more.
#[derive(Debug, Default)]
pub(crate) struct RemovedResources {
    /// What is put back.
    declarations: Vec<Declaration>,
    /// What need not be on record any more.
    forgotten: Vec<KeptThing>,
    /// The kinds of the site, and those of what is put back.
    kinds: Kinds,
}

impl Site {
    /// Returns the site together with the resources that have left it and are to be put back as they
    /// were, under their old names; `None` if there are none. What need not be put back is forgotten.
    ///
    /// Only resources that were declared with `reverse` are on record. A record is found by the thing that
    /// the resource keeps, so a resource that was renamed has not left. If the site keeps the same thing
    /// without `reverse`, nothing is put back. If the site still uses a thing that would be removed, the
    /// removal waits. A site that was [cut](Self::select) down to some resources puts nothing back.
    ///
    /// A notification whose target has left is forgotten as well.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn with_departed(&self, facilities: &Facilities) -> Option<Self> {
        self.take_over_notices(facilities).await;
        let removed = self.removed(facilities).await;
        Reversal::forget(facilities.records(), &removed.forgotten).await;
        removed.join(self)
    }

    /// Returns what has left. Changes nothing.
    pub(crate) async fn removed(&self, facilities: &Facilities) -> RemovedResources {
        let mut removed = RemovedResources::default();
        if self.is_cut() {
            return removed;
        }
        let reversed = || self.declarations().iter().filter(|declared| declared.reverse);
        let kept = reversed().filter(|declared| declared.is_claimed).map(Declaration::thing);
        let kept: HashSet<KeptThing> = kept.collect();
        // What these keep is known only when their configs are.
        let open = reversed().filter(|declared| !declared.is_claimed);
        let open: HashSet<&str> = open.map(|declared| declared.name.as_str()).collect();
        let mut names = self.declarations().iter().map(|declared| declared.name.clone()).collect();
        let mut left = Reversal::all(facilities.records(), |thing| !kept.contains(thing)).await;
        let unsure = self.unsure();
        left.retain(|(_, reversal)| {
            !open.contains(reversal.resource.as_str()) && !unsure.has(&reversal.resource)
        });
        removed.kinds = with_kinds_of(&left, self.kinds().clone()).await;
        for (thing, reversal) in left {
            if reversal.config.is_none() {
                removed.forgotten.push(thing);
            } else if let Some(declaration) = removed.declare(reversal, thing, &mut names) {
                removed.declarations.push(declaration);
            }
        }
        if !removed.declarations.is_empty() {
            removed.leave_to(self);
        }
        removed
    }
}

/// Adds the kinds of what has left that only a source makes: nothing else of the site may be of them.
async fn with_kinds_of(left: &[(KeptThing, Reversal)], mut kinds: Kinds) -> Kinds {
    let reversed = left.iter().map(|(_, reversal)| reversal).filter(|it| it.config.is_some());
    let unknown = reversed.filter(|it| kinds.get(&it.kind).is_err());
    let wanted = unknown.filter(|it| {
        let made = kinds.source().map(|source| source.name(&it.kind, &it.folder));
        matches!(made, Some(Ok(Some(_))))
    });
    let wanted: Vec<_> =
        wanted.map(|it| WantedKind::new(&it.kind, &it.resource, it.folder.clone())).collect();
    if wanted.is_empty() {
        return kinds;
    }
    let before = kinds.clone();
    let make = move || -> Result<_, BoxError> {
        let errors = kinds.make_more(&wanted);
        for (culprit, error) in errors {
            let resource = match culprit {
                RequestError::Resource(at) | RequestError::Machine(at) => wanted.get(at),
                RequestError::Plug(_) => None,
            };
            let resource = resource.map(|wanted| &*wanted.resource);
            tracing::warn!(resource, error, "it is not known how the type of what has left works");
        }
        Ok(kinds)
    };
    blocking(make).await.unwrap_or_else(|error| {
        tracing::warn!(error, "cannot ask the types of what has left");
        before
    })
}

impl RemovedResources {
    /// Declares a resource as it was before the site had it, unless its kind does not know how.
    fn declare(
        &self,
        reversal: Reversal,
        thing: KeptThing,
        names: &mut HashSet<String>,
    ) -> Option<Declaration> {
        let Reversal { resource, kind, folder, notified, hidden, config } = reversal;
        let config = config?;
        let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
        let judged = self.kinds.judge(&kind, &known);
        let unknown = self.kinds.get(&kind).err().map(|error| error.to_string());
        let wrong = || judged.errors.first().map(ToString::to_string);
        if let Some(error) = unknown.or_else(wrong) {
            tracing::warn!(resource, error, "what has left cannot be put back");
            return None;
        }
        // The name may be that of another thing by now.
        let before = (1..).map(|number| part_name(&resource, &format!("before {number}")));
        let mut free = [resource.clone()].into_iter().chain(before);
        let name = free.find(|name| names.insert(name.clone()))?;
        let mut declaration = Literal::new(config).declare(&folder, &name, &kind);
        (declaration.notify, declaration.hidden) = (notified, hidden);
        declaration.claim(&judged.claimed);
        declaration.record = Some(thing);
        Some(declaration)
    }

    /// Leaves out what the site keeps itself, and for later what the site uses.
    fn leave_to(&mut self, site: &Site) {
        let present = site.declarations().len();
        let all: Vec<_> = site.declarations().iter().chain(&self.declarations).cloned().collect();
        let mut is_left = vec![false; all.len()];
        for conflict in conflicts(&all) {
            let (first, second) =
                (conflict.first.min(conflict.second), conflict.first.max(conflict.second));
            if second >= present {
                is_left[second] = true;
                // A folder in which the site keeps something goes when the site keeps nothing in it
                // any more.
                if first < present && conflict.second == second {
                    self.forgotten.extend(all[second].record.clone());
                }
            }
        }
        let used = site.declarations().iter().flat_map(|declared| &declared.claims);
        let used: BTreeSet<&str> =
            used.filter(|claim| claim.space == PATH).map(|claim| claim.name.as_str()).collect();
        for (removed, is_left) in all[present..].iter().zip(&mut is_left[present..]) {
            *is_left |= removed.claims.iter().any(|claim| removes_any_of(claim, &used));
        }
        let mut is_left = is_left.into_iter().skip(present);
        self.declarations.retain(|_| !is_left.next().unwrap_or_default());
    }

    /// Returns the site together with what is put back, if that is something.
    pub(crate) fn join(self, site: &Site) -> Option<Site> {
        if self.declarations.is_empty() {
            return None;
        }
        let removed: HashSet<String> =
            self.declarations.iter().map(|declared| declared.name.clone()).collect();
        let mut all = site.declarations().to_vec();
        all.extend(self.declarations);
        let names: HashSet<String> = all.iter().map(|declared| declared.name.clone()).collect();
        for declaration in &mut all {
            declaration.notify.retain(|notified| names.contains(notified));
        }
        connect(&mut all);
        // The resources of the site have the edges that they had, and those to what is put back.
        for (joined, own) in all.iter_mut().zip(site.declarations()) {
            joined.automatic.retain(|edge| removed.contains(&edge.resource));
            joined.automatic.extend(own.automatic.iter().cloned());
            joined.left_out.clone_from(&own.left_out);
        }
        let joined = site.with(all).map(|joined| joined.of_kinds(self.kinds));
        joined.inspect_err(|error| tracing::warn!(%error, "what has left is not put back")).ok()
    }
}

/// Returns whether a resource with this claim removes any of these paths, or something above one.
fn removes_any_of(claim: &Claim, paths: &BTreeSet<&str>) -> bool {
    if claim.space != PATH || claim.makes_it_be() != Some(false) {
        return false;
    }
    let below = format!("{}/", claim.name);
    paths.contains(claim.name.as_str())
        || paths.range(below.as_str()..).next().is_some_and(|path| path.starts_with(&below))
}
