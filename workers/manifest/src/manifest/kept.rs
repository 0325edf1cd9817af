//! Conflicts of resources: a resource keeps a thing that another one keeps already, maybe under
//! another path to the same file, or a thing in the agent's own state folder. Both are found as far
//! as a look can tell.

use std::path::Path;

use crankcase_resources::front::{FileConflict, already_kept, conflicts, file_conflicts};
use crankcase_resources::{Claim, Declaration};

use crate::manifest::before::IfFactsAreWrong;
use crate::manifest::node::Data;
use crate::manifest::placed::Placed;
use crate::manifest::problem::{FactProblems, Hint, Problems};
use crate::manifest::resource::Unsure;

/// The resources of a manifest, and where they were declared.
type Site<'a> = (&'a [Declaration], &'a [Placed]);

/// A resource, by its position, and what it keeps.
type Kept<'a> = (usize, &'a Claim);

/// Finds things that several resources keep, files that they keep under two paths, through
/// symlinks, hard links or mounts, and things in the state folder of the agent. Problems of facts
/// may be deferred. In that case returns the wrong resources, each of which was right before.
pub(crate) fn check_kept(
    site: Site<'_>,
    (state, if_wrong): (Option<&Path>, IfFactsAreWrong<'_>),
    problems: &mut Problems,
) -> Vec<(usize, Unsure)> {
    let mut wrong = Wrong { site, if_wrong, deferred: Vec::new(), problems };
    for conflict in conflicts(site.0) {
        let second = (conflict.second, &conflict.claim);
        wrong.tell_kept((conflict.first, conflict.how()), second, "make one resource of the two");
    }
    for conflict in file_conflicts(site.0, state) {
        match conflict {
            FileConflict::InState { node, claim, folder, .. } => {
                let message = format!("{claim} is in the agent's state folder {folder:?}");
                let hint = Hint::of(&claim.name).or("only the agent keeps what is in there");
                wrong.tell(&[node], &claim, message, hint);
            }
            FileConflict::Same { first, other, second, claim, .. } => {
                let how = format!("kept as {:?}", other.name);
                wrong.tell_kept((first, &how), (second, &claim), "both paths lead to one file");
            }
        }
    }
    wrong.deferred
}

/// The conflicts that were found.
struct Wrong<'a, 'b> {
    site: Site<'a>,
    if_wrong: IfFactsAreWrong<'a>,
    /// The resources that are wrong because of facts, if that is deferred.
    deferred: Vec<(usize, Unsure)>,
    problems: &'b mut Problems,
}

impl Wrong<'_, '_> {
    /// Reports that a resource keeps a thing that another one keeps already.
    fn tell_kept(&mut self, (first, how): (usize, &str), (second, claim): Kept<'_>, help: &str) {
        let (declarations, resources) = self.site;
        let Placed { template, offset, .. } = &resources[first];
        let place = template.source.place(template.offset_of(&claim.space, *offset));
        let message = already_kept((claim, how), &declarations[first].name, &place);
        self.tell(&[second, first], claim, message, Hint::of(&claim.name).or(help));
    }

    /// Reports a problem with a claim of some resources: at the first of them, unless one of them
    /// is deferred.
    fn tell(&mut self, nodes: &[usize], claim: &Claim, message: String, hint: Hint) {
        let (_, resources) = self.site;
        let told = &resources[nodes[0]];
        let offset = told.template.offset_of(&claim.space, told.offset);
        match self.deferrable(nodes, claim) {
            Some(node) => {
                let place = told.template.source.place(offset);
                self.deferred.push((node, Unsure { place, message, late: None }));
            }
            None => self.problems.with_hint(&told.template.source, offset, message, hint),
        }
    }

    /// Returns the resource that counts as wrong: one whose claim follows from facts. Of several it
    /// is one whose claims have changed, and of those one that does not write out the name of the
    /// claim.
    fn deferrable(&self, nodes: &[usize], claim: &Claim) -> Option<usize> {
        if self.if_wrong.fact_problems() == FactProblems::Told {
            return None;
        }
        let (declarations, resources) = self.site;
        let is_as_before = |node: usize| {
            self.if_wrong.before().is_some_and(|before| before.has_claims_of(&declarations[node]))
        };
        let may_be = |node: &usize| {
            let template = &resources[*node].template;
            // A claim does not say from which attribute it comes. The attribute with the name of
            // its space counts, if there is one, and any attribute if there is none.
            let follows_facts = match template.config.contains_key(&*claim.space) {
                true => template.of_facts.contains(&*claim.space),
                false => !template.of_facts.is_empty() && !is_as_before(*node),
            };
            template.unsure.is_none() && follows_facts
        };
        let is_written = |node: usize| {
            let mut entries = resources[node].template.config.values();
            entries.any(|it| matches!(&it.value.data, Data::String(text) if *text == claim.name))
        };
        let wrong = nodes.iter().copied().filter(may_be);
        wrong.min_by_key(|node| (is_as_before(*node), is_written(*node)))
    }
}
