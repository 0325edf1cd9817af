//! The resources that there are: those whose `when` is true, with one for each item of a `for_each`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crankcase_resources::front::{item_name, worker_name};
use serde_json::Value;

use crate::manifest::at_load::evaluated;
use crate::manifest::before::IfFactsAreWrong;
use crate::manifest::bounds::Bounds;
use crate::manifest::expression::{Budget, Names, from_json};
use crate::manifest::globals::Globals;
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Node};
use crate::manifest::problem::{FactProblems, Hint, Problems, quoted};
use crate::manifest::resource::{Draft, Guard, Item, Late, Unsure};
use crate::manifest::structure::Deciding;
use crate::manifest::vars::KnownVars;

/// How many resources all `for_each` of a manifest may make together.
const MAX_ITEMS: usize = 10_000;
/// How long the name of a resource, or of its worker, may be, in bytes.
const MAX_NAME: usize = 255;

/// The resources that there are.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    pub(crate) drafts: Vec<Draft>,
    /// The names of those with `for_each`, each with the items that there are resources for.
    pub(crate) groups: BTreeMap<String, Vec<String>>,
    /// The names of those that are left out because of their `when`.
    pub(crate) left_out: BTreeSet<String>,
    /// The names of those that may be there or not, because their `when` or `for_each` is wrong.
    pub(crate) unsure: BTreeSet<String>,
    /// The names that each `when` and `for_each` uses.
    pub(crate) deciding: Deciding,
    /// The faults of facts that do not change which resources there are.
    pub(crate) warnings: Vec<String>,
}

