//! Which resource keeps what: each thing is kept by one.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::declare::claim::{Claim, Role};
use crate::declare::declaration::{Declaration, Place};

/// What each resource keeps, among the resources of one site.
///
/// Claims that are known when a manifest is loaded are compared there. What uses the state of another
/// resource is compared when it is known, with those and with each other. Cheap to clone; clones are
/// the same claims.
#[derive(Debug, Clone, Default)]
pub struct Claims(Arc<Mutex<KnownClaims>>);

/// The space and the name of a thing.
type ClaimKey = (Cow<'static, str>, String);

#[derive(Debug, Default)]
struct KnownClaims {
    /// What was known from the start.
    declared: HashMap<ClaimKey, Vec<Keeper>>,
    /// What became known.
    found: HashMap<ClaimKey, Vec<Keeper>>,
    /// The things that became known, by resource.
    found_by: HashMap<String, Vec<ClaimKey>>,
}

#[derive(Debug)]
struct Keeper {
    declaration: Declaration,
    claim: KeptClaim,
}

/// A claim of a keeper.
#[derive(Debug)]
enum KeptClaim {
    /// The one at this position of the declaration.
    Declared(usize),
    /// One that became known.
    Found(Box<Claim>),
}

impl Keeper {
    fn claim(&self) -> &Claim {
        match &self.claim {
            KeptClaim::Declared(position) => &self.declaration.claims[*position],
            KeptClaim::Found(claim) => claim,
        }
    }
}

impl KnownClaims {
    fn release(&mut self, name: &str) {
        for thing in self.found_by.remove(name).unwrap_or_default() {
            if let Some(keepers) = self.found.get_mut(&thing) {
                keepers.retain(|keeper| keeper.declaration.name != name);
                if keepers.is_empty() {
                    self.found.remove(&thing);
                }
            }
        }
    }

    /// Returns another resource that keeps what this one cannot keep then.
    fn other(&self, name: &str, claim: &Claim) -> Option<&Keeper> {
        let thing = thing(claim);
        let keepers = self.declared.get(&thing).into_iter().chain(self.found.get(&thing));
        let mut others = keepers.flatten().filter(|keeper| keeper.declaration.name != name);
        others.find(|keeper| keeper.claim().is_against(claim))
    }
}

impl Claims {
    /// Takes over the resources of a site; those that are in no site any more keep nothing.
    pub fn connect(&self, declarations: &[Declaration]) {
        let mut kept = self.0.lock();
        kept.declared.clear();
        for declaration in declarations {
            for (position, claim) in declaration.claims.iter().enumerate() {
                if matches!(claim.role, Role::Keeps { .. }) {
                    let keepers = kept.declared.entry(thing(claim)).or_insert_with(one);
                    let claim = KeptClaim::Declared(position);
                    keepers.push(Keeper { declaration: declaration.clone(), claim });
                }
            }
        }
        let may_find = declarations.iter().filter(|declaration| declaration.may_find());
        let may_find: HashSet<&str> = may_find.map(|declared| declared.name.as_str()).collect();
        let names = kept.found_by.keys().filter(|name| !may_find.contains(name.as_str()));
        for name in names.cloned().collect::<Vec<_>>() {
            kept.release(&name);
        }
    }

    /// Releases what a resource was found to keep. What was known from the start stays.
    pub(crate) fn release(&self, name: &str) {
        self.0.lock().release(name);
    }

    /// Claims what a resource is found to keep, in place of what it was found to keep before.
    ///
    /// The error says who keeps it already; the resource keeps nothing more then.
    pub(crate) fn claim(
        &self,
        declaration: &Declaration,
        claims: Vec<Claim>,
    ) -> Result<(), String> {
        let name = &declaration.name;
        let mut kept = self.0.lock();
        kept.release(name);
        let claims = claims.into_iter().filter(|claim| matches!(claim.role, Role::Keeps { .. }));
        for claim in claims {
            if let Some(other) = kept.other(name, &claim) {
                let other = &other.declaration;
                let message = already_kept((&claim, "kept"), &other.name, &other.place);
                kept.release(name);
                return Err(message);
            }
            let thing = thing(&claim);
            kept.found_by.entry(name.clone()).or_default().push(thing.clone());
            let claim = KeptClaim::Found(Box::new(claim));
            let keeper = Keeper { declaration: declaration.clone(), claim };
            kept.found.entry(thing).or_insert_with(one).push(keeper);
        }
        Ok(())
    }
}

/// Returns room for one keeper: a thing seldom has more.
fn one() -> Vec<Keeper> {
    Vec::with_capacity(1)
}

fn thing(claim: &Claim) -> ClaimKey {
    (claim.space.clone(), claim.name.clone())
}

/// Says that another resource keeps a thing already, or uses it in another way.
pub fn already_kept((claim, how): (&Claim, &str), other: &str, place: &Place) -> String {
    let Claim { space, name, .. } = claim;
    format!("{space} {name:?} is {how} by resource \"{other}\" already, at {place}")
}
