//! What has left a site and is put back as it was.

use std::collections::{BTreeSet, HashSet};
use std::convert::Infallible;

use crate::automatic::{conflicts, connect};
use crate::blocking::blocking;
use crate::declaration::Declaration;
use crate::facilities::{Facilities, Reversal};
use crate::kinds::Kinds;
use crate::known::KnownConfig;
use crate::literal::Literal;
use crate::site::Site;

impl Site {
    /// Returns the site together with the resources that have left it and are to be put back as they
    /// were, under their old names; `None` if there are none.
    ///
    /// Only those were put on record that were declared with `reverse`. Where a resource of the site
    /// keeps what one of them would put back, that stays as the site has it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn with_departed(&self, facilities: &Facilities) -> Option<Self> {
        // Nothing is on record then: a simulation, which has no state folder, hands nothing to threads.
        facilities.state()?;
        let read = {
            let facilities = facilities.clone();
            blocking(move || Ok::<_, Infallible>(facilities.reversals()))
        };
        let mut departed = Vec::new();
        for reversal in read.await.unwrap_or_default() {
            match self.names().get(&reversal.resource) {
                Some(true) => {}
                Some(false) => facilities.forget_reversal(&reversal.resource),
                None => departed.extend(self.depart(reversal, facilities)),
            }
        }
        for lost in taken(self.declarations(), &departed) {
            facilities.forget_reversal(&lost);
            departed.retain(|declaration| declaration.name != lost);
        }
        if departed.is_empty() {
            return None;
        }
        connect(&mut departed);
        self.with(departed)
            .inspect_err(|error| tracing::warn!(%error, "what has left is not put back"))
            .ok()
    }

    /// Declares a resource as it was before the site had it.
    fn depart(&self, reversal: Reversal, facilities: &Facilities) -> Option<Declaration> {
        let Reversal { resource, kind, folder, config } = reversal;
        let Some(config) = config else {
            facilities.forget_reversal(&resource);
            return None;
        };
        let file = facilities.reversal_file(&resource)?;
        let mut declaration =
            Literal::new(config.clone().into()).declare(&folder, &resource, &kind);
        declaration.place.file = file;
        declaration.is_put_back = true;
        let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
        let errors = declared(self.kinds(), &mut declaration, &known);
        if errors.is_empty() {
            return Some(declaration);
        }
        tracing::warn!(resource, ?errors, "a resource that has left cannot be put back");
        None
    }
}

/// Takes over what the kind says; returns what is wrong.
fn declared(kinds: &Kinds, declaration: &mut Declaration, known: &KnownConfig<'_>) -> Vec<String> {
    if let Err(unknown) = kinds.get(&declaration.kind) {
        return vec![unknown.to_string()];
    }
    let errors = kinds.declare(declaration, known).judged.errors;
    errors.iter().map(ToString::to_string).collect()
}

/// Returns the names of those that would put back what a resource of the site keeps.
fn taken(present: &[Declaration], departed: &[Declaration]) -> HashSet<String> {
    let all: Vec<_> = present.iter().chain(departed).cloned().collect();
    let conflicts = conflicts(&all);
    let nodes = conflicts.iter().map(|conflict| conflict.first.max(conflict.second));
    nodes.filter(|node| *node >= present.len()).map(|node| all[node].name.clone()).collect()
}
