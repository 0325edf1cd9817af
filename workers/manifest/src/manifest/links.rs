//! The dependencies among the resources of a manifest, and the resources that they notify.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crankcase_resources::{Dependency, Edges, OnChange, Order, circle, item_name};

use crate::manifest::alias::Alias;
use crate::manifest::bounds::{Bounds, size_of};
use crate::manifest::expand::Expanded;
use crate::manifest::kept_facts::{KeptFact, KeptFacts, Path, UsedFact, VALUE};
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::resource::Draft;
use crate::manifest::used::Used;

/// How many edges the resources of a manifest may have, of which the depending of all resources of
/// one `for_each` on all of another has many.
const MAX_EDGES: usize = 1_000_000;

/// The dependencies of one resource, and the resources that it notifies.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) aliases: Vec<Alias>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) notify: Vec<String>,
    /// The facts that it uses and that some of the dependencies keep.
    pub(crate) kept_facts: Vec<UsedFact>,
    /// The names that it uses, with those that its variables use, if variables use such facts.
    pub(crate) in_turn: Option<Used>,
    /// Whether it keeps a fact that says which resources there are.
    pub(crate) declares_others: bool,
}

impl Links {
    /// Notes where the secrets are in the states of dependencies, and which of their facts are secrets. Those of all
    /// items are at the same places.
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
            let keeper = self.dependencies.iter().find(|it| it.alias == fact.alias);
            let secrets = keeper.and_then(|it| secrets_of.get(&it.resource));
            let mut secrets = secrets.into_iter().flat_map(|secrets| secrets.iter());
            fact.is_secret = secrets.any(|keys| keys.first().is_none_or(|key| key == VALUE));
        }
    }

    /// Returns the secrets that are used of facts that dependencies keep, as expressions name them.
    pub(crate) fn secret_facts(&self, used: &Used) -> impl Iterator<Item = String> {
        let by_way = self.in_turn.is_some() && (used.all_vars || !used.vars.is_empty());
        let secret = self.kept_facts.iter().filter(|fact| fact.is_secret);
        let secret = secret
            .filter(move |fact| by_way || used.uses_facts(&BTreeSet::from([fact.path.clone()])));
        secret.map(|fact| format!("facts.{}", fact.path.join(".")))
    }
}

/// Looks up what resources refer to, and orders them. Returns the links of each. A resource comes after those that keep
/// facts which it uses; `vars` has what each variable uses, and `files` what the template files of each resource use, if
/// any resource keeps a fact.
pub(crate) fn connect(
    expanded: &Expanded,
    (kept_facts, vars, files): (&KeptFacts, &BTreeMap<String, Used>, &[Used]),
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
    for keeper in declaring(expanded, kept_facts, vars) {
        links[keeper].declares_others = true;
    }
    let Connecting { edges, of_facts, problems, .. } = connecting;
    let order = Order::from_edges(edges).unwrap_or_else(|cycles| {
        cycles.iter().for_each(|cycle| tell_cycle(cycle, (drafts, &of_facts), problems));
        Order::default()
    });
    (order, links)
}

/// Returns the resources that keep facts which say what resources there are, by their positions. `vars` has what each
/// variable uses.
fn declaring(
    expanded: &Expanded,
    kept_facts: &KeptFacts,
    vars: &BTreeMap<String, Used>,
) -> BTreeSet<usize> {
    let used = expanded.used.facts_in_turn(vars);
    let kept = used.iter().flat_map(|path| kept_facts.touched(path));
    kept.filter(|(_, kept)| kept.is_seen()).map(|(_, kept)| kept.keeper).collect()
}

/// The JSON pointers to the facts for which resources come after others: by the resource that uses the fact and the one
/// that keeps it.
type OfFacts<'a> = HashMap<(usize, usize), &'a str>;

