//! Which automatic edges are left out because they would close a circle.

use proptest::prelude::*;

use crate::declare::automatic::{Edge, comes_after, in_circles, without_cycles};
use crate::declare::declaration::OnChange;

fn edge(before: usize, after: usize) -> Edge {
    Edge { before, after, on_change: OnChange::Check, because: String::new() }
}

/// Returns names that are in another order than the nodes.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|node| format!("r{}", node * 7 % count)).collect()
}

/// Chooses as the rule is stated: each edge is tried against all that are there.
fn one_by_one(declared: &[Vec<usize>], edges: &[Edge], names: &[String]) -> Vec<bool> {
    let mut inputs = declared.to_vec();
    let mut order: Vec<usize> = (0..edges.len()).collect();
    order.sort_by_key(|edge| (&names[edges[*edge].after], &names[edges[*edge].before]));
    let mut safe = vec![false; edges.len()];
    for edge in order {
        let Edge { before, after, .. } = edges[edge];
        if !comes_after(&inputs, before, after) {
            inputs[after].push(before);
            safe[edge] = true;
        }
    }
    safe
}

#[test]
fn a_small_circle_among_20_000_resources_is_all_that_is_searched() {
    let count = 20_000;
    // A chain, and in the midst of it three that need each other.
    let mut edges: Vec<Edge> = (1..count).map(|node| edge(node - 1, node)).collect();
    edges.push(edge(10_002, 10_000));
    let mut declared = vec![Vec::new(); count];
    declared[10_001].push(10_000);
    declared[15_000].push(5);

    let (inputs, doubtful) = in_circles(&declared, &edges);

    assert_eq!(doubtful, [10_000, 10_001, count - 1]);
    assert_eq!(inputs.concat(), [10_000]);
    let names = names(count);
    let safe = without_cycles(&declared, &edges, |node| &names[node]);
    assert_eq!(safe.iter().filter(|is_safe| !**is_safe).count(), 1);
}

proptest! {
    #[test]
    fn the_choice_is_the_one_of_trying_each_edge(
        count in 1..12usize,
        declared in prop::collection::vec((0..12usize, 0..12usize), 0..8),
        edges in prop::collection::vec((0..12usize, 0..12usize), 0..30),
    ) {
        let names = names(count);
        let mut inputs = vec![Vec::new(); count];
        for (one, other) in declared {
            // From lower to higher nodes, so without a cycle.
            let (before, after) = (one.min(other), one.max(other));
            if before < after && after < count {
                inputs[after].push(before);
            }
        }
        let edges = edges.into_iter().filter(|(before, after)| before != after);
        let edges: Vec<Edge> = edges
            .filter(|(before, after)| *before.max(after) < count)
            .map(|(before, after)| edge(before, after))
            .collect();

        let safe = without_cycles(&inputs, &edges, |node| &names[node]);

        prop_assert_eq!(safe, one_by_one(&inputs, &edges, &names));
    }
}
