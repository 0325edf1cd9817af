//! The problems and the claims of configs, as far as they are known while a manifest is loaded.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crankcase_resources::dynamic::KnownConfig;
use crankcase_resources::front::{Declared, DeclaredPart, Order, Place, Secrets};
use crankcase_resources::{AttributeError, Claimed, Declaration};
use serde_json::Value;

use crate::manifest::before::IfFactsAreWrong;
use crate::manifest::bounds::{Bounds, Room, Share};
use crate::manifest::config::Template;
use crate::manifest::expression::{Budget, from_json};
use crate::manifest::globals::AllGlobals;
use crate::manifest::judging::Judging;
use crate::manifest::links::{Links, PartLinks};
use crate::manifest::placed::Placed;
use crate::manifest::problem::{Found, Problem, Problems};
use crate::manifest::resource::Draft;

/// How much work goes into evaluating configs at load. Problems beyond that are found when a config is
/// rendered. The attributes without expressions are judged all the same.
const REHEARSAL: usize = 1_000_000;

/// Evaluates configs at load, as far as they are known.
pub(crate) struct Rehearsal<'a, K> {
    /// How many steps of work are left.
    pub(crate) left: usize,
    bounds: Bounds,
    kinds: &'a K,
    secrets: &'a Secrets,
    pub(crate) problems: Problems,
    /// A resource that is wrong because of facts may be no problem: it is judged again when it is rendered.
    if_wrong: IfFactsAreWrong<'a>,
}