/// Returns the resources that there are.
pub(crate) fn expand(
    drafts: Vec<Draft>,
    (globals, if_wrong): (&Globals, IfFactsAreWrong<'_>),
    vars: &KnownVars<'_>,
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Expanded {
    let mut budget = Budget::of_values(bounds.values());
    let (mut expanded, is_spent) = (Expanded::default(), bounds.is_spent());
    let mut expansion = Expansion {
        globals,
        if_wrong,
        vars,
        problems,
        budget: &mut budget,
        expanded: &mut expanded,
        count: 0,
        is_spent,
    };
    for draft in drafts {
        expansion.add(draft);
    }
    bounds.made(budget.made(), budget.is_overdrawn());
    expanded
}

struct Expansion<'a> {
    globals: &'a Globals,
    if_wrong: IfFactsAreWrong<'a>,
    vars: &'a KnownVars<'a>,
    problems: &'a mut Problems,
    budget: &'a mut Budget,
    expanded: &'a mut Expanded,
    /// How many resources all `for_each` have made.
    count: usize,
    /// Whether nothing more is taken, as something went beyond a bound.
    is_spent: bool,
}

impl Expansion<'_> {
    /// Evaluates a `when` or a `for_each`. If facts make it wrong and that is no problem of the
    /// manifest, the error says what is wrong. If the problem was reported, the error is empty.
    fn tried<T>(
        &mut self,
        guard: &Guard,
        evaluate: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Result<T, Option<Unsure>> {
        if guard.is_wrong || guard.used.uses_any(self.vars.wrong) || self.is_spent {
            return Err(None);
        }
        let may_defer = self.if_wrong.fact_problems() == FactProblems::Deferred;
        let is_deferred = may_defer && guard.used.follows_facts(self.vars.of_facts);
        // An agent learns later values by itself. Any other caller needs the note that they are
        // known after apply.
        let is_late = !may_defer && self.vars.are_late(&guard.used);
        if !is_deferred && !is_late {
            return evaluate(self).ok_or(None);
        }
        let told = std::mem::take(self.problems);
        let value = evaluate(self);
        let deferred = std::mem::replace(self.problems, told);
        match (value, deferred.first()) {
            (Some(value), None) => Ok(value),
            (_, Some(problem)) if !self.is_spent => {
                let place = || guard.source.place(guard.node.span.start);
                let late = || Late { used: guard.used.clone(), problem: problem.clone() };
                let late = is_late.then(|| Arc::new(late()));
                Err(Some(Unsure { late, ..Unsure::of(problem, place) }))
            }
            _ => {
                self.problems.append(deferred);
                Err(None)
            }
        }
    }

    fn add(&mut self, mut draft: Draft) {
        for guard in [&draft.for_each, &draft.when].into_iter().flatten() {
            self.expanded.deciding.add(&draft.name, &guard.used);
        }
        let Some(for_each) = draft.for_each.take() else {
            self.add_one(draft);
            return;
        };
        let unsure = match self.tried(&for_each, |it| it.items(&for_each)) {
            Ok(items) => return self.add_items((draft, &for_each), items),
            Err(unsure) => unsure,
        };
        // If one resource stood for all items before, the items are not known.
        let before = self.if_wrong.before();
        let before = before.filter(|it| it.resource(&draft.name, &draft.kind).is_none());
        match (unsure, before) {
            (None, _) => drop(self.expanded.unsure.insert(draft.name)),
            // One resource stands for all that may be there.
            (Some(why), None) => {
                self.expanded.unsure.insert(draft.name.clone());
                self.expanded.drafts.push(Draft { unsure: Some(Arc::new(why)), ..draft });
            }
            (Some(why), Some(before)) => {
                let items = before.items(&draft.name);
                if items.is_empty() {
                    self.warn(&draft.name, &why);
                }
                draft.unsure = Some(Arc::new(why));
                self.add_items((draft, &for_each), items);
            }
        }
    }

    fn warn(&mut self, name: &str, Unsure { place, message, .. }: &Unsure) {
        self.expanded.warnings.push(format!("{name}: {place}: {message}"));
    }

    fn add_items(&mut self, (draft, for_each): (Draft, &Guard), items: Vec<Item>) {
        let (name, place) = (draft.name.clone(), for_each.node.span.start);
        let mut keys = Vec::with_capacity(items.len());
        let size = draft.size();
        for item in items {
            // The values of the item itself were counted when they were made.
            if let Err(why) = self.budget.value(size) {
                self.problems.at(&draft.source, place, why);
                self.is_spent = true;
                self.expanded.unsure.insert(name);
                return;
            }
            let key = item.key.clone();
            let each = Draft { name: item_name(&name, &key), item: Some(item), ..draft.clone() };
            if each.name.len().max(worker_name(&each.name).len()) > MAX_NAME {
                let message = format!(
                    "the name of the resource for the item {} is longer than {MAX_NAME} bytes",
                    quoted(&key)
                );
                self.wrong(&draft.source, place, message, &key);
            } else if self.add_one(each) {
                keys.push(key);
            }
        }
        // Sorted, so that the dependents of all items do not change with the order of the list.
        keys.sort_unstable();
        self.expanded.groups.insert(name, keys);
    }

    /// Adds a resource unless it is left out; returns whether it is there.
    fn add_one(&mut self, mut draft: Draft) -> bool {
        let is_there = match draft.when.take() {
            None => Ok(true),
            Some(when) => self.tried(&when, |it| it.condition(&draft, &when)),
        };
        let is_there = match (is_there, self.if_wrong.before()) {
            (Ok(is_there), _) => is_there,
            (Err(None), _) => {
                self.expanded.unsure.insert(draft.name);
                return false;
            }
            (Err(Some(why)), Some(before))
                if before.resource(&draft.name, &draft.kind).is_none() =>
            {
                self.warn(&draft.name, &why);
                false
            }
            (Err(Some(why)), _) => {
                draft.unsure = Some(Arc::new(why));
                true
            }
        };
        if is_there {
            self.expanded.drafts.push(draft);
        } else {
            self.expanded.left_out.insert(draft.name);
        }
        is_there
    }

    fn condition(&mut self, draft: &Draft, when: &Guard) -> Option<bool> {
        match self.value(draft.item.as_ref(), when)? {
            Value::Bool(value) => Some(value),
            other => {
                let message = format!("\"when\" is true or false, not {}", described(&other));
                self.problems.at(&when.source, when.node.span.start, message);
                None
            }
        }
    }

    fn items(&mut self, for_each: &Guard) -> Option<Vec<Item>> {
        let (source, place) = (&for_each.source, for_each.node.span.start);
        let items: Vec<Item> = match self.value(None, for_each)? {
            Value::Array(values) => self.of_list((source, &for_each.node), values)?,
            Value::Object(map) => {
                let item = |(key, value): (String, Value)| {
                    let value = serde_json::json!({"key": key, "value": value});
                    Item { key, value }
                };
                map.into_iter().map(item).collect()
            }
            other => {
                let message =
                    format!("\"for_each\" is a list of texts or a map, not {}", described(&other));
                self.problems.at(source, place, message);
                return None;
            }
        };
        if self.count + items.len() > MAX_ITEMS {
            let message =
                format!("all \"for_each\" of a manifest make more than {MAX_ITEMS} resources");
            self.problems.at(source, place, message);
            return None;
        }
        self.count += items.len();
        Some(items)
    }

    /// Takes a list of texts without duplicates.
    fn of_list(
        &mut self,
        (source, node): (&Source, &Node),
        values: Vec<Value>,
    ) -> Option<Vec<Item>> {
        let before = self.problems.count();
        let mut seen = BTreeSet::new();
        let mut items = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            // An item has its own place where the list is written out.
            let place = match &node.data {
                Data::List(written) => written.get(index).unwrap_or(node).span.start,
                _ => node.span.start,
            };
            let Value::String(key) = value else {
                let message = format!(
                    "the items of \"for_each\" are texts; item {} is {}",
                    index + 1,
                    described(&value)
                );
                self.problems.at(source, place, message);
                continue;
            };
            if !seen.insert(key.clone()) {
                let message = format!("{} is there twice in \"for_each\"", quoted(&key));
                self.wrong(source, place, message, &key);
                continue;
            }
            items.push(Item { value: key.clone().into(), key });
        }
        (self.problems.count() == before).then_some(items)
    }

    /// Evaluates a guard. Its value has to be known at load.
    fn value(&mut self, item: Option<&Item>, guard: &Guard) -> Option<Value> {
        let item = item.map(|item| from_json(&item.value));
        let names = Names { item, ..self.globals.names() };
        let node = (&*guard.source, &guard.node);
        let value = evaluated(node, (&names, &mut *self.budget), self.problems);
        self.is_spent = self.budget.is_overdrawn();
        value
    }

    fn wrong(&mut self, source: &Source, offset: usize, message: String, value: &str) {
        self.problems.with_hint(source, offset, message, Hint::of(value));
    }
}

/// Returns the words for a value, for messages.
fn described(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
