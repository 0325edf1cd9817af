//! What follows from the claims of all resources: conflicts, and automatic edges.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;

use crankcase_workers::{is_temporary, temporary_name};

use crate::declare::claim::{Claim, PATH, Role};
use crate::declare::declaration::{Automatic, Declaration, Dependency, OnChange};
use crate::declare::order::components;

/// Two resources that keep the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// The position of the one that was declared first.
    pub first: usize,
    /// The position of the other one.
    pub second: usize,
    /// What the second one keeps.
    pub claim: Claim,
    /// Whether the thing is the path of a temporary file of the first one.
    pub is_temporary: bool,
}

impl Conflict {
    /// Says what the first one does with the thing.
    pub fn how(&self) -> &'static str {
        if self.is_temporary { "used for a temporary file" } else { "kept" }
    }
}

/// Returns the resources that cannot both be kept: a thing has one keeper, and nothing is kept
/// below a path that another resource removes.
pub fn conflicts(declarations: &[Declaration]) -> Vec<Conflict> {
    let mut removed = HashMap::new();
    for (node, declaration) in declarations.iter().enumerate() {
        let gone = declaration.claims.iter().filter(|claim| claim.space == PATH);
        removed.extend(
            gone.filter(|claim| claim.makes_it_be() == Some(false))
                .map(|claim| (claim.name.as_str(), node)),
        );
    }
    let mut keepers: HashMap<(&str, &str), Vec<(usize, &Claim)>> = HashMap::new();
    let mut conflicts = Vec::new();
    for (node, declaration) in declarations.iter().enumerate() {
        let kept = declaration.claims.iter();
        for claim in kept.filter(|claim| matches!(claim.role, Role::Keeps { .. })) {
            let others = keepers.entry((&claim.space, &claim.name)).or_default();
            let first =
                others.iter().find(|(other, kept)| *other != node && claim.is_against(kept));
            let first = first.map(|(first, _)| *first).or_else(|| above(claim, &removed));
            match first.filter(|first| *first != node) {
                Some(first) => {
                    let (claim, is_temporary) = (claim.clone(), false);
                    conflicts.push(Conflict { first, second: node, claim, is_temporary });
                }
                None => others.push((node, claim)),
            }
        }
    }
    conflicts.extend(temporary(declarations));
    conflicts
}

/// Returns the resources that make a path which is that of a temporary file of another one.
fn temporary(declarations: &[Declaration]) -> Vec<Conflict> {
    let made = || {
        let nodes = declarations.iter().enumerate();
        let made = nodes.flat_map(|(node, it)| it.claims.iter().map(move |claim| (node, claim)));
        made.filter(|(_, claim)| claim.space == PATH && claim.makes_it_be().is_some())
    };
    let is_temporary = |claim: &Claim| is_temporary(OsStr::new(&claim.name));
    let named: Vec<_> = made().filter(|(_, claim)| is_temporary(claim)).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let kept = made().filter(|(_, claim)| matches!(claim.role, Role::Keeps { .. }));
    let writers = kept.filter_map(|(node, claim)| {
        let path = Path::new(&claim.name);
        Some((path.with_file_name(temporary_name(path.file_name()?)), node))
    });
    let writers: HashMap<_, _> = writers.collect();
    let against = named.into_iter().filter_map(|(second, claim)| {
        let first = *writers.get(Path::new(&claim.name)).filter(|first| **first != second)?;
        Some(Conflict { first, second, claim: claim.clone(), is_temporary: true })
    });
    against.collect()
}

/// Returns the resource that removes a folder above the path of this claim, if the path is to be
/// there.
fn above(claim: &Claim, removed: &HashMap<&str, usize>) -> Option<usize> {
    if removed.is_empty() || claim.space != PATH || !claim.is_made() {
        return None;
    }
    let mut name = claim.name.as_str();
    while let Some((above, _)) = name.rsplit_once('/') {
        if let Some(node) = removed.get(above) {
            return Some(*node);
        }
        name = above;
    }
    None
}

/// An edge that follows from claims.
struct Edge {
    /// The one that comes first.
    before: usize,
    after: usize,
    on_change: OnChange,
    because: String,
}

/// Gives each declaration its automatic edges: to those that make what it needs. The declared edges
/// must have no cycle.
///
/// They never make a cycle: an edge that would close one is left out, and noted in
/// [`DeclarationFields::left_out`](crate::front::DeclarationFields::left_out).
pub fn connect(declarations: &mut [Declaration]) {
    let edges = edges(declarations);
    let name = |node: usize| declarations[node].name.as_str();
    let safe = without_cycles(&declared(declarations), &edges, name);
    for declaration in declarations.iter_mut() {
        declaration.automatic.clear();
        declaration.left_out.clear();
    }
    for (edge, is_safe) in edges.into_iter().zip(safe) {
        let resource = declarations[edge.before].name.clone();
        let Edge { on_change, because, after, .. } = edge;
        let automatic = Automatic { resource, on_change, because };
        let declaration = &mut declarations[after];
        if is_safe {
            declaration.automatic.push(automatic);
        } else {
            declaration.left_out.push(automatic);
        }
    }
}

/// Returns all edges that the claims ask for, and no declared one, in the order of the declarations.
fn edges(declarations: &[Declaration]) -> Vec<Edge> {
    let makers = Makers::new(declarations);
    let mut edges: Vec<Edge> = Vec::new();
    for (node, declaration) in declarations.iter().enumerate() {
        let first = edges.len();
        let needs = declaration.claims.iter().filter(|_| declaration.has_automatic_edges);
        for claim in needs {
            let Role::Needs { is_told } = claim.role else { continue };
            let on_change = if is_told { OnChange::Notify } else { OnChange::Check };
            for (maker, made) in makers.of(node, claim) {
                let edge = edge(declarations, (node, claim), (maker, made), on_change);
                let is_alike =
                    |other: &&mut Edge| (other.before, other.after) == (edge.before, edge.after);
                match edges[first..].iter_mut().find(is_alike) {
                    Some(other) if is_told => other.on_change = OnChange::Notify,
                    Some(_) => {}
                    None if is_declared(declarations, &edge, is_told) => {}
                    None => edges.push(edge),
                }
            }
        }
    }
    edges
}

