//! What has left a site and is put back as it was.

use std::collections::{BTreeSet, HashMap};

use crate::automatic::{conflicts, connect};
use crate::claim::{Claim, PATH};
use crate::declaration::Declaration;
use crate::facilities::{Facilities, Reversal};
use crate::known::KnownConfig;
use crate::literal::Literal;
use crate::make::kept;
use crate::naming::item_name;
use crate::site::Site;

/// What is left of the resources that were put on record and are not in the site as they were.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    /// Those that are put back.
    declarations: Vec<Declaration>,
    /// The names under which nothing is to be on record any more.
    forgotten: Vec<String>,
    /// What is to be on record under another name.
    handed: Vec<(String, Reversal)>,
}

impl Departed {
    /// Returns the site together with what is put back, if that is something.
    pub(crate) fn join(self, site: &Site) -> Option<Site> {
        let mut departed = self.declarations;
        if departed.is_empty() {
            return None;
        }
        connect(&mut departed);
        let joined = site.with(departed);
        joined.inspect_err(|error| tracing::warn!(%error, "what has left is not put back")).ok()
    }
}

impl Site {
    /// Returns the site together with the resources that have left it and are to be put back as they
    /// were, under their old names; `None` if there are none. What need not be put back is forgotten.
    ///
    /// Only resources that were declared with `reverse` are on record. If the site keeps the same
    /// thing by another resource, that one decides, and nothing is put back. Nor is anything by a site
    /// that was [cut](Self::select) down to some resources.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn with_departed(&self, facilities: &Facilities) -> Option<Self> {
        let mut departed = self.departed(facilities).await;
        for name in std::mem::take(&mut departed.forgotten) {
            facilities.forget_reversal(&name).await;
        }
        for (from, to) in std::mem::take(&mut departed.handed) {
            facilities.hand_reversal(&from, to).await;
        }
        departed.join(self)
    }

    /// Returns what has left. Changes nothing.
    pub(crate) async fn departed(&self, facilities: &Facilities) -> Departed {
        let mut departed = Departed::default();
        if self.is_cut() {
            return departed;
        }
        let named = self.declarations().iter().map(|declared| (declared.name.as_str(), declared));
        let named: HashMap<&str, &Declaration> = named.collect();
        for reversal in facilities.reversals().await {
            let is_same = |declared: &&&Declaration| {
                declared.kind == reversal.kind && kept(&declared.claims) == reversal.kept
            };
            match named.get(reversal.resource.as_str()) {
                Some(declared) if !declared.reverse => departed.forgotten.push(reversal.resource),
                Some(declared) if is_same(&declared) => {}
                // The name stands for another thing now.
                Some(declared) => {
                    let resource = item_name(&declared.name, "before");
                    let moved = Reversal { resource, ..reversal.clone() };
                    self.depart(moved.clone(), facilities, &mut departed);
                    departed.handed.push((reversal.resource, moved));
                }
                None => self.depart(reversal, facilities, &mut departed),
            }
        }
        departed
    }

    /// Declares a resource as it was before the site had it, unless another one keeps it now.
    fn depart(&self, reversal: Reversal, facilities: &Facilities, departed: &mut Departed) {
        let name = reversal.resource.clone();
        let Some(config) = reversal.config.clone() else { return departed.forgotten.push(name) };
        let literal = Literal::new(config.clone().into());
        let mut declaration = literal.declare(&reversal.folder, &name, &reversal.kind);
        declaration.place.file = facilities.reversal_file(&name).unwrap_or_default();
        declaration.is_put_back = true;
        let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
        let judged = self.kinds().judge(&reversal.kind, &known);
        if let Err(error) = self.kinds().get(&reversal.kind) {
            return tracing::warn!(resource = name, %error, "it has left, and cannot be put back");
        }
        if let Some(error) = judged.errors.first() {
            return tracing::warn!(resource = name, %error, "it has left, and cannot be put back");
        }
        declaration.claim(&judged.claimed);
        match self.keeper(&declaration) {
            // It takes over what there was before both.
            Some(keeper) if keeper.reverse => {
                let resource = keeper.name.clone();
                let kept = kept(&keeper.claims);
                departed.handed.push((name, Reversal { resource, kept, ..reversal }));
            }
            Some(_) => departed.forgotten.push(name),
            None => departed.declarations.push(declaration),
        }
    }

    /// Returns who keeps what a resource would put back, or uses what it would remove.
    fn keeper(&self, departed: &Declaration) -> Option<&Declaration> {
        let all: Vec<_> =
            self.declarations().iter().chain([departed]).map(Declaration::clone).collect();
        let last = self.declarations().len();
        let conflict = conflicts(&all).into_iter().find(|it| it.first.max(it.second) == last);
        if let Some(conflict) = conflict {
            return self.declarations().get(conflict.first.min(conflict.second));
        }
        let removed = departed.claims.iter().filter(|claim| claim.makes_it_be() == Some(false));
        let removed: Vec<&Claim> = removed.filter(|claim| claim.space == PATH).collect();
        let is_used = |claim: &Claim| {
            claim.space == PATH
                && removed.iter().any(|gone| is_at_or_below(&claim.name, &gone.name))
        };
        self.declarations().iter().find(|declared| declared.claims.iter().any(is_used))
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
