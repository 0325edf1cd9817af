//! Places the nodes of a graph in layers: a node is to the right of all its inputs.
//!
//! The method is that of Sugiyama, Tagawa and Toda (1981): layers by the longest path, an order within the layers
//! by barycentres, and then the places. The places in a layer are the nearest ones to where their neighbours are
//! that keep the order, found by pooling adjacent violators. It uses neither chance nor time: the same graph always
//! has the same places.
//!
//! All edges from one input pass through a layer at the same place, so that an input with thousands of users takes
//! one place in each layer, and not thousands.

use std::collections::BTreeMap;

/// How often the order of the layers is improved.
const SWEEPS: usize = 8;

/// How often the places are brought nearer to those of their neighbours.
const ROUNDS: usize = 6;

/// The places of the nodes of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// The layer of each node; 0 is on the left.
    pub(super) layers: Vec<usize>,
    /// Where each node begins, from the top.
    pub(super) tops: Vec<i32>,
    /// For each edge, its place in each layer that it passes between its ends. Empty for an edge to the left, as
    /// there is one in each circle.
    pub(super) passes: Vec<Vec<i32>>,
    /// The height of the whole.
    pub(super) height: i32,
}

/// The measures of what is placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measures<'a> {
    /// The height of each node.
    pub(super) heights: &'a [i32],
    /// The height of what passes through a layer.
    pub(super) pass: i32,
    /// The least distance between two in one layer.
    pub(super) gap: i32,
}

/// Places the nodes. Each edge leads from an input to its user.
pub(super) fn lay_out(measures: Measures<'_>, edges: &[(usize, usize)]) -> Layout {
    let layers = layers(measures.heights.len(), edges);
    let mut rows = Rows::new(measures, &layers, edges);
    rows.order();
    let (tops, height) = rows.place(measures.gap);
    let passes = edges.iter().map(|(input, user)| {
        let between = layers[*input] + 1..layers[*user].max(layers[*input] + 1);
        between.map(|layer| tops[rows.passing[&(*input, layer)]] + measures.pass / 2).collect()
    });
    let passes = passes.collect();
    Layout { tops: tops[..layers.len()].to_vec(), layers, passes, height }
}

/// Returns the layer of each node: one more than the highest layer of its inputs. A node that has more users than
/// inputs is as near to its users as it can be.
fn layers(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let (mut inputs, mut users) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (input, user) in edges.iter().filter(|(input, user)| input != user) {
        inputs[*user].push(*input);
        users[*input].push(*user);
    }
    let mut awaited: Vec<usize> = inputs.iter().map(Vec::len).collect();
    let mut layers = vec![0_usize; count];
    let mut order: Vec<usize> = (0..count).filter(|node| awaited[*node] == 0).collect();
    let mut is_placed: Vec<bool> = awaited.iter().map(|awaited| *awaited == 0).collect();
    let (mut next, mut first) = (0, 0);
    while order.len() < count {
        // Each node that is left is in a circle or behind one: the first is placed as if it waited for nothing.
        if next == order.len() {
            while is_placed[first] {
                first += 1;
            }
            is_placed[first] = true;
            order.push(first);
        }
        let input = order[next];
        next += 1;
        for user in &users[input] {
            if !is_placed[*user] {
                layers[*user] = layers[*user].max(layers[input] + 1);
                awaited[*user] -= 1;
                if awaited[*user] == 0 {
                    is_placed[*user] = true;
                    order.push(*user);
                }
            }
        }
    }
    for node in order.into_iter().rev() {
        let nearest = users[node].iter().map(|user| layers[*user]).min();
        if let Some(nearest) = nearest
            && inputs[node].len() < users[node].len()
        {
            layers[node] = layers[node].max(nearest.saturating_sub(1));
        }
    }
    spread(&mut layers, |node| inputs[node].is_empty() && users[node].is_empty());
    layers
}

/// Spreads the nodes without an edge over all layers, and over more of them if they are many.
fn spread(layers: &mut [usize], is_alone: impl Fn(usize) -> bool) {
    let alone: Vec<usize> = (0..layers.len()).filter(|node| is_alone(*node)).collect();
    let most = layers.iter().max().map_or(0, |last| last + 1);
    let columns = most.max(alone.len().isqrt() / 2);
    for (index, node) in alone.into_iter().enumerate() {
        layers[node] = index % columns;
    }
}