/// Reports resources that depend on each other, or a fact that depends on itself by way of them.
fn tell_cycle(
    cycle: &[usize],
    (drafts, of_facts): (&[Draft], &OfFacts<'_>),
    problems: &mut Problems,
) {
    let path: Vec<&str> = cycle.iter().map(|index| drafts[*index].name.as_str()).collect();
    let path = circle(&path);
    let fact = cycle.windows(2).find_map(|pair| {
        let pointer = of_facts.get(&(pair[0], pair[1]))?;
        Some((&drafts[pair[0]], &drafts[pair[1]], *pointer))
    });
    let Some((user, keeper, pointer)) = fact else {
        let first = &drafts[cycle[0]];
        let message = format!("circular dependency: {path}");
        return problems.with_hint(&first.source, first.offset, message, Hint::of(&first.name));
    };
    let message = format!("this fact depends on itself, and may change for ever: {path}");
    let (name, place) = (quoted(&user.name), user.source.place(user.offset));
    let help =
        format!("{name}, at {place}, uses it; keep it at a path on which it does not depend");
    let offset = keeper.config.get("path").map_or(keeper.offset, |entry| entry.key.start);
    problems.with_hint(&keeper.source, offset, message, Hint::of(pointer).or(help));
}

/// The meaning of a name of a resource.
enum Meant {
    /// One resource, by its position.
    One(usize),
    /// The resources of a `for_each`: the items and the positions.
    All(Vec<(String, usize)>),
    /// One that is not there because of its `when`.
    LeftOut,
    /// It is not known which resource is meant. The problem is reported elsewhere.
    Unsure,
}

struct Connecting<'a> {
    expanded: &'a Expanded,
    kept_facts: &'a KeptFacts,
    vars: &'a BTreeMap<String, Used>,
    files: &'a [Used],
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

    /// Has a resource come after those that keep facts which it uses.
    fn link_facts(&mut self, node: usize, draft: &Draft, links: &mut Links) {
        let facts = self.kept_facts;
        if facts.is_empty() {
            return;
        }
        let by_files = self.files.get(node).cloned().unwrap_or_default();
        let of_guard = draft.unsure.iter().find_map(|it| it.late.as_ref());
        let of_guard = of_guard.map(|late| late.used.clone()).unwrap_or_default();
        let all = by_files.and(of_guard).and((*draft.used).clone());
        let used = all.facts_in_turn(self.vars);
        let kept = used.iter().flat_map(|path| facts.touched(path));
        let kept: BTreeMap<(&Path, usize), &KeptFact> =
            kept.map(|(path, kept)| ((path, kept.keeper), kept)).collect();
        if kept.is_empty() {
            return;
        }
        let declared = links.dependencies.iter();
        let declared: HashMap<String, String> =
            declared.map(|it| (it.resource.clone(), it.alias.clone())).collect();
        for ((path, _), kept) in kept {
            let (keeper, resource) = (kept.keeper, &self.expanded.drafts[kept.keeper].name);
            let mut alias = declared.get(resource).cloned();
            if alias.is_none() {
                let used = Dependency::on_fact(&kept.pointer, resource.clone());
                let names = used.alias.len() + resource.len();
                let at = (draft, draft.offset);
                if keeper != node && !self.may_add(at, (node, keeper), Some(names)) {
                    continue;
                }
                self.edges.depends(node, keeper, OnChange::Check);
                self.of_facts.insert((node, keeper), &kept.pointer);
                if keeper == node {
                    continue;
                }
                alias = Some(used.alias.clone());
                links.dependencies.push(used);
            }
            // A fact that a layer hides or sets is seen as it was when the manifest was loaded.
            if let (Some(alias), Some(over)) = (alias, kept.seen_under()) {
                let (path, over) = (path.clone(), over.clone());
                links.kept_facts.push(UsedFact { path, alias, over, is_secret: false });
            }
        }
        let paths: BTreeSet<Path> = links.kept_facts.iter().map(|fact| fact.path.clone()).collect();
        let names = all.vars_in_turn(self.vars);
        let mut vars = names.into_iter().filter_map(|name| self.vars.get(name));
        if vars.any(|used| used.uses_facts(&paths)) {
            links.in_turn = Some(all.in_turn(self.vars));
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
