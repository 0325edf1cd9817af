//! The resources of a manifest as drafts, with their expressions checked.
//!
//! All resources are decoded before the expressions of any are checked: the check of one takes the types and the
//! `for_each` of others. No expression is evaluated here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use crankcase_resources::dynamic::Kind;
use indexmap::IndexMap;

use crate::manifest::check::{self, Usable};
use crate::manifest::document::Written;
use crate::manifest::judging::Judging;
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::resource::{self, Draft, Guard, MetaOfFacts, Types};
use crate::manifest::used::Used;
use crate::manifest::vars::KnownVars;

/// The use of no names, which most configs share.
static NOTHING: LazyLock<Arc<Used>> = LazyLock::new(Arc::default);

/// Decodes the resources and checks their expressions.
pub(crate) fn decode(
    resources: IndexMap<String, Written>,
    kinds_of: &impl Judging,
    (vars, metas): (&KnownVars<'_>, &BTreeMap<String, MetaOfFacts>),
    problems: &mut Problems,
) -> Vec<Draft> {
    let names = kinds_of.names();
    let types = Types { names: &names, source: kinds_of.source(), metas };
    let decoded = resources.into_iter();
    let mut drafts: Vec<Draft> =
        decoded.map(|(name, written)| resource::decode(&name, written, &types, problems)).collect();
    let groups = drafts.iter().filter(|draft| draft.for_each.is_some());
    let groups: HashSet<String> = groups.map(|draft| draft.name.clone()).collect();
    let kinds = drafts.iter();
    let kinds = kinds.filter_map(|draft| Some((draft.name.clone(), kinds_of.kind(&draft.kind)?)));
    let kinds: HashMap<String, &dyn Kind> = kinds.collect();
    let known = Known { vars, groups: &groups, kinds: &kinds };
    for draft in &mut drafts {
        check_guards(draft, vars, problems);
        check_expressions(draft, &known, problems);
    }
    drafts
}

/// Checks the expressions of `when` and `for_each`.
fn check_guards(draft: &mut Draft, vars: &KnownVars<'_>, problems: &mut Problems) {
    let has_item = draft.for_each.is_some();
    if let Some(for_each) = draft.for_each.as_mut().and_then(Arc::get_mut) {
        check_guard(for_each, &vars.usable(false, "\"for_each\""), problems);
        refuse_secret(for_each, problems);
    }
    if let Some(when) = draft.when.as_mut().and_then(Arc::get_mut) {
        check_guard(when, &vars.usable(has_item, "\"when\""), problems);
    }
}

fn check_guard(guard: &mut Guard, usable: &Usable<'_>, problems: &mut Problems) {
    let before = problems.count();
    guard.used = check::check(&guard.source, &guard.node, usable, problems);
    guard.is_wrong = problems.count() > before;
}

/// Refuses a secret in a `for_each`.
fn refuse_secret(for_each: &mut Guard, problems: &mut Problems) {
    let Some(secret) = for_each.used.secrets.first() else { return };
    let message = format!("\"for_each\" uses a secret, {secret}, and names of resources are shown");
    let help = "list the names in a variable without secrets, and take those by name: \
                {{ vars.passwords[item] }}";
    let (hint, place) = (Hint::of(secret).or(help), for_each.node.span.start);
    problems.with_hint(&for_each.source, place, message, hint);
    for_each.is_wrong = true;
}

/// The parts of a manifest that are known when the config of a resource is checked.
struct Known<'a> {
    vars: &'a KnownVars<'a>,
    /// The names of the resources with `for_each`.
    groups: &'a HashSet<String>,
    /// The kinds of the resources, by the names of these.
    kinds: &'a HashMap<String, &'a dyn Kind>,
}

/// Returns the names that the config of a resource may use, and checks that each bare name has one
/// meaning.
fn usable<'a>(draft: &'a Draft, known: &'a Known<'a>, problems: &mut Problems) -> Usable<'a> {
    let Known { vars, kinds, .. } = known;
    let (mut aliases, mut groups) = (BTreeSet::new(), BTreeSet::new());
    let mut states = BTreeMap::new();
    for (offset, dependency) in &draft.dependencies {
        let alias = dependency.alias.as_str();
        if vars.names.contains(alias) {
            let message = format!("alias {} is also the name of a variable", quoted(alias));
            let hint = Hint::of(alias).or("give the dependency another alias");
            problems.with_hint(&draft.source, *offset, message, hint);
        } else if check::RESERVED.contains(&alias) {
            let message = format!("{} cannot be an alias: the name is reserved", quoted(alias));
            problems.with_hint(&draft.source, *offset, message, Hint::of(alias));
        }
        aliases.insert(alias);
        // The name of a single item's resource ends in the item.
        let name = dependency.resource.split('[').next().unwrap_or_default();
        states.extend(kinds.get(name).map(|kind| (alias, kind.states())));
        if known.groups.contains(&dependency.resource) {
            groups.insert(alias);
        }
    }
    Usable {
        aliases: Some(aliases),
        resources: Some(vars.resources),
        groups,
        states,
        parameters: kinds.get(&draft.name).map(|kind| kind.table()),
        ..vars.usable(draft.for_each.is_some(), "a config")
    }
}

/// Checks the expressions of a resource.
fn check_expressions(draft: &mut Draft, known: &Known<'_>, problems: &mut Problems) {
    let (usable, vars) = (usable(draft, known, problems), known.vars);
    let are_items_of_facts =
        draft.for_each.as_ref().is_some_and(|it| it.used.follows_facts(vars.of_facts));
    let (mut wrong, mut of_facts) = (BTreeSet::new(), BTreeSet::new());
    let (mut all, mut uses) = (Used::default(), Vec::with_capacity(draft.config.len()));
    for (attribute, entry) in &*draft.config {
        let before = problems.count();
        let used = check::check_entry(&draft.source, (attribute, entry), &usable, problems);
        if problems.count() > before || used.uses_any(vars.wrong) {
            wrong.insert(attribute.clone());
        }
        if used.follows_facts(vars.of_facts) || used.item && are_items_of_facts {
            of_facts.insert(attribute.clone());
        }
        all = all.and(used.clone());
        uses.push((attribute.clone(), used));
    }
    (draft.wrong, draft.of_facts) = (wrong.into(), of_facts.into());
    draft.used = if all == **NOTHING { Arc::clone(&NOTHING) } else { all.into() };
    draft.uses = uses.into();
}
