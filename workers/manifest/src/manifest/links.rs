//! Who depends on whom among the resources of a manifest, and whom they notify.

use std::collections::HashMap;
use std::sync::Arc;

use crankcase_resources::{Dependency, Edges, Order, circle, item_name};

use crate::manifest::alias::Alias;
use crate::manifest::bounds::{Bounds, size_of};
use crate::manifest::expand::Expanded;
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::resource::Draft;

/// How many edges the resources of a manifest may have, of which the depending of all resources of
/// one `for_each` on all of another has many.
const MAX_EDGES: usize = 1_000_000;

/// What one resource depends on and notifies.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) aliases: Vec<Alias>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) notify: Vec<String>,
}

impl Links {
    /// Notes where the secrets are in the states of dependencies. Those of all items are at the same places.
    pub(crate) fn note_secrets(&mut self, secrets_of: &HashMap<String, Arc<[Vec<String>]>>) {
        for alias in &mut self.aliases {
            let item = alias.items.iter().flatten().next();
            let item =
                item.and_then(|(_, item)| self.dependencies.iter().find(|it| it.alias == *item));
            let one = alias.of.as_ref().map(|(name, _)| name);
            let used = one.or_else(|| item.map(|it| &it.resource));
            alias.secrets = used.and_then(|name| secrets_of.get(name)).cloned().unwrap_or_default();
        }
    }
}

/// Looks up what resources refer to, and orders them. Returns the links of each.
pub(crate) fn connect(
    expanded: &Expanded,
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> (Order, Vec<Links>) {
    let drafts = &expanded.drafts;
    let names = drafts.iter().enumerate().map(|(index, draft)| (draft.name.as_str(), index));
    let (positions, edges) = (names.collect(), Edges::new(drafts.len()));
    let mut connecting = Connecting {
        expanded,
        positions,
        bounds,
        problems: &mut *problems,
        edges,
        count: 0,
        is_full: false,
    };
    let links =
        drafts.iter().enumerate().map(|(node, draft)| connecting.link(node, draft)).collect();
    let Connecting { edges, .. } = connecting;
    let order = Order::from_edges(edges).unwrap_or_else(|cycles| {
        for cycle in cycles {
            let path: Vec<&str> = cycle.iter().map(|index| drafts[*index].name.as_str()).collect();
            let first = &drafts[cycle[0]];
            let message = format!("circular dependency: {}", circle(&path));
            problems.with_hint(&first.source, first.offset, message, Hint::of(&first.name));
        }
        Order::default()
    });
    (order, links)
}

/// What a name stands for.
enum Meant {
    /// One resource, by its position.
    One(usize),
    /// The resources of a `for_each`: the items and the positions.
    All(Vec<(String, usize)>),
    /// One that is not there because of its `when`.
    LeftOut,
    /// What is wrong with it is said elsewhere.
    Unsure,
}

struct Connecting<'a> {
    expanded: &'a Expanded,
    positions: HashMap<&'a str, usize>,
    bounds: &'a mut Bounds,
    problems: &'a mut Problems,
    edges: Edges,
    count: usize,
    /// Whether there was no room for an edge: what follows is not looked up any more.
    is_full: bool,
}

