//! The strongly connected components of a graph, by Kosaraju's algorithm.

use std::mem::replace;

/// Returns the component of each node, as the number of one node in it. Two nodes are in one component
/// if each can be reached from the other: an edge lies on a cycle only if both its ends are in one.
pub(crate) fn components(inputs: &[Vec<usize>]) -> Vec<usize> {
    let mut is_seen = vec![false; inputs.len()];
    let mut order = Vec::with_capacity(inputs.len());
    (0..inputs.len()).for_each(|root| visit(root, inputs, &mut is_seen, &mut order));
    let mut dependents = vec![Vec::new(); inputs.len()];
    for (node, inputs) in inputs.iter().enumerate() {
        inputs.iter().for_each(|input| dependents[*input].push(node));
    }
    is_seen.fill(false);
    let mut components = vec![0; inputs.len()];
    for root in order.into_iter().rev() {
        let mut members = Vec::new();
        visit(root, &dependents, &mut is_seen, &mut members);
        members.into_iter().for_each(|member| components[member] = root);
    }
    components
}

/// Adds the nodes that can be reached from a node and were not seen yet, each after those behind it.
/// Without recursion: a chain may be as long as a manifest allows.
fn visit(root: usize, edges: &[Vec<usize>], is_seen: &mut [bool], order: &mut Vec<usize>) {
    if replace(&mut is_seen[root], true) {
        return;
    }
    let mut path = vec![(root, edges[root].iter())];
    while let Some((node, rest)) = path.last_mut() {
        match rest.next() {
            Some(next) if replace(&mut is_seen[*next], true) => {}
            Some(next) => path.push((*next, edges[*next].iter())),
            None => {
                order.push(*node);
                path.pop();
            }
        }
    }
}
