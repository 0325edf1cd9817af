//! Leads the edges of a picture in characters from box to box.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Edge, Stroke};
use super::layout::Layout;

/// What connects two layers: all edges of one input.
pub(super) struct Net {
    pub(super) input: usize,
    /// Whether it comes from a layer before.
    pub(super) passes: bool,
    pub(super) from: usize,
    /// The rows that it leads to, and how the last part is drawn.
    to: BTreeMap<usize, Stroke>,
}

impl Net {
    fn is_straight(&self) -> bool {
        self.to.keys().all(|to| *to == self.from)
    }

    fn rows(&self) -> (usize, usize) {
        let ends = self.to.keys().copied().chain([self.from]);
        ends.fold((self.from, self.from), |(top, bottom), row| (top.min(row), bottom.max(row)))
    }
}

/// The edges between boxes that are laid out.
pub(super) struct Wiring<'a> {
    pub(super) layout: &'a Layout,
    pub(super) heights: &'a [i32],
    pub(super) edges: &'a [&'a Edge],
}

impl Wiring<'_> {
    fn middle(&self, node: usize) -> usize {
        (self.layout.tops[node] + self.heights[node] / 2) as usize
    }

    /// Returns what connects a layer with the next one.
    pub(super) fn nets(&self, layer: usize) -> Vec<Net> {
        let mut nets: BTreeMap<usize, Net> = BTreeMap::new();
        for (edge, passes) in self.edges.iter().zip(&self.layout.passes) {
            let (from, to) = (self.layout.layers[edge.input], self.layout.layers[edge.user]);
            if !(from..to).contains(&layer) {
                continue;
            }
            let pass = |layer: usize| passes[layer - from - 1] as usize;
            let net = nets.entry(edge.input).or_insert_with(|| Net {
                input: edge.input,
                passes: from < layer,
                from: if from < layer { pass(layer) } else { self.middle(edge.input) },
                to: BTreeMap::new(),
            });
            let (row, stroke) = match layer + 1 {
                next if next == to => (self.middle(edge.user), edge.stroke),
                next => (pass(next), Stroke::Solid),
            };
            net.to.insert(row, stroke);
        }
        nets.into_values().collect()
    }
}

/// Returns the column in which each net goes up and down, so that no two nets share a part of a column. A net that
/// begins in a row in which another one ends goes to the left of it, so that they do not share a part of the row.
pub(super) fn channels(nets: &[Net]) -> Vec<usize> {
    let mut begins: BTreeMap<usize, usize> = BTreeMap::new();
    let bent = |net: &Net| !net.is_straight();
    begins.extend(
        nets.iter().enumerate().filter(|(_, net)| bent(net)).map(|(at, net)| (net.from, at)),
    );
    // For each net those that are to its left.
    let lefts: Vec<BTreeSet<usize>> = nets
        .iter()
        .enumerate()
        .map(|(at, net)| {
            let meets = net.to.keys().filter_map(|row| begins.get(row)).copied();
            meets.filter(|other| *other != at && bent(net)).collect()
        })
        .collect();
    let mut channels: Vec<Option<usize>> =
        nets.iter().map(|net| (!bent(net)).then_some(0)).collect();
    let mut taken: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut waiting: Vec<usize> = (0..nets.len()).filter(|net| bent(&nets[*net])).collect();
    while !waiting.is_empty() {
        let is_ready = |net: &usize| lefts[*net].iter().all(|left| channels[*left].is_some());
        // If each waits for another one, two of them share a part of a row.
        let next = waiting.remove(waiting.iter().position(is_ready).unwrap_or(0));
        let after = lefts[next].iter().filter_map(|left| channels[*left]).max();
        let (top, bottom) = nets[next].rows();
        let is_free = |channel: &Vec<(usize, usize)>| {
            channel.iter().all(|(first, last)| *last < top || bottom < *first)
        };
        let first = after.map_or(0, |after| after + 1);
        let free = (first..taken.len()).find(|channel| is_free(&taken[*channel]));
        let channel = free.unwrap_or_else(|| taken.len().max(first));
        if taken.len() <= channel {
            taken.resize_with(channel + 1, Vec::new);
        }
        taken[channel].push((top, bottom));
        channels[next] = Some(channel);
    }
    channels.into_iter().flatten().collect()
}

const LEFT: u8 = 1;
const RIGHT: u8 = 2;
const UP: u8 = 4;
const DOWN: u8 = 8;

/// What of the nets is in one cell: for each input the sides to which it leads.
#[derive(Debug, Default)]
struct Crossing {
    sides: BTreeMap<usize, u8>,
    stroke: Option<Stroke>,
}

impl Crossing {
    fn character(&self) -> char {
        // Where two cross, the one that goes up and down is drawn. Otherwise they lead to the same user.
        let crosses = self.sides.values().any(|sides| *sides == UP | DOWN)
            && self.sides.values().any(|sides| *sides == LEFT | RIGHT);
        let all = self.sides.values().fold(0, |all, sides| all | sides);
        let sides = if crosses { UP | DOWN } else { all };
        match sides {
            3 => match self.stroke {
                Some(Stroke::Dashed) => '╌',
                Some(Stroke::Dotted) => '┈',
                _ => '─',
            },
            1 | 2 => '─',
            4 | 8 | 12 => '│',
            5 => '┘',
            6 => '└',
            7 => '┴',
            9 => '┐',
            10 => '┌',
            11 => '┬',
            13 => '┤',
            14 => '├',
            15 => '┼',
            _ => ' ',
        }
    }
}

/// The cells through which nets go.
#[derive(Debug, Default)]
pub(super) struct Wires(BTreeMap<(usize, usize), Crossing>);

impl Wires {
    /// Adds a net: from the column where it begins over the one where it goes up and down to the one where it ends.
    pub(super) fn add(&mut self, net: &Net, (begin, bend, end): (usize, usize, usize)) {
        let Net { input, from, to, .. } = net;
        if net.is_straight() {
            let stroke = to.values().next().copied();
            (begin..end)
                .for_each(|column| self.mark((*from, column), (*input, LEFT | RIGHT), stroke));
            return;
        }
        for column in begin..bend {
            self.mark((*from, column), (*input, LEFT | RIGHT), None);
        }
        self.mark((*from, bend), (*input, LEFT), None);
        let (top, bottom) = net.rows();
        for row in top..bottom {
            self.mark((row, bend), (*input, DOWN), None);
            self.mark((row + 1, bend), (*input, UP), None);
        }
        for (row, stroke) in to {
            self.mark((*row, bend), (*input, RIGHT), None);
            for column in bend + 1..end {
                self.mark((*row, column), (*input, LEFT | RIGHT), Some(*stroke));
            }
        }
    }

    /// Returns the character of each cell.
    pub(super) fn characters(&self) -> impl Iterator<Item = ((usize, usize), char)> {
        self.0.iter().map(|(place, crossing)| (*place, crossing.character()))
    }

    fn mark(&mut self, place: (usize, usize), (input, sides): (usize, u8), stroke: Option<Stroke>) {
        let crossing = self.0.entry(place).or_default();
        *crossing.sides.entry(input).or_default() |= sides;
        crossing.stroke = stroke.or(crossing.stroke);
    }
}