/// Returns the edge between a resource that needs something and one that makes it be, or be gone.
fn edge(
    declarations: &[Declaration],
    (node, need): (usize, &Claim),
    (maker, made): (usize, &Claim),
    on_change: OnChange,
) -> Edge {
    let (needer, other) = (&declarations[node].name, &declarations[maker].name);
    if made.makes_it_be() == Some(false) {
        let because = format!("\"{other}\" removes {made}, which \"{needer}\" needs");
        return Edge { before: node, after: maker, on_change: OnChange::Check, because };
    }
    let because = format!("\"{needer}\" needs {need}, and \"{other}\" makes {made}");
    Edge { before: maker, after: node, on_change, because }
}

/// Returns whether a declared edge has the same ends, and notifies if this one does.
fn is_declared(declarations: &[Declaration], edge: &Edge, is_told: bool) -> bool {
    let (before, after) = (&declarations[edge.before], &declarations[edge.after]);
    let does_all = |used: &&Dependency| !is_told || used.on_change.notifies();
    let mut uses = after.dependencies.iter().filter(|used| used.resource == before.name);
    uses.any(|used| does_all(&used)) || before.notify.contains(&after.name)
}

/// Who makes a thing be there, or be gone.
struct Makers<'a>(HashMap<(&'a str, &'a str), Vec<(usize, &'a Claim)>>);

impl<'a> Makers<'a> {
    fn new(declarations: &'a [Declaration]) -> Self {
        let mut makers: HashMap<_, Vec<_>> = HashMap::new();
        for (node, declaration) in declarations.iter().enumerate() {
            for claim in declaration.claims.iter().filter(|claim| claim.makes_it_be().is_some()) {
                makers.entry((&*claim.space, &*claim.name)).or_default().push((node, claim));
            }
        }
        Self(makers)
    }

    /// Returns the others that make what a resource needs; of a path, those of the nearest one at or
    /// above it.
    fn of(&self, node: usize, need: &Claim) -> Vec<(usize, &'a Claim)> {
        let mut name = need.name.as_str();
        let found = loop {
            let makers = self.0.get(&(&*need.space, name)).map_or(&[][..], Vec::as_slice);
            let above = name.rsplit_once('/').filter(|_| need.space == PATH);
            match above {
                Some((above, _)) if makers.iter().all(|(maker, _)| *maker == node) => name = above,
                _ => break makers,
            }
        };
        found.iter().copied().filter(|(maker, _)| *maker != node).collect()
    }
}

/// Returns for each edge whether it is chosen. The edges are taken in the order of the names, and
/// each is chosen that closes no cycle with the declared edges and those that were chosen before.
fn without_cycles<'a>(
    declared: &[Vec<usize>],
    edges: &[Edge],
    name: impl Fn(usize) -> &'a str,
) -> Vec<bool> {
    let (mut inputs, mut doubtful) = in_circles(declared, edges);
    doubtful.sort_by_key(|edge| (name(edges[*edge].after), name(edges[*edge].before)));
    let mut safe = vec![true; edges.len()];
    for edge in doubtful {
        let Edge { before, after, .. } = edges[edge];
        safe[edge] = !comes_after(&inputs, before, after);
        if safe[edge] {
            inputs[after].push(before);
        }
    }
    safe
}

/// Returns the edges that could be part of a cycle if all edges were there: for each node, the
/// nodes that come before it by declared edges; and the positions of the other edges.
///
/// Every other edge is safe, and no search has to follow it. So a search costs as much as the circle
/// is large, and not the manifest.
fn in_circles(declared: &[Vec<usize>], edges: &[Edge]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut together = declared.to_vec();
    edges.iter().for_each(|edge| together[edge.after].push(edge.before));
    let components = components(&together);
    let is_within = |node: usize, input: usize| components[node] == components[input];
    let each = declared.iter().enumerate();
    let declared = each.map(|(node, inputs)| {
        inputs.iter().copied().filter(|input| is_within(node, *input)).collect()
    });
    let doubtful =
        (0..edges.len()).filter(|edge| is_within(edges[*edge].after, edges[*edge].before));
    (declared.collect(), doubtful.collect())
}

/// Returns whether a node comes after another one, or is that one.
fn comes_after(inputs: &[Vec<usize>], node: usize, other: usize) -> bool {
    let mut seen = HashSet::from([node]);
    let mut left = vec![node];
    while let Some(node) = left.pop() {
        if node == other {
            return true;
        }
        left.extend(inputs[node].iter().copied().filter(|input| seen.insert(*input)));
    }
    false
}

/// Returns what comes before each, as declared.
fn declared(declarations: &[Declaration]) -> Vec<Vec<usize>> {
    let nodes = declarations.iter().enumerate().map(|(node, it)| (it.name.as_str(), node));
    let nodes: HashMap<&str, usize> = nodes.collect();
    let mut inputs = vec![Vec::new(); declarations.len()];
    for (node, declaration) in declarations.iter().enumerate() {
        let used = declaration.dependencies.iter().filter_map(|used| nodes.get(&*used.resource));
        inputs[node].extend(used);
        for notified in declaration.notify.iter().filter_map(|name| nodes.get(name.as_str())) {
            inputs[*notified].push(node);
        }
    }
    inputs
}

#[cfg(test)]
mod tests;
