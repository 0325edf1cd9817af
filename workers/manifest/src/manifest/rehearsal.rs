//! What is wrong with configs, and what they claim, as far as that is known while a manifest is loaded.

use std::sync::{Arc, OnceLock};

use crankcase_resources::{Claimed, Declaration, Judged, KnownConfig, Place};

use crate::manifest::beside::Placed;
use crate::manifest::bounds::{Bounds, Room, Share};
use crate::manifest::config::Template;
use crate::manifest::expression::Budget;
use crate::manifest::globals::Globals;
use crate::manifest::links::Links;
use crate::manifest::problem::Problems;
use crate::manifest::resource::Draft;

/// How much work goes into evaluating configs at load. What is beyond is found when it is rendered;
/// the attributes without expressions are judged all the same.
const REHEARSAL: usize = 1_000_000;

/// Evaluates configs at load, as far as they are known.
pub(crate) struct Rehearsal<F> {
    /// How many steps of work are left.
    pub(crate) left: usize,
    bounds: Bounds,
    judge: F,
    pub(crate) problems: Problems,
}

impl<F: Fn(&str, &KnownConfig<'_>) -> Judged> Rehearsal<F> {
    /// Returns one that has done nothing yet.
    pub(crate) fn new(bounds: Bounds, judge: F, problems: Problems) -> Self {
        Self { left: REHEARSAL, bounds, judge, problems }
    }

    /// Evaluates and judges the configs of all resources.
    pub(crate) fn run(
        &mut self,
        drafts: Vec<Draft>,
        links: Vec<Links>,
        globals: &Arc<Globals>,
    ) -> (Vec<Declaration>, Vec<Placed>) {
        let room = Arc::default();
        let mut rehearsed = (Vec::with_capacity(drafts.len()), Vec::with_capacity(drafts.len()));
        // Of the resources of one `for_each` the first that is wrong stands for all.
        let mut last: Option<(Draft, bool)> = None;
        for (draft, links) in drafts.into_iter().zip(links) {
            let is_wrong = last.is_some_and(|(last, is_wrong)| is_wrong && last.is_beside(&draft));
            let before = self.problems.count();
            let declared = declare(&draft, links, globals, &room);
            rehearsed.extend([self.rehearse(&draft, declared, is_wrong)]);
            last = Some((draft, is_wrong || self.problems.count() > before));
        }
        rehearsed
    }

    fn rehearse(
        &mut self,
        draft: &Draft,
        (mut declaration, template): (Declaration, Arc<Template>),
        is_left_out: bool,
    ) -> (Declaration, Placed) {
        let (offset, has_config) = (draft.offset, draft.has_config);
        let mut unknown = (*draft.wrong).clone();
        if self.bounds.is_spent() {
            unknown.extend(template.config.keys().cloned());
        } else if self.left == 0 {
            // What is written out is judged all the same.
            unknown.extend(template.with_expressions());
        }
        if !has_config || is_left_out {
            let claimed = Claimed::unknown();
            return (declaration, Placed { template, offset, claimed });
        }
        let mut budget = Budget::of_config(self.bounds.values());
        let (config, unknown) = template.rehearse(&unknown, &mut budget, &mut self.problems);
        self.left = self.left.saturating_sub(budget.spent());
        self.bounds.made(budget.made(), budget.is_overdrawn());
        let known = KnownConfig { config: &config, unknown: &unknown };
        let Judged { errors, claimed, .. } = (self.judge)(&declaration.kind, &known);
        for error in errors {
            template.blame(offset, error, &mut self.problems);
        }
        declaration.claim(&claimed);
        template.may_use_all.set(claimed.renders_any).expect("a resource is rehearsed once");
        (declaration, Placed { template, offset, claimed })
    }
}

/// Returns the declaration of a resource, and its config with its expressions.
fn declare(
    draft: &Draft,
    links: Links,
    globals: &Arc<Globals>,
    room: &Arc<Room>,
) -> (Declaration, Arc<Template>) {
    let template = Arc::new(Template {
        config: Arc::clone(&draft.config),
        globals: Arc::clone(globals),
        item: draft.item.clone(),
        aliases: links.aliases,
        source: Arc::clone(&draft.source),
        used: Arc::clone(&draft.used),
        may_use_all: OnceLock::new(),
        share: Share::new(room),
    });
    let place: Place = draft.source.place(draft.offset);
    let config = Arc::clone(&template);
    let (name, kind) = (draft.name.clone(), draft.kind.clone());
    let mut declaration = Declaration::new(name, kind, draft.source.folder(), place, config);
    declaration.dependencies = links.dependencies;
    declaration.notify = links.notify;
    declaration.noop = draft.meta.noop || draft.readonly;
    declaration.readonly = draft.readonly;
    declaration.reverse = draft.meta.reverse;
    declaration.tags.clone_from(&draft.tags);
    declaration.poll = draft.meta.poll;
    declaration.timeout = draft.meta.timeout;
    declaration.has_automatic_edges = draft.meta.automatic_edges;
    (declaration, template)
}