/// What is in the layers: nodes, and edges that pass through. The numbers of the nodes come first.
struct Rows {
    layers: Vec<Vec<usize>>,
    heights: Vec<i32>,
    /// For an input and a layer, what passes there.
    passing: BTreeMap<(usize, usize), usize>,
    /// The neighbours of each in the layer to its left, and in the one to its right.
    near: [Vec<Vec<usize>>; 2],
    /// The place of each in the order of its layer.
    position: Vec<usize>,
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

impl Rows {
    fn new(measures: Measures<'_>, layers: &[usize], edges: &[(usize, usize)]) -> Self {
        let count = layers.len();
        let mut rows = Self {
            layers: vec![Vec::new(); layers.iter().max().map_or(0, |last| last + 1)],
            heights: measures.heights.to_vec(),
            passing: BTreeMap::new(),
            near: [vec![Vec::new(); count], vec![Vec::new(); count]],
            position: vec![0; count],
        };
        (0..count).for_each(|node| rows.enter(layers[node], node));
        for (input, user) in edges {
            let mut before = *input;
            for layer in layers[*input] + 1..layers[*user] {
                let next = rows.heights.len();
                let pass = *rows.passing.entry((*input, layer)).or_insert(next);
                if pass == next {
                    rows.heights.push(measures.pass);
                    rows.position.push(0);
                    rows.near.iter_mut().for_each(|near| near.push(Vec::new()));
                    rows.enter(layer, pass);
                    rows.join(before, pass);
                }
                before = pass;
            }
            if layers[*input] < layers[*user] {
                rows.join(before, *user);
            }
        }
        rows
    }

    fn enter(&mut self, layer: usize, item: usize) {
        self.position[item] = self.layers[layer].len();
        self.layers[layer].push(item);
    }

    fn join(&mut self, left: usize, right: usize) {
        self.near[RIGHT][left].push(right);
        self.near[LEFT][right].push(left);
    }

    /// Orders the layers so that few edges cross.
    fn order(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        let mut in_vain = 0;
        for sweep in 0..SWEEPS {
            // One sweep to each side.
            if best.0 == 0 || in_vain == 2 {
                break;
            }
            let count = self.layers.len();
            for step in 1..count {
                match sweep % 2 {
                    0 => self.sort(step, LEFT),
                    _ => self.sort(count - 1 - step, RIGHT),
                }
            }
            let crossings = self.crossings();
            in_vain += 1;
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
                in_vain = 0;
            }
        }
        self.layers = best.1;
        for layer in &self.layers {
            layer.iter().enumerate().for_each(|(at, item)| self.position[*item] = at);
        }
    }

