//! The choice of some resources of a site by tags and names, with all that they depend on.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::base::text::did_you_mean;
use crate::declare::declaration::Declaration;
use crate::modes::site::Site;

/// Some of the resources of a site. By default all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// Those with any of these tags are chosen.
    pub tags: Vec<String>,
    /// Those with these names are chosen as well; the name of a `for_each`, or of a resource with parts,
    /// stands for all of them. If there are neither tags nor names, all are chosen.
    pub only: Vec<String>,
    /// Those with these names are left out, and with them all that depend on them.
    pub skip: Vec<String>,
}

impl Selection {
    /// Returns whether nothing is left out.
    pub fn is_all(&self) -> bool {
        self.tags.is_empty() && self.only.is_empty() && self.skip.is_empty()
    }
}

/// A word of a [`Selection`] that means no resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// No resource has this tag.
    #[error("no resource has the tag \"{tag}\"{hint}")]
    Tag {
        /// The tag.
        tag: String,
        /// The nearest tag, as a question; empty if none is near.
        hint: String,
    },
    /// No resource has this name.
    #[error("there is no resource \"{name}\"{hint}")]
    Name {
        /// The name.
        name: String,
        /// The nearest name, as a question; empty if none is near.
        hint: String,
    },
}

impl Site {
    /// Returns the site of the resources that are chosen, and of all that they depend on, directly or not,
    /// without those that are to be skipped and what depends on them. A resource that is only notified by
    /// one of them is not among them. Its notification is on record until a later run has it answered.
    ///
    /// # Errors
    ///
    /// When a tag or a name is none of the site's, with the nearest one.
    pub fn select(&self, selection: &Selection) -> Result<Self, SelectionError> {
        let count = self.declarations.len();
        let Selection { tags, only, skip } = selection;
        let mut is_chosen = vec![tags.is_empty() && only.is_empty(); count];
        for tag in tags {
            self.mark(&mut is_chosen, |declaration| declaration.tags.contains(tag)).ok_or_else(
                || {
                    let tags = self.declarations.iter().flat_map(|declared| &declared.tags);
                    let hint = did_you_mean(tag, tags.map(String::as_str));
                    SelectionError::Tag { tag: tag.clone(), hint }
                },
            )?;
        }
        let mut is_skipped = vec![false; count];
        for (names, marks) in [(only, &mut is_chosen), (skip, &mut is_skipped)] {
            for name in names {
                self.mark(marks, |declaration| is_called(&declaration.name, name)).ok_or_else(
                    || {
                        let names = self.declarations.iter().map(|declared| declared.name.as_str());
                        let hint = did_you_mean(name, names);
                        SelectionError::Name { name: name.clone(), hint }
                    },
                )?;
            }
        }
        let names = self.declarations.iter().enumerate();
        let nodes: HashMap<&str, usize> =
            names.map(|(node, declaration)| (declaration.name.as_str(), node)).collect();
        let needs = |node: &usize| {
            let needs = self.declarations[*node].needs();
            needs.map(|(used, _)| nodes[used]).collect::<Vec<_>>()
        };
        // Each resource comes after all that it depends on.
        for node in self.order.nodes() {
            is_skipped[*node] |= needs(node).into_iter().any(|used| is_skipped[used]);
        }
        for node in self.order.nodes().iter().rev() {
            is_chosen[*node] &= !is_skipped[*node];
            if is_chosen[*node] {
                needs(node).into_iter().for_each(|used| is_chosen[used] = true);
            }
        }
        let site = self.cut(&nodes, &is_chosen);
        Ok(Self { is_cut: self.is_cut || !selection.is_all(), ..site })
    }

    /// Marks the resources that are meant; nothing if none is.
    fn mark(&self, marks: &mut [bool], is_meant: impl Fn(&Declaration) -> bool) -> Option<()> {
        let mut is_any = None;
        for (mark, declaration) in marks.iter_mut().zip(&self.declarations) {
            if is_meant(declaration) {
                *mark = true;
                is_any = Some(());
            }
        }
        is_any
    }

    /// Returns the site of the chosen resources. All that they depend on must be chosen too.
    fn cut(&self, nodes: &HashMap<&str, usize>, is_chosen: &[bool]) -> Self {
        let chosen = self.declarations.iter().enumerate().filter(|(node, _)| is_chosen[*node]);
        let mut declarations = Vec::new();
        for (node, declaration) in chosen {
            let mut declaration = declaration.clone();
            let later = self.order.notified(node).iter().filter(|target| !is_chosen[**target]);
            let later = later.map(|target| self.declarations[*target].name.clone());
            declaration.notify_later.extend(later);
            declaration.notify.retain(|notified| is_chosen[nodes[notified.as_str()]]);
            declaration.left_out.retain(|edge| is_chosen[nodes[edge.resource.as_str()]]);
            declarations.push(declaration);
        }
        let site = self.with(declarations);
        site.expect("a part of what is in order has no circle, and all that it uses")
    }
}

/// Returns whether a resource has this name, or is for an item or a part of what has it.
fn is_called(resource: &str, name: &str) -> bool {
    resource.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}
