//! Which resource keeps which path: each is kept by one.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::declaration::{Declaration, Place};

/// Which resource keeps which path, among the resources of one manifest.
///
/// Paths that are known when the manifest is loaded are compared there. A path that uses the state
/// of another resource is compared when it is known, with those and with each other. Cheap to
/// clone; clones are the same claims.
#[derive(Debug, Clone, Default)]
pub struct Claims(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// The paths that were known from the start, with the resources' names and places.
    declared: HashMap<PathBuf, (String, Place)>,
    /// The paths that became known, alike.
    found: HashMap<PathBuf, (String, Place)>,
    /// The same by resource.
    found_by: HashMap<String, PathBuf>,
}

impl Kept {
    fn release(&mut self, name: &str) {
        if let Some(path) = self.found_by.remove(name) {
            self.found.remove(&path);
        }
    }
}

impl Claims {
    /// Takes over the resources of a manifest; those that are in no manifest any more keep nothing.
    pub fn connect(&self, declarations: &[Declaration]) {
        let mut kept = self.0.lock();
        let declared = declarations.iter().filter_map(|declaration| {
            let path = declaration.keeps.clone()?;
            Some((path, (declaration.name.clone(), declaration.place.clone())))
        });
        kept.declared = declared.collect();
        let may_find = declarations.iter().filter(|declaration| may_find(declaration));
        let may_find: HashSet<&str> = may_find.map(|declared| declared.name.as_str()).collect();
        let names = kept.found_by.keys().filter(|name| !may_find.contains(name.as_str()));
        for name in names.cloned().collect::<Vec<_>>() {
            kept.release(&name);
        }
    }

    /// Claims the path that a resource is found to keep, in place of one that it kept before.
    ///
    /// The error says who keeps it already.
    pub(crate) fn claim(
        &self,
        declaration: &Declaration,
        path: Option<PathBuf>,
    ) -> Result<(), String> {
        let name = &declaration.name;
        let mut kept = self.0.lock();
        if !may_find(declaration) {
            // Its worker may have claimed one for its declaration before.
            kept.release(name);
            return Ok(());
        }
        if kept.found_by.get(name) != path.as_ref() {
            kept.release(name);
        }
        let Some(path) = path else { return Ok(()) };
        let other = kept.declared.get(&path).or_else(|| kept.found.get(&path));
        match other.filter(|(other, _)| other != name) {
            Some((other, place)) => {
                let message = already_kept(&path, other, place);
                kept.release(name);
                Err(message)
            }
            None => {
                kept.found_by.insert(name.clone(), path.clone());
                kept.found.insert(path, (name.clone(), declaration.place.clone()));
                Ok(())
            }
        }
    }
}

/// Returns whether the path that a resource keeps, if any, becomes known only later.
fn may_find(declaration: &Declaration) -> bool {
    declaration.keeps.is_none() && !declaration.noop
}

/// Says that a path has its resource.
fn already_kept(path: &Path, other: &str, place: &Place) -> String {
    format!("{path:?} is kept by resource \"{other}\" already, at {place}")
}
