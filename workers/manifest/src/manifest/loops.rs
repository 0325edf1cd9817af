//! Rules that cause themselves, directly or by way of facts, resources and other rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use crankcase_resources::front::{Edges, Order};
use crankcase_resources::report::EventKind;
use crankcase_resources::rules::Trigger;
use crankcase_resources::{Declaration, OnChange};

use crate::manifest::kept_facts::{Path, path};
use crate::manifest::lines::Source;
use crate::manifest::placed::Placed;
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::used::Used;

/// The trigger of a rule, and its effects.
#[derive(Debug)]
pub(crate) struct Wired {
    pub(crate) name: String,
    pub(crate) source: Arc<Source>,
    /// Where the rule's name stands.
    pub(crate) offset: usize,
    pub(crate) on: Trigger,
    /// The paths of the facts that the rule sets to other values from time to time.
    pub(crate) sets: Vec<String>,
    /// The resources that the rule notifies.
    pub(crate) notifies: Vec<String>,
}

/// Reports loops with a rule in them: each change in a loop may cause the next one, for ever. A
/// value without an expression ends a loop, and a "match" may end one. So `rules` has no rules with
/// a "match", and no values without an expression. `vars` has the names that each variable uses.
pub(crate) fn check_loops(
    rules: &[Wired],
    (declarations, resources): (&[Declaration], &[Placed]),
    vars: &BTreeMap<String, Used>,
    problems: &mut Problems,
) {
    if rules.is_empty() {
        return;
    }
    let Err(circles) = Order::from_edges(edges(rules, (declarations, resources), vars)) else {
        return;
    };
    for circle in circles {
        // A path leads from each node to one of its causes.
        let name = |node: &usize| match (rules.get(*node), node.checked_sub(rules.len())) {
            (Some(rule), _) => format!("rule {}", quoted(&rule.name)),
            (None, node) => {
                let node = node.unwrap_or_default() % declarations.len().max(1);
                format!("resource {}", quoted(&declarations[node].name))
            }
        };
        let Some(at) = circle.iter().position(|node| *node < rules.len()) else { continue };
        let Wired { source, offset, .. } = &rules[circle[at]];
        let ring = &circle[1..];
        let ring = ring.iter().rev().cycle().skip_while(|node| **node != circle[at]);
        let names: Vec<_> = ring.take(circle.len()).map(name).collect();
        let message = format!("these cause each other for ever: {}", names.join(" -> "));
        let help = "a \"match\" that is false at some time ends the loop";
        problems.with_hint(source, *offset, message, Hint::default().or(help));
    }
}

/// Returns the edges from nodes to their causes. The nodes are the rules, then the resources that
/// change, then the resources that are refreshed.
fn edges(
    rules: &[Wired],
    (declarations, resources): (&[Declaration], &[Placed]),
    vars: &BTreeMap<String, Used>,
) -> Edges {
    let (changed, refreshed) = (rules.len(), rules.len() + declarations.len());
    let mut edges = Edges::new(refreshed + declarations.len());
    let mut causes = |cause: usize, node: usize| edges.depends(node, cause, OnChange::Check);
    let users = users(rules, resources, vars);
    let by_name: BTreeMap<&str, usize> =
        declarations.iter().enumerate().map(|(at, it)| (it.name.as_str(), at)).collect();
    let mut sets = |node: usize, pointer: &str| {
        let set = path(pointer);
        let above = (0..set.len()).filter_map(|end| users.get(&set[..end]));
        let within = users.range(set.clone()..).take_while(|(at, _)| at.starts_with(&set));
        let caused = above.chain(within.map(|(_, users)| users)).flatten();
        caused.for_each(|caused| causes(node, *caused));
    };
    for (index, rule) in rules.iter().enumerate() {
        rule.sets.iter().for_each(|pointer| sets(index, pointer));
    }
    for (index, declaration) in declarations.iter().enumerate() {
        let kept =
            declaration.claims.iter().filter(|claim| claim.space == "fact" && claim.is_made());
        kept.for_each(|claim| sets(changed + index, &claim.name));
    }
    for (index, rule) in rules.iter().enumerate() {
        let notified = rule.notifies.iter().filter_map(|name| by_name.get(name.as_str()));
        notified.for_each(|notified| causes(index, refreshed + notified));
        for (at, declaration) in declarations.iter().enumerate() {
            if waits_for(&rule.on, &declaration.name, EventKind::Changed) {
                causes(changed + at, index);
            }
            if waits_for(&rule.on, &declaration.name, EventKind::Refreshed) {
                causes(refreshed + at, index);
            }
        }
    }
    for (index, declaration) in declarations.iter().enumerate() {
        let used = &resources[index].template.used;
        for dependency in &declaration.dependencies {
            let Some(on) = by_name.get(dependency.resource.as_str()) else { continue };
            if used.all_states || used.states.contains_key(&dependency.alias) {
                causes(changed + on, changed + index);
            }
            if dependency.on_change.notifies() {
                causes(changed + on, refreshed + index);
            }
        }
    }
    edges
}

/// Returns the rules and the resources that a change of a fact causes, by the path of the fact.
fn users(
    rules: &[Wired],
    resources: &[Placed],
    vars: &BTreeMap<String, Used>,
) -> BTreeMap<Path, Vec<usize>> {
    let mut users = BTreeMap::<Path, Vec<usize>>::new();
    for (index, rule) in rules.iter().enumerate() {
        if let Trigger::Fact(waits) = &rule.on {
            users.entry(path(waits)).or_default().push(index);
        }
    }
    for (index, placed) in resources.iter().enumerate() {
        for used in placed.template.used.facts_in_turn(vars) {
            users.entry(used).or_default().push(rules.len() + index);
        }
    }
    users
}

/// Returns whether a rule waits for this event of a resource.
fn waits_for(on: &Trigger, name: &str, what: EventKind) -> bool {
    match on {
        Trigger::State(of) => of == name && what == EventKind::Changed,
        Trigger::Event { resource, event } => {
            resource.as_ref().is_none_or(|of| of == name) && event.is_none_or(|event| event == what)
        }
        _ => false,
    }
}
