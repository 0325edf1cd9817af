//! The declaration of a resource that is kept, as it is now.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::declare::declaration::Declaration;

/// The most facts that are kept of declarations by which nobody has visited the resource. No more
/// reasons of a visit are kept.
const KEPT_FACTS: usize = 7;

/// The declaration of a resource, as it is now. Cheap to clone; clones are the same.
///
/// Nobody waits here for another declaration: when a resource gets one, the
/// [`Schedule`](crate::run::Schedule) has it visited. So this takes a seventh of the memory of a
/// channel.
#[derive(Debug, Clone)]
pub struct CurrentDeclaration(Arc<Mutex<Current>>);

#[derive(Debug)]
struct Current {
    declaration: Declaration,
    /// Whether a visit of the resource has used it.
    is_visited: bool,
}

impl CurrentDeclaration {
    /// Returns the place of a resource's declaration.
    pub fn new(declaration: Declaration) -> Self {
        Self(Arc::new(Mutex::new(Current { declaration, is_visited: false })))
    }

    /// Returns the declaration.
    pub fn get(&self) -> Declaration {
        self.0.lock().declaration.clone()
    }

    /// Returns the declaration for a visit, and whether an earlier visit has used it.
    pub(crate) fn visit(&self) -> (Declaration, bool) {
        let current = &mut *self.0.lock();
        let was_visited = std::mem::replace(&mut current.is_visited, true);
        (current.declaration.clone(), was_visited)
    }

    /// Declares the resource in another way. The other declaration has the same name, kind and
    /// dependencies. If no visit has used the declaration before it, the facts that had changed for
    /// that one count as changed for this one too: the newest 7 of all.
    pub fn replace(&self, mut declaration: Declaration) {
        let current = &mut *self.0.lock();
        let earlier = current.declaration.changed_facts.iter().filter(|_| !current.is_visited);
        let earlier = earlier.filter(|fact| !declaration.changed_facts.contains(fact));
        // A resource that is parked may be declared in another way again and again.
        let room = KEPT_FACTS.saturating_sub(declaration.changed_facts.len());
        let earlier: Vec<_> = earlier.take(room).cloned().collect();
        if !earlier.is_empty() {
            declaration.changed_facts.extend(earlier);
        }
        *current = Current { declaration, is_visited: false };
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::CurrentDeclaration;
    use crate::declare::declaration::{Config, Declaration};
    use crate::declare::literal::Literal;

    fn declare(facts: &[&str]) -> Declaration {
        let declared = Literal::new(Config::new()).declare(Path::new("/srv"), "page", "file");
        let mut declared = declared;
        declared.changed_facts = facts.iter().map(|fact| (*fact).to_owned()).collect();
        declared
    }

    #[test]
    fn facts_that_have_changed_are_named_until_the_resource_is_visited() {
        let current = CurrentDeclaration::new(declare(&[]));
        current.visit();

        current.replace(declare(&["/port", "/name"]));
        current.replace(declare(&["/name", "/mode"]));
        let (first, was_visited) = current.visit();
        let (_, is_visited) = current.visit();
        current.replace(declare(&["/mode"]));

        assert_eq!(first.changed_facts, ["/name", "/mode", "/port"]);
        assert_eq!((was_visited, is_visited), (false, true));
        let (last, was_visited) = current.visit();
        assert_eq!((&last.changed_facts[..], was_visited), (&["/mode".to_owned()][..], false));
    }

    #[test]
    fn a_resource_that_nobody_visits_keeps_the_7_newest_facts() {
        let current = CurrentDeclaration::new(declare(&[]));

        for job in 1..=1_000 {
            current.replace(declare(&[&format!("/jobs/{job}")]));
        }

        let (declaration, _) = current.visit();
        let newest: Vec<_> = (994..=1_000).rev().map(|job| format!("/jobs/{job}")).collect();
        assert_eq!(declaration.changed_facts, newest);
    }
}