    /// Sorts a layer by the mean place of the neighbours on one side.
    fn sort(&mut self, layer: usize, side: usize) {
        let mean = |item: usize| match &self.near[side][item][..] {
            [] => self.position[item] as f64,
            near => {
                let sum: usize = near.iter().map(|neighbour| self.position[*neighbour]).sum();
                sum as f64 / near.len() as f64
            }
        };
        let mut keyed: Vec<(f64, usize)> =
            self.layers[layer].iter().map(|item| (mean(*item), *item)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (position, (_, item)) in keyed.iter().enumerate() {
            self.position[*item] = position;
            self.layers[layer][position] = *item;
        }
    }

    /// Counts the pairs of edges that cross.
    fn crossings(&self) -> usize {
        let mut crossings = 0;
        for (layer, next) in self.layers.iter().zip(self.layers.iter().skip(1)) {
            // A Fenwick tree of how many edges end at or before a place.
            let mut ends = vec![0; next.len() + 1];
            let mut before = 0;
            for item in layer {
                let mut places: Vec<_> =
                    self.near[RIGHT][*item].iter().map(|right| self.position[*right] + 1).collect();
                places.sort_unstable();
                for place in &places {
                    let mut at = *place;
                    let mut lower = 0;
                    while at > 0 {
                        lower += ends[at];
                        at -= at & at.wrapping_neg();
                    }
                    crossings += before - lower;
                }
                for place in &places {
                    let mut at = *place;
                    while at < ends.len() {
                        ends[at] += 1;
                        at += at & at.wrapping_neg();
                    }
                }
                before += places.len();
            }
        }
        crossings
    }

    /// Returns where each begins, and the height of all.
    fn place(&self, gap: i32) -> (Vec<i32>, i32) {
        let mut middles = vec![0.0; self.heights.len()];
        for layer in &self.layers {
            let offsets = self.offsets(layer, gap);
            let half = offsets.last().map_or(0.0, |last| last / 2.0);
            layer.iter().zip(offsets).for_each(|(item, offset)| middles[*item] = offset - half);
        }
        let count = self.layers.len();
        for round in 0..ROUNDS {
            for step in 0..count {
                let (layer, side) =
                    if round % 2 == 0 { (step, LEFT) } else { (count - 1 - step, RIGHT) };
                self.settle(layer, side, &mut middles, gap);
            }
        }
        self.gather(&mut middles, gap);
        let begin = |item: usize| middles[item] - f64::from(self.heights[item]) / 2.0;
        let top = (0..middles.len()).map(begin).fold(f64::INFINITY, f64::min);
        let tops: Vec<i32> =
            (0..middles.len()).map(|item| (begin(item) - top).round() as i32).collect();
        let ends = tops.iter().zip(&self.heights).map(|(top, height)| top + height);
        let height = ends.max().unwrap_or(0);
        (tops, height)
    }

    /// Brings what is not connected with the largest part as near to it as can be.
    fn gather(&self, middles: &mut [f64], gap: i32) {
        let mut parts = self.parts();
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        let middle = |part: &[usize], middles: &[f64]| {
            part.iter().map(|item| middles[*item]).sum::<f64>() / part.len() as f64
        };
        let Some(largest) = parts.first().map(|part| middle(part, middles)) else { return };
        parts.remove(0);
        let distance = |part: &[usize], middles: &[f64]| middle(part, middles) - largest;
        // The nearest ones first: the others come to rest at them.
        parts.sort_by(|a, b| distance(a, middles).abs().total_cmp(&distance(b, middles).abs()));
        let mut part_of = vec![0; middles.len()];
        for (number, part) in parts.iter().enumerate() {
            part.iter().for_each(|item| part_of[*item] = number + 1);
        }
        let layer_of = self
            .layers
            .iter()
            .enumerate()
            .flat_map(|(layer, row)| row.iter().map(move |item| (*item, layer)));
        let mut layers = vec![0; middles.len()];
        layer_of.for_each(|(item, layer)| layers[item] = layer);
        for part in &parts {
            let distance = distance(part, middles);
            let step: isize = if distance < 0.0 { 1 } else { -1 };
            let room = |item: &usize| {
                let row = &self.layers[layers[*item]];
                let next = self.position[*item].checked_add_signed(step).and_then(|at| row.get(at));
                let next = next.filter(|next| part_of[**next] != part_of[*item])?;
                let apart =
                    f64::midpoint(f64::from(self.heights[*item]), f64::from(self.heights[*next]));
                Some((middles[*next] - middles[*item]).abs() - apart - f64::from(gap))
            };
            let moved = part.iter().filter_map(room).fold(distance.abs(), f64::min).max(0.0);
            part.iter().for_each(|item| middles[*item] += moved * step as f64);
        }
    }

    /// Returns the parts that are not connected with each other.
    fn parts(&self) -> Vec<Vec<usize>> {
        let mut parts = Vec::new();
        let mut is_found = vec![false; self.heights.len()];
        for first in 0..is_found.len() {
            if std::mem::replace(&mut is_found[first], true) {
                continue;
            }
            let (mut part, mut next) = (vec![first], 0);
            while let Some(item) = part.get(next).copied() {
                next += 1;
                for near in self.near.iter().flat_map(|near| &near[item]) {
                    if !std::mem::replace(&mut is_found[*near], true) {
                        part.push(*near);
                    }
                }
            }
            parts.push(part);
        }
        parts
    }

    /// Returns the middles of a layer, as near to each other as can be, from 0 for the first.
    fn offsets(&self, layer: &[usize], gap: i32) -> Vec<f64> {
        let mut at = 0.0;
        let mut before = None;
        let offset = |item: &usize| {
            let height = f64::from(self.heights[*item]);
            at += before.map_or(0.0, |before: f64| f64::midpoint(before, height) + f64::from(gap));
            before = Some(height);
            at
        };
        layer.iter().map(offset).collect()
    }

    /// Brings a layer as near as can be to the middles of the neighbours on one side, in the order of the layer.
    fn settle(&self, layer: usize, side: usize, middles: &mut [f64], gap: i32) {
        let layer = &self.layers[layer];
        let offsets = self.offsets(layer, gap);
        // Blocks of those that touch each other: the sum of what they want, and how many they are.
        let mut blocks: Vec<(f64, usize)> = Vec::new();
        for (item, offset) in layer.iter().zip(&offsets) {
            let wanted = match &self.near[side][*item][..] {
                [] => middles[*item],
                near => near.iter().map(|it| middles[*it]).sum::<f64>() / near.len() as f64,
            };
            let mut block = (wanted - offset, 1);
            while let Some(before) = blocks.last()
                && before.0 / before.1 as f64 >= block.0 / block.1 as f64
            {
                block = (block.0 + before.0, block.1 + before.1);
                blocks.pop();
            }
            blocks.push(block);
        }
        let moved = blocks
            .into_iter()
            .flat_map(|(sum, count)| std::iter::repeat_n(sum / count as f64, count));
        for ((item, offset), moved) in layer.iter().zip(offsets).zip(moved) {
            middles[*item] = offset + moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, Measures, lay_out};

    fn laid(count: usize, edges: &[(usize, usize)]) -> Layout {
        let heights = vec![3; count];
        lay_out(Measures { heights: &heights, pass: 1, gap: 1 }, edges)
    }

    /// Requires that each user is to the right of its input, and that no two in a layer overlap.
    fn check(layout: &Layout, edges: &[(usize, usize)]) {
        for (input, user) in edges {
            assert!(layout.layers[*input] < layout.layers[*user], "{input} {user} {layout:?}");
        }
        for (one, top) in layout.tops.iter().enumerate() {
            assert!(*top >= 0 && top + 3 <= layout.height, "{one}");
            let others = layout.tops.iter().enumerate().take(one);
            for (other, at) in
                others.filter(|(other, _)| layout.layers[*other] == layout.layers[one])
            {
                assert!((top - at).abs() >= 4, "{one} and {other} overlap: {layout:?}");
            }
        }
    }

    #[test]
    fn a_user_is_to_the_right_of_its_inputs() {
        let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 4), (4, 3), (5, 3)];

        let layout = laid(6, &edges);

        check(&layout, &edges);
        assert_eq!(layout.layers, [0, 1, 1, 2, 1, 1]);
        assert_eq!(layout, laid(6, &edges), "the same graph has the same places");
    }

