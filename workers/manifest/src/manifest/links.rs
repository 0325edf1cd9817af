//! The dependencies among the resources of a manifest, and the resources that they notify.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crankcase_resources::OnChange;
use crankcase_resources::front::{Dependency, Edges, Order, circle, item_name};

use crate::manifest::alias::Alias;
use crate::manifest::bounds::{Bounds, size_of};
use crate::manifest::expand::Expanded;
use crate::manifest::fact_circle::FactCircle;
use crate::manifest::kept_facts::{Keeper, KeptFact, KeptFacts, Path, UsedFact, VALUE};
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::resource::Draft;
use crate::manifest::used::{Used, UsedByFiles};

/// The most edges among the resources of a manifest. There are many if all resources of one
/// `for_each` depend on all of another.
const MAX_EDGES: usize = 1_000_000;

/// The dependencies of one resource, and the resources that it notifies.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) aliases: Vec<Alias>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) notify: Vec<String>,
    /// The facts that it or its parts use and that other resources keep.
    pub(crate) kept_facts: Vec<UsedFact>,
    /// The names that it uses, with those that its variables use, if variables use such facts.
    pub(crate) in_turn: Option<Used>,
    /// Whether it keeps a fact that says which resources there are.
    pub(crate) declares_others: bool,
    /// Its parts that keep facts, and its parts that use such facts, by their names.
    pub(crate) parts: BTreeMap<String, PartLinks>,
}

/// The links of a part of a resource that come of facts. All others are those of the resource.
#[derive(Debug, Default)]
pub(crate) struct PartLinks {
    /// The parts of the same resource that keep facts which it uses.
    pub(crate) dependencies: Vec<Dependency>,
    /// Whether it keeps a fact that says which resources there are.
    pub(crate) declares_others: bool,
}

impl Links {
    /// Lets expressions see, under an alias, a fact that a resource keeps. If a layer hides or sets
    /// the fact, they see it as it was when the manifest was loaded.
    fn see(&mut self, (path, fact): (&Path, &KeptFact), keeper: &str, alias: &str) {
        if let Some(over) = fact.seen_under() {
            let (path, over) = (path.clone(), over.clone());
            let (keeper, alias) = (keeper.to_owned(), alias.to_owned());
            self.kept_facts.push(UsedFact { path, keeper, alias, over, is_secret: false });
        }
    }

    /// Notes where the secrets are in the states of dependencies, and which of their facts are
    /// secrets. The secrets of all items are at the same places.
    pub(crate) fn note_secrets(&mut self, secrets_of: &HashMap<String, Arc<[Vec<String>]>>) {
        for alias in &mut self.aliases {
            let item = alias.items.iter().flatten().next();
            let item =
                item.and_then(|(_, item)| self.dependencies.iter().find(|it| it.alias == *item));
            let one = alias.of.as_ref().map(|(name, _)| name);
            let used = one.or_else(|| item.map(|it| &it.resource));
            alias.secrets = used.and_then(|name| secrets_of.get(name)).cloned().unwrap_or_default();
        }
        for fact in &mut self.kept_facts {
            let secrets = secrets_of.get(&fact.keeper);
            let mut secrets = secrets.into_iter().flat_map(|secrets| secrets.iter());
            fact.is_secret = secrets.any(|keys| keys.first().is_none_or(|key| key == VALUE));
        }
    }

    /// Returns the used secrets among the facts that dependencies keep, as expressions name them.
    pub(crate) fn secret_facts(&self, used: &Used) -> impl Iterator<Item = String> {
        let by_way = self.in_turn.is_some() && (used.all_vars || !used.vars.is_empty());
        let secret = self.kept_facts.iter().filter(|fact| fact.is_secret);
        let secret = secret
            .filter(move |fact| by_way || used.uses_facts(&BTreeSet::from([fact.path.clone()])));
        secret.map(|fact| format!("facts.{}", fact.path.join(".")))
    }
}