impl<'a, K: Judging> Rehearsal<'a, K> {
    /// Returns a rehearsal that has done nothing yet.
    pub(crate) fn new(
        bounds: Bounds,
        (kinds, secrets): (&'a K, &'a Secrets),
        (problems, if_wrong): (Problems, IfFactsAreWrong<'a>),
    ) -> Self {
        Self { left: REHEARSAL, bounds, kinds, secrets, problems, if_wrong }
    }

    /// Evaluates and judges the configs of all resources, and declares their parts, each part
    /// before its resource. Also returns the known parts of the states that other resources depend
    /// on.
    pub(crate) fn run(
        &mut self,
        drafts: Vec<Draft>,
        (mut links, order): (Vec<Links>, &Order),
        globals: &Arc<AllGlobals>,
    ) -> (Vec<Declaration>, Vec<Placed>, HashMap<String, minijinja::Value>) {
        let room = Arc::default();
        let of_parts = links.iter_mut().map(|links| std::mem::take(&mut links.parts));
        let of_parts: Vec<BTreeMap<String, PartLinks>> = of_parts.collect();
        let declare = |(draft, links)| declare(draft, links, globals, &room);
        let (mut declarations, mut placed): (Vec<_>, Vec<_>) =
            drafts.iter().zip(links).map(declare).unzip();
        // A dependency comes first: the resources that use it can see the known part of its state.
        // Where a circle leaves no order, nothing is known of states.
        let in_files: Vec<usize> = (0..drafts.len()).collect();
        let has_order = order.nodes().len() == drafts.len();
        let (mut states, mut parts) = (HashMap::new(), HashMap::new());
        // The first wrong resource of a `for_each` stands for all.
        let mut wrong = HashSet::new();
        for node in if has_order { order.nodes() } else { &in_files } {
            let (draft, declaration) = (&drafts[*node], &mut declarations[*node]);
            let written = (Arc::as_ptr(&draft.source), draft.offset);
            if !draft.has_config || wrong.contains(&written) {
                continue;
            }
            let template = Arc::clone(&placed[*node].template);
            if draft.unsure.is_some() {
                template.keep(globals, true);
                if let Some(before) = self.if_wrong.before() {
                    before.keep_settings(declaration);
                }
                let kept = self.keep((declaration, &mut placed[*node]), &mut states);
                parts.extend(kept.map(|kept| (*node, kept)));
                continue;
            }
            let before = self.problems.count();
            let (Declared { judged, parts: mut made_of, .. }, deferred) =
                self.rehearse(draft, declaration, (&template, globals), &states);
            link_parts(&mut made_of, &of_parts[*node]);
            if self.problems.count() > before {
                wrong.insert(written);
            }
            let is_wrong = !deferred.is_empty();
            (placed[*node].claimed, placed[*node].wrong) = (judged.claimed, deferred);
            if is_wrong {
                let kept = self.keep((declaration, &mut placed[*node]), &mut states);
                // It is not known what an earlier agent has kept under the name of this resource.
                declarations[*node].is_unsure |= kept.is_none();
                parts.insert(*node, kept.unwrap_or(made_of));
                continue;
            }
            if has_order {
                states.extend(states_of_keepers(&made_of, &of_parts[*node]));
            }
            if !made_of.is_empty() {
                parts.insert(*node, made_of);
            }
            if has_order && !order.dependents(*node).is_empty() && !judged.declared.is_empty() {
                let declared = from_json(&judged.declared.into());
                states.insert(draft.name.clone(), declared);
            }
        }
        let (declarations, placed) = with_parts(declarations.into_iter().zip(placed), parts);
        (declarations, placed, states)
    }

    /// Gives a wrong resource the claims and the states that it had in the site before. Returns the
    /// parts that it had; none if it was not there.
    fn keep(
        &self,
        (declaration, placed): (&mut Declaration, &mut Placed),
        states: &mut HashMap<String, minijinja::Value>,
    ) -> Option<Vec<DeclaredPart>> {
        let before = self.if_wrong.before()?;
        before.keep(declaration, placed);
        let parts = before.parts(declaration);
        let of_parts = parts.iter().flatten().map(|part| &part.declaration.name);
        for name in of_parts.chain([&declaration.name]) {
            states.extend(before.state(name).map(|state| (name.clone(), state.clone())));
        }
        parts
    }

    fn rehearse(
        &mut self,
        draft: &Draft,
        declaration: &mut Declaration,
        (template, globals): (&Template, &AllGlobals),
        states: &HashMap<String, minijinja::Value>,
    ) -> (Declared, Vec<Problem>) {
        let mut unknown = (*draft.wrong).clone();
        if self.bounds.is_spent() {
            unknown.extend(template.config.keys().cloned());
        } else if self.left == 0 {
            // The attributes without expressions are judged all the same.
            unknown.extend(template.with_expressions());
        }
        let mut budget = Budget::of_config(self.bounds.values());
        let known = (&unknown, &known_states(declaration, template, states));
        let mut found =
            Found::new(&mut self.problems, &draft.of_facts, self.if_wrong.fact_problems());
        let (config, unknown) = template.rehearse(known, &mut budget, &mut found);
        self.left = self.left.saturating_sub(budget.spent());
        self.bounds.made(budget.made(), budget.is_overdrawn());
        let known = KnownConfig { config: &config, unknown: &unknown };
        self.kinds.hide(declaration, known.config, self.secrets);
        let mut declared = self.kinds.declare(declaration, &known);
        let errors = std::mem::take(&mut declared.judged.errors);
        let mut told = Vec::new();
        if !errors.is_empty() && found.defers_any() {
            // A kind may blame one attribute for another one. So it is asked for the errors that do
            // not depend on facts.
            told = errors_without(&draft.of_facts, (self.kinds, declaration), &known);
        }
        for error in errors {
            let is_deferred = found.defers_any() && !told.contains(&error);
            let problems = if is_deferred { found.deferred() } else { found.told() };
            template.blame(draft.offset, error, problems);
        }
        let parts = declared.parts.iter().map(|part| &part.claimed);
        let renders_any = parts.chain([&declared.judged.claimed]).any(|it| it.renders_any);
        template.keep(globals, renders_any);
        (declared, found.into_deferred())
    }
}

/// Returns the errors that a kind finds in a config while these attributes are not known.
fn errors_without(
    attributes: &BTreeSet<String>,
    (kinds, declaration): (&impl Judging, &Declaration),
    known: &KnownConfig<'_>,
) -> Vec<AttributeError> {
    let (mut config, mut unknown) = (known.config.clone(), known.unknown.clone());
    for name in attributes {
        config.insert(name.clone(), Value::Null);
        unknown.insert(name.clone());
    }
    let known = KnownConfig { config: &config, unknown: &unknown };
    kinds.declare(&mut declaration.clone(), &known).judged.errors
}

/// Adds to the parts of a resource the links that come of the facts that they keep.
fn link_parts(parts: &mut [DeclaredPart], links: &BTreeMap<String, PartLinks>) {
    for DeclaredPart { declaration, .. } in parts {
        let of_facts = links.get(&declaration.name);
        let dependencies = of_facts.iter().flat_map(|links| &links.dependencies);
        declaration.dependencies.extend(dependencies.cloned());
        declaration.declares_others = of_facts.is_some_and(|links| links.declares_others);
    }
}

/// Returns the known states of the parts that keep facts, by the names of the parts.
fn states_of_keepers(
    parts: &[DeclaredPart],
    links: &BTreeMap<String, PartLinks>,
) -> impl Iterator<Item = (String, minijinja::Value)> {
    let known = parts.iter().filter(|part| !part.state.is_empty());
    let keepers = known.filter(move |part| links.contains_key(&part.declaration.name));
    keepers.map(|part| (part.declaration.name.clone(), from_json(&part.state.clone().into())))
}

/// Puts the parts of each resource before the resource.
fn with_parts(
    resources: impl Iterator<Item = (Declaration, Placed)>,
    mut parts: HashMap<usize, Vec<DeclaredPart>>,
) -> (Vec<Declaration>, Vec<Placed>) {
    let mut whole = (Vec::new(), Vec::new());
    for (node, (owner, placed)) in resources.enumerate() {
        for part in parts.remove(&node).unwrap_or_default() {
            let DeclaredPart { declaration, claimed, .. } = part;
            let (template, offset, wrong) =
                (Arc::clone(&placed.template), placed.offset, Vec::new());
            let placed = Placed { template, offset, claimed, is_part: true, wrong };
            whole.extend([(declaration, placed)]);
        }
        whole.extend([(owner, placed)]);
    }
    whole
}

/// Returns the known parts of the states that a config uses, by alias.
pub(crate) fn known_states<'a>(
    declaration: &'a Declaration,
    template: &Template,
    states: &HashMap<String, minijinja::Value>,
) -> HashMap<&'a str, minijinja::Value> {
    if template.used.states.is_empty() && template.kept_facts.is_empty() {
        return HashMap::new();
    }
    let known = declaration.dependencies.iter().filter_map(|used| {
        let state = states.get(&used.resource)?;
        Some((used.alias.as_str(), state.clone()))
    });
    known.collect()
}

/// Returns the declaration of a resource, and its config with its expressions.
pub(crate) fn declare(
    draft: &Draft,
    links: Links,
    globals: &Arc<AllGlobals>,
    room: &Arc<Room>,
) -> (Declaration, Placed) {
    let late_vars = links.in_turn.is_some().then(|| globals.vars_of_facts());
    let template = Arc::new(Template {
        config: Arc::clone(&draft.config),
        all: Arc::downgrade(globals),
        kept: OnceLock::new(),
        item: draft.item.clone(),
        aliases: links.aliases,
        source: Arc::clone(&draft.source),
        used: links.in_turn.map_or_else(|| Arc::clone(&draft.used), Arc::new),
        of_facts: Arc::clone(&draft.of_facts),
        kept_facts: links.kept_facts,
        late_vars,
        share: Share::new(room),
        unsure: draft.unsure.clone(),
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
    declaration.hidden = (*draft.hidden).clone();
    declaration.is_unsure = draft.unsure.is_some();
    declaration.declares_others = links.declares_others;
    let (offset, claimed, wrong) = (draft.offset, Claimed::unknown(), Vec::new());
    (declaration, Placed { template, offset, claimed, is_part: false, wrong })
}