    #[test]
    fn edges_that_cross_for_no_reason_are_ordered() {
        let edges = [(0, 5), (1, 4), (2, 3)];

        let layout = laid(6, &edges);

        for (input, user) in edges {
            assert_eq!(layout.tops[input], layout.tops[user], "{layout:?}");
        }
    }

    #[test]
    fn edges_of_one_input_pass_at_one_place() {
        let chain: Vec<_> = (0..4).map(|node| (node, node + 1)).collect();
        let edges: Vec<_> = chain.into_iter().chain([(0, 3), (0, 4)]).collect();

        let layout = laid(5, &edges);

        check(&layout, &edges);
        assert_eq!(layout.passes[4][..], layout.passes[5][..2]);
        assert_eq!(layout.passes[5].len(), 3);
    }

    #[test]
    fn circles_and_edges_to_itself_are_placed() {
        let layout = laid(4, &[(0, 1), (1, 2), (2, 0), (3, 3)]);

        assert_eq!(layout.layers[..3], [0, 1, 2]);
        assert!(layout.passes[2].is_empty());
        check(&layout, &[(0, 1), (1, 2)]);
    }

    #[test]
    fn nothing_and_many_without_an_edge_are_placed() {
        assert_eq!(laid(0, &[]).height, 0);
        let alone = laid(100, &[]);
        check(&alone, &[]);
        assert!(alone.layers.iter().max() == Some(&4), "{alone:?}");
    }

    #[test]
    fn small_parts_are_near_the_large_one() {
        let fan = (1..30).map(|node| (0, node));
        let edges: Vec<_> = fan.chain([(30, 31), (31, 32)]).collect();

        let layout = laid(33, &edges);

        check(&layout, &edges);
        let middle = layout.tops[0];
        assert!((layout.tops[32] - middle).abs() <= 70, "{layout:?}");
        assert_eq!(layout.height, 30 * 4 - 1, "{layout:?}");
    }

    #[test]
    fn one_node_more_moves_few() {
        let mut edges: Vec<_> = (1..40).map(|node| (node / 3, node)).collect();
        let before = laid(40, &edges);
        edges.push((13, 40));
        let after = laid(41, &edges);

        let same = (0..40).filter(|node| before.layers[*node] == after.layers[*node]).count();
        assert_eq!(same, 40);
        let order = |layout: &Layout| {
            let mut nodes: Vec<_> = (0..40).collect();
            nodes.sort_by_key(|node| (layout.layers[*node], layout.tops[*node]));
            nodes
        };
        assert_eq!(order(&before), order(&after));
    }
}