/// Looks up the resources that others refer to, and orders all. Returns the links of each. A
/// resource comes after the keepers of the facts that it or its parts use. `vars` has the names
/// that each variable uses, and `files` the names that the template files of each resource use, if
/// any resource keeps a fact.
pub(crate) fn connect(
    expanded: &Expanded,
    (kept_facts, vars, files): (&KeptFacts, &BTreeMap<String, Used>, &[UsedByFiles]),
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> (Order, Vec<Links>) {
    let drafts = &expanded.drafts;
    let names = drafts.iter().enumerate().map(|(index, draft)| (draft.name.as_str(), index));
    let (positions, edges) = (names.collect(), Edges::new(drafts.len()));
    let mut connecting = Connecting {
        expanded,
        kept_facts,
        vars,
        files,
        positions,
        bounds,
        problems,
        edges,
        of_facts: HashMap::new(),
        count: 0,
        is_full: false,
    };
    let mut links: Vec<Links> =
        drafts.iter().enumerate().map(|(node, draft)| connecting.link(node, draft)).collect();
    note_keepers(&mut links, (expanded, kept_facts, vars));
    let Connecting { edges, of_facts, problems, .. } = connecting;
    let order = Order::from_edges(edges).unwrap_or_else(|cycles| {
        cycles.iter().for_each(|cycle| tell_cycle(cycle, (drafts, &of_facts), problems));
        Order::default()
    });
    (order, links)
}

/// Notes the parts that keep facts, and the keepers of facts that say which resources there are.
/// `vars` has the names that each variable uses.
fn note_keepers(
    links: &mut [Links],
    (expanded, kept_facts, vars): (&Expanded, &KeptFacts, &BTreeMap<String, Used>),
) {
    for Keeper { node, part } in kept_facts.iter().map(|fact| &fact.keeper) {
        if let Some(part) = part {
            links[*node].parts.entry(part.clone()).or_default();
        }
    }
    let used = kept_facts.used(&expanded.deciding.used, vars);
    for Keeper { node, part } in used.values().filter(|it| it.is_seen()).map(|it| &it.keeper) {
        match part {
            Some(part) => {
                links[*node].parts.entry(part.clone()).or_default().declares_others = true;
            }
            None => links[*node].declares_others = true,
        }
    }
}

/// The facts because of which a resource comes after another: by the resource that uses the fact,
/// and the resource that keeps it, itself or in a part.
type OfFacts<'a> = HashMap<(usize, usize), &'a KeptFact>;

/// Returns the name of the resource that keeps a fact.
fn name_of<'a>(keeper: &'a Keeper, drafts: &'a [Draft]) -> &'a str {
    keeper.part.as_ref().unwrap_or(&drafts[keeper.node].name)
}

/// Reports resources that depend on each other, or a fact that depends on itself by way of them.
fn tell_cycle(
    cycle: &[usize],
    (drafts, of_facts): (&[Draft], &OfFacts<'_>),
    problems: &mut Problems,
) {
    let mut path: Vec<&str> = cycle.iter().map(|index| drafts[*index].name.as_str()).collect();
    let by_fact = cycle.windows(2).enumerate().find_map(|(at, pair)| {
        let fact = of_facts.get(&(pair[0], pair[1]))?;
        Some((at, *fact))
    });
    let Some((at, fact)) = by_fact else {
        let first = &drafts[cycle[0]];
        let message = format!("circular dependency: {}", circle(&path));
        return problems.with_hint(&first.source, first.offset, message, Hint::of(&first.name));
    };
    let (user, keeper) = (&drafts[cycle[at]], &drafts[cycle[at + 1]]);
    let mut offset = keeper.config.get("path").map_or(keeper.offset, |entry| entry.key.start);
    if let Some(part) = &fact.keeper.part {
        // The config of a part is nowhere written. A part needs the resource that it belongs to.
        path[at + 1] = part;
        path.insert(at + 2, &keeper.name);
        offset = keeper.offset;
    }
    let used_at = user.source.place(user.offset);
    let (pointer, user, source) = (&fact.pointer, &user.name, &keeper.source);
    FactCircle { path, pointer, user, used_at, source, offset }.tell(problems);
}

/// The meaning of a name of a resource.
enum Meant {
    /// One resource, by its position.
    One(usize),
    /// The resources of a `for_each`: the items and the positions.
    All(Vec<(String, usize)>),
    /// A resource that is left out because of its `when`.
    LeftOut,
    /// It is not known which resource is meant. The problem is reported elsewhere.
    Unsure,
}

struct Connecting<'a> {
    expanded: &'a Expanded,
    kept_facts: &'a KeptFacts,
    vars: &'a BTreeMap<String, Used>,
    files: &'a [UsedByFiles],
    positions: HashMap<&'a str, usize>,
    bounds: &'a mut Bounds,
    problems: &'a mut Problems,
    edges: Edges,
    of_facts: OfFacts<'a>,
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
        self.link_facts(node, draft, &mut links);
        let late = draft.unsure.iter().find_map(|it| it.late.as_ref());
        if let Some(late) = late.filter(|_| links.kept_facts.is_empty()) {
            self.problems.add(late.problem.clone());
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

    /// Orders a resource after the keepers of the facts that it or its parts use. If the keeper is
    /// a part of the same resource, the part that uses the fact comes after that part.
    fn link_facts(&mut self, node: usize, draft: &Draft, links: &mut Links) {
        let (facts, vars) = (self.kept_facts, self.vars);
        if facts.is_empty() {
            return;
        }
        let UsedByFiles { own, of_parts } = self.files.get(node).cloned().unwrap_or_default();
        let of_guard = draft.unsure.iter().find_map(|it| it.late.as_ref());
        let of_guard = of_guard.map(|late| late.used.clone()).unwrap_or_default();
        let own = own.and(of_guard).and((*draft.used).clone());
        let all = of_parts.values().cloned().fold(own.clone(), Used::and);
        let declared = links.dependencies.iter();
        let declared: HashMap<String, String> =
            declared.map(|it| (it.resource.clone(), it.alias.clone())).collect();
        for ((path, keeper), fact) in facts.used(&all, vars) {
            if keeper.node != node {
                self.link_fact(node, (path, fact), &declared, links);
            }
        }
        for ((_, keeper), fact) in facts.used(&own, vars) {
            if keeper.node == node {
                self.edges.depends(node, node, OnChange::Check);
                self.of_facts.insert((node, node), fact);
            }
        }
        for (part, used) in of_parts {
            for ((path, keeper), fact) in facts.used(&used, vars) {
                if keeper.node == node {
                    let keeper = name_of(keeper, &self.expanded.drafts);
                    let used = Dependency::on_fact(&fact.pointer, keeper.to_owned());
                    if links.kept_facts.iter().all(|seen| seen.alias != used.alias) {
                        links.see((path, fact), keeper, &used.alias);
                    }
                    links.parts.entry(part.clone()).or_default().dependencies.push(used);
                }
            }
        }
        let paths: BTreeSet<Path> = links.kept_facts.iter().map(|fact| fact.path.clone()).collect();
        let names = all.vars_in_turn(vars);
        let mut used = names.into_iter().filter_map(|name| vars.get(name));
        if used.any(|used| used.uses_facts(&paths)) {
            links.in_turn = Some(all.in_turn(vars));
        }
    }

    /// Orders a resource after the one that keeps a fact, itself or in a part. `declared` has the
    /// aliases of the declared dependencies, by their names.
    fn link_fact(
        &mut self,
        node: usize,
        (path, fact): (&Path, &'a KeptFact),
        declared: &HashMap<String, String>,
        links: &mut Links,
    ) {
        let drafts = &self.expanded.drafts;
        let (draft, keeper) = (&drafts[node], name_of(&fact.keeper, drafts));
        if let Some(alias) = declared.get(keeper) {
            return links.see((path, fact), keeper, alias);
        }
        let used = Dependency::on_fact(&fact.pointer, keeper.to_owned());
        let (names, nodes) = (used.alias.len() + keeper.len(), (node, fact.keeper.node));
        if self.may_add((draft, draft.offset), nodes, Some(names)) {
            self.edges.depends(node, fact.keeper.node, OnChange::Check);
            self.of_facts.insert(nodes, fact);
            links.see((path, fact), keeper, &used.alias);
            links.dependencies.push(used);
        }
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
            // If facts are wrong, one resource stands for all that may be there.
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

    /// Returns whether the state of a resource that is left out is needed, and reports that.
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

    /// Returns whether an edge may be added, and reports why not. An edge to a resource of a
    /// `for_each` has its own names, of this many bytes.
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