impl<'a> Connecting<'a> {
    fn link(&mut self, node: usize, draft: &'a Draft) -> Links {
        let mut links = Links::default();
        let mut used: HashMap<usize, &str> = HashMap::new();
        for (offset, dependency) in &draft.dependencies {
            let Dependency { alias, resource, on_change } = dependency;
            let at = (draft, *offset);
            let (inputs, is_group) = match self.look_up(at, resource) {
                Meant::LeftOut if !self.is_needed(at, dependency) => continue,
                Meant::LeftOut => (Vec::new(), false),
                Meant::Unsure => (Vec::new(), false),
                Meant::One(input) => (vec![(String::new(), input)], false),
                Meant::All(inputs) => (inputs, true),
            };
            let mut items = Vec::new();
            let mut of = None;
            for (item, input) in inputs {
                let used_draft = &self.expanded.drafts[input];
                let resource = used_draft.name.clone();
                of = (!is_group).then(|| (resource.clone(), used_draft.kind.clone()));
                let alias = if is_group { item_name(alias, &item) } else { alias.clone() };
                if let Some(first) = used.insert(input, &dependency.alias) {
                    self.twice(at, (&resource, first));
                }
                let names = is_group.then(|| item.len() + 2 * alias.len() + resource.len());
                if !self.may_add(at, (node, input), names) {
                    continue;
                }
                self.edges.depends(node, input, *on_change);
                items.push((item, alias.clone()));
                links.dependencies.push(Dependency { alias, resource, on_change: *on_change });
            }
            let items = is_group.then_some(items);
            let (name, secrets) = (alias.clone(), Arc::default());
            links.aliases.push(Alias { name, items, of, secrets });
        }
        for (offset, name) in &draft.notify {
            let at = (draft, *offset);
            let (notified, is_group) = match self.look_up(at, name) {
                Meant::One(notified) => (vec![notified], false),
                Meant::All(all) => (all.into_iter().map(|(_, notified)| notified).collect(), true),
                Meant::LeftOut | Meant::Unsure => continue,
            };
            for notified in notified {
                let name = &self.expanded.drafts[notified].name;
                if self.may_add(at, (node, notified), is_group.then_some(name.len())) {
                    self.edges.notifies(node, notified);
                    links.notify.push(name.clone());
                }
            }
        }
        links
    }

    fn look_up(&mut self, (draft, offset): (&Draft, usize), name: &str) -> Meant {
        let Expanded { groups, left_out, unsure, .. } = self.expanded;
        if self.is_full {
            return Meant::Unsure;
        }
        if let Some(position) = self.positions.get(name) {
            return Meant::One(*position);
        }
        if let Some(items) = groups.get(name) {
            let position = |item: &String| {
                let position = self.positions.get(&*item_name(name, item))?;
                Some((item.clone(), *position))
            };
            return Meant::All(items.iter().filter_map(position).collect());
        }
        if left_out.contains(name) {
            return Meant::LeftOut;
        }
        let base = name.split_once('[').map_or(name, |(base, _)| base);
        if unsure.contains(name) || unsure.contains(base) {
            // One stands for all that may be there, if facts are wrong.
            return self
                .positions
                .get(base)
                .map_or(Meant::Unsure, |position| Meant::One(*position));
        }
        let names = self.positions.keys().copied().chain(groups.keys().map(String::as_str));
        let hint = self.problems.nearest(name, names);
        let message = format!("unknown resource {}", quoted(name));
        self.problems.with_hint(&draft.source, offset, message, hint);
        Meant::Unsure
    }

    /// Returns whether the state of what is left out is needed, and says so.
    fn is_needed(&mut self, (draft, offset): (&Draft, usize), dependency: &Dependency) -> bool {
        let Dependency { alias, resource, .. } = dependency;
        if !draft.used.states.contains_key(alias) {
            return false;
        }
        let message = format!(
            "the state of {} is used, and its \"when\" leaves that resource out",
            quoted(resource)
        );
        let hint = Hint::of(resource).or("give this resource the same \"when\"");
        self.problems.with_hint(&draft.source, offset, message, hint);
        true
    }

    /// Returns whether an edge may be added, and says why not. One to a resource of a `for_each` has
    /// names of its own, of so many bytes.
    fn may_add(
        &mut self,
        (draft, offset): (&Draft, usize),
        (node, other): (usize, usize),
        names: Option<usize>,
    ) -> bool {
        if node == other {
            let message = format!("resource {} refers to itself", quoted(&draft.name));
            self.problems.with_hint(&draft.source, offset, message, Hint::of(&draft.name));
            return false;
        }
        if self.is_full {
            return false;
        }
        self.count += 1;
        let names = names.filter(|_| !self.bounds.is_spent());
        let why = if self.count > MAX_EDGES {
            format!("the resources have more than {MAX_EDGES} dependencies")
        } else if let Err(why) = names.map_or(Ok(()), |names| self.bounds.value(size_of(names))) {
            why.to_owned()
        } else {
            return true;
        };
        self.is_full = true;
        self.problems.at(&draft.source, offset, why);
        false
    }

    fn twice(&mut self, (draft, offset): (&Draft, usize), (name, first): (&str, &str)) {
        let message = format!("{} is a dependency twice", quoted(name));
        let hint = Hint::of(name).or(format!("it is there as {} already", quoted(first)));
        self.problems.with_hint(&draft.source, offset, message, hint);
    }
}
