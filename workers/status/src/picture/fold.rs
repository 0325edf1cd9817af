//! Makes a picture small enough to be read.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Edge, Look, Node, Picture, Stroke};

/// The number of equal siblings from which on they are one box.
const FOLDED: usize = 4;

/// The number of nodes above which a picture is cut: nobody reads a larger one.
const READABLE: usize = 150;

/// The number of boxes that are left of a picture that is cut.
const BOXES: usize = 60;

/// How many edges for each box are left of a picture that is cut.
const EDGES: usize = 5;

/// How many users of one node are kept in a picture that is cut.
const USERS: usize = 5;

impl Picture {
    /// Returns a picture that can be read.
    ///
    /// Four or more equal siblings that are well (of the same inputs, users and words) become one box. If there were more
    /// than 150 nodes, at most 60 boxes are kept, and five times as many edges: what is in trouble, what that needs, and
    /// who uses it; of engines in which all is well, the inside is left out. In a picture without trouble those that most others use are kept.
    ///
    /// What is named in `open` stays open, and there may be 150 boxes then: an engine by its path, with at most 150
    /// boxes of its own, and equal siblings by the path of one of them.
    #[must_use]
    pub fn readable(mut self, open: &BTreeSet<String>) -> Self {
        let is_large = self.workers() > READABLE;
        let mut open = open.clone();
        self.fold(&mut open);
        // Who opens something wants to see it.
        let most = if open.is_empty() { BOXES } else { READABLE };
        if is_large && self.count() > most {
            self.cut(most, &open);
        }
        self
    }

    /// Makes one box of equal siblings. If one of them is in `open`, they stay apart, and all of them are added to `open`.
    fn fold(&mut self, open: &mut BTreeSet<String>) {
        for inner in self.nodes.iter_mut().filter_map(|node| node.inner.as_mut()) {
            inner.fold(open);
        }
        let mut near = vec![(Vec::new(), Vec::new()); self.nodes.len()];
        for edge in &self.edges {
            let how = (edge.stroke, edge.is_left_out);
            near[edge.user].0.push((edge.input, how));
            near[edge.input].1.push((edge.user, how));
        }
        let mut equal: BTreeMap<Likeness<'_>, Vec<usize>> = BTreeMap::new();
        for (inputs, users) in &mut near {
            inputs.sort_unstable();
            users.sort_unstable();
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let is_well = matches!(node.look, Look::Well | Look::Plain);
            if is_well && node.inner.is_none() && node.more_users == 0 {
                let (inputs, users) = &near[at];
                equal.entry((inputs, users, &node.words)).or_default().push(at);
            }
        }
        let is_open = |at: &usize| open.contains(&self.nodes[*at].path);
        let groups = equal.into_values().filter(|group| group.len() >= FOLDED);
        let (opened, groups): (Vec<_>, Vec<_>) =
            groups.partition(|group| group.iter().any(is_open));
        open.extend(opened.into_iter().flatten().map(|at| self.nodes[at].path.clone()));
        let mut keeps = vec![true; self.nodes.len()];
        for group in groups {
            let start = common_start(group.iter().map(|at| self.nodes[*at].name.as_str()));
            let name = format!("{}… ×{}", start.trim_end_matches(['[', '"']), group.len());
            let folded = group.iter().map(|at| self.nodes[*at].path.clone()).collect();
            group[1..].iter().for_each(|at| keeps[*at] = false);
            let node = &mut self.nodes[group[0]];
            (node.name, node.folded) = (name, folded);
        }
        self.keep(&keeps);
    }

    /// Keeps at most so many boxes.
    fn cut(&mut self, boxes: usize, open: &BTreeSet<String>) {
        let kept = self.most_telling(boxes, open);
        let keeps: Vec<bool> = (0..self.nodes.len()).map(|at| kept.contains(&at)).collect();
        for edge in self.edges.iter().filter(|edge| keeps[edge.input] && !keeps[edge.user]) {
            self.nodes[edge.input].more_users += self.nodes[edge.user].stands_for();
        }
        let left_out = self.nodes.iter().zip(&keeps).filter(|(_, keeps)| !**keeps);
        self.omitted += left_out.map(|(node, _)| node.stands_for()).sum::<usize>();
        self.keep(&keeps);
        self.thin(EDGES * self.nodes.len());
        let mut left = boxes.saturating_sub(self.nodes.len());
        let mut engines = self.nodes.iter().filter(|node| node.inner.is_some()).count();
        for node in self.nodes.iter_mut().filter(|node| node.inner.is_some()) {
            let share = left / engines;
            engines -= 1;
            let is_open = node.is_open(open);
            let Some(inner) = &mut node.inner else { continue };
            if is_open {
                if inner.count() > READABLE {
                    inner.cut(READABLE, open);
                }
            } else if share == 0 || !inner.has_trouble() {
                *inner = Self { omitted: inner.workers(), ..Self::default() };
            } else {
                inner.cut(share, open);
                left -= inner.count().min(left);
            }
        }
    }

    /// Keeps at most so many edges: first those that lead to trouble.
    fn thin(&mut self, most: usize) {
        self.omitted_edges += self.edges.len().saturating_sub(most);
        let is_well = |edge: &Edge| !self.nodes[edge.input].is_in_trouble();
        self.edges.sort_by_cached_key(is_well);
        self.edges.truncate(most);
    }

    /// Returns the nodes that tell most of how things are, at most so many; those in
    /// `open` first.
    fn most_telling(&self, most: usize, open: &BTreeSet<String>) -> BTreeSet<usize> {
        let (mut inputs, mut users) =
            (vec![Vec::new(); self.nodes.len()], vec![Vec::new(); self.nodes.len()]);
        for edge in &self.edges {
            inputs[edge.user].push(edge.input);
            users[edge.input].push(edge.user);
        }
        let all = 0..self.nodes.len();
        let is_open = |at: &usize| self.nodes[*at].is_open(open);
        let opened: Vec<usize> = all.clone().filter(is_open).take(most).collect();
        let most = most - opened.len();
        let mut kept = BTreeSet::new();
        let causes: Vec<_> = all.clone().filter(|at| self.nodes[*at].is_in_trouble()).collect();
        // Without trouble, what is on its way or off tells most.
        let is_at_rest = |at: &usize| matches!(self.nodes[*at].look, Look::Well | Look::Plain);
        let mut next = causes.clone();
        if next.is_empty() {
            next.extend(all.clone().filter(|at| !is_at_rest(at)).take(most));
        }
        if next.is_empty() {
            let mut used: Vec<usize> = all.filter(|at| !opened.contains(at)).collect();
            used.sort_by_key(|at| std::cmp::Reverse(users[*at].len()));
            kept.extend(used.into_iter().take(most).chain(opened));
            return kept;
        }
        // First what is in trouble, then step by step what it needs, and then who uses it.
        while !next.is_empty() && kept.len() < most {
            let mut needed = Vec::new();
            for at in next {
                if kept.len() < most && kept.insert(at) {
                    needed.extend(&inputs[at]);
                }
            }
            next = needed;
        }
        for at in causes {
            for user in users[at].iter().take(USERS) {
                if kept.len() < most {
                    kept.insert(*user);
                }
            }
        }
        kept.extend(opened);
        kept
    }

    /// Keeps these nodes, and the edges between them.
    fn keep(&mut self, keeps: &[bool]) {
        let mut next = 0;
        let places: Vec<Option<usize>> = keeps
            .iter()
            .map(|keeps| {
                next += usize::from(*keeps);
                keeps.then(|| next - 1)
            })
            .collect();
        let mut keep = keeps.iter();
        self.nodes.retain(|_| keep.next() == Some(&true));
        let edges = std::mem::take(&mut self.edges).into_iter();
        let moved = edges.filter_map(|edge| {
            let (user, input) = (places[edge.user]?, places[edge.input]?);
            Some(Edge { user, input, ..edge })
        });
        self.edges = moved.collect();
    }

    pub(super) fn has_trouble(&self) -> bool {
        self.nodes.iter().any(Node::is_in_trouble)
    }

    /// Returns how many nodes it stands for, at any depth.
    fn workers(&self) -> usize {
        self.omitted + self.nodes.iter().map(Node::stands_for).sum::<usize>()
    }
}

/// What equal siblings have in common: their inputs, their users and their words.
type Likeness<'a> = (&'a [Near], &'a [Near], &'a str);

/// An edge from or to a node, as seen by its other end.
type Near = (usize, (Stroke, bool));

impl Node {
    fn is_in_trouble(&self) -> bool {
        self.look == Look::Trouble || self.inner.as_ref().is_some_and(Picture::has_trouble)
    }

    /// Whether it, or anything in it, was opened.
    fn is_open(&self, open: &BTreeSet<String>) -> bool {
        let mut inside = self.inner.iter().flat_map(|inner| &inner.nodes);
        open.contains(&self.path) || inside.any(|node| node.is_open(open))
    }

    fn stands_for(&self) -> usize {
        self.folded.len().max(1) + self.inner.as_ref().map_or(0, Picture::workers)
    }
}

/// Returns what all names begin with.
fn common_start<'a>(mut names: impl Iterator<Item = &'a str>) -> &'a str {
    let first = names.next().unwrap_or_default();
    let common = |start: &'a str, name: &str| {
        let same = start.char_indices().zip(name.chars()).find(|((_, a), b)| a != b);
        match same {
            Some(((end, _), _)) => &start[..end],
            None => &start[..start.len().min(name.len())],
        }
    };
    names.fold(first, common)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::picture::{Edge, Look, Node, Picture, Stroke};

    fn node(path: &str, look: Look) -> Node {
        Node { path: path.to_owned(), name: path.to_owned(), look, ..Node::default() }
    }

    fn edge(input: usize, user: usize) -> Edge {
        Edge { user, input, stroke: Stroke::Solid, because: None, is_left_out: false }
    }

    /// Returns a chain, in which no two nodes are equal siblings.
    fn chain(count: usize, trouble: &[usize]) -> Picture {
        let look = |at| if trouble.contains(&at) { Look::Trouble } else { Look::Well };
        Picture {
            nodes: (0..count).map(|at| node(&format!("n{at}"), look(at))).collect(),
            edges: (1..count).map(|at| edge(at - 1, at)).collect(),
            ..Picture::default()
        }
    }

    fn readable(picture: Picture) -> Picture {
        picture.readable(&BTreeSet::new())
    }

    #[test]
    fn of_a_large_picture_the_trouble_and_its_surroundings_are_kept() {
        let mut picture = chain(2000, &[]);
        for (at, cause) in ["x", "y", "z"].into_iter().enumerate() {
            picture.nodes.push(node(cause, Look::Trouble));
            picture.edges.push(edge(2000 + at, 500 * at + 7));
        }

        let cut = readable(picture);

        let names: Vec<_> = cut.nodes.iter().map(|node| node.path.as_str()).collect();
        for name in ["x", "y", "z", "n7", "n507", "n1007"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(cut.count() <= 60 && cut.omitted == 2003 - cut.count(), "{}", cut.count());
    }

    #[test]
    fn more_trouble_than_fits_is_counted() {
        let all: Vec<_> = (0..200).collect();

        let cut = readable(chain(200, &all));

        assert_eq!((cut.count(), cut.omitted), (60, 140));
        assert_eq!(cut.nodes[59].more_users, 1, "who uses the last one is counted in it");
    }

    #[test]
    fn edges_have_a_bound_and_those_that_lead_to_trouble_stay() {
        let mut picture = chain(200, &(0..200).collect::<Vec<_>>());
        let all = (0..200).flat_map(|input| (input + 1..200).map(move |user| edge(input, user)));
        picture.edges = all.collect();
        let mut small = chain(6, &[3]);

        let cut = readable(picture);
        small.thin(2);

        assert_eq!((cut.nodes.len(), cut.edges.len()), (60, 300));
        assert_eq!(cut.omitted_edges, 60 * 59 / 2 - 300);
        assert_eq!((small.edges, small.omitted_edges), (vec![edge(3, 4), edge(0, 1)], 3));
        let svg = cut.to_svg();
        let elements = svg.matches('<').count() - svg.matches("</").count();
        assert!(elements < 1500, "{elements}");
        assert!(cut.to_text().iter().any(|line| line.to_string() == "... 1470 more lines"));
    }

    #[test]
    fn the_inside_of_an_engine_that_is_well_is_left_out_and_can_be_opened() {
        let mut outer = chain(3, &[]);
        for (at, trouble) in [(0, &[][..]), (1, &[70])] {
            outer.nodes[at].inner = Some(chain(100, trouble));
        }

        let cut = readable(outer.clone());
        let open = outer.readable(&BTreeSet::from(["n0".to_owned()]));

        let inner = |picture: &Picture, at: usize| {
            picture.nodes[at].inner.as_ref().map(|it| (it.nodes.len(), it.omitted))
        };
        assert_eq!(inner(&cut, 0), Some((0, 100)));
        // It, what it needs as far as there is room, and who uses it.
        let (kept, omitted) = inner(&cut, 1).unwrap_or_default();
        assert!(kept < 60 && kept + omitted == 100, "{kept} {omitted}");
        assert_eq!(inner(&open, 0), Some((100, 0)));
        let mut large = chain(1, &[]);
        large.nodes[0].inner = Some(chain(2000, &[]));
        let open = large.readable(&BTreeSet::from(["n0".to_owned()]));
        assert_eq!(inner(&open, 0), Some((150, 1850)));
    }

    #[test]
    fn without_trouble_those_are_kept_that_most_use() {
        // Nothing is said of the resources of a site.
        for look in [Look::Well, Look::Plain] {
            let mut picture = chain(300, &[]);
            picture.nodes.iter_mut().for_each(|node| node.look = look);
            picture.edges.extend((200..300).map(|user| edge(190, user)));

            let cut = readable(picture);

            assert!(cut.nodes.iter().any(|node| node.path == "n190"), "{cut:?}");
            assert_eq!(cut.count(), 60);
        }
    }

    #[test]
    fn different_inputs_users_and_words_are_not_folded() {
        let mut picture = chain(1, &[]);
        picture.nodes.extend((1..9).map(|at| node(&format!("n{at}"), Look::Well)));
        picture.edges = (1..5).map(|at| edge(0, at)).collect();
        picture.nodes[1].words = "done".to_owned();

        let folded = readable(picture);

        let names: Vec<_> = folded.nodes.iter().map(|node| node.name.as_str()).collect();
        // Three that use n0 are too few; four alone are one.
        assert_eq!(names, ["n0", "n1", "n2", "n3", "n4", "n… ×4"]);
        assert_eq!(folded.nodes[5].folded.len(), 4);
    }

    #[test]
    fn above_150_nodes_60_boxes_are_drawn_and_what_is_opened_stays() {
        let mut picture = chain(150, &[9]);
        picture.nodes.extend((0..60).map(|at| node(&format!("home{at}"), Look::Well)));
        picture.edges.extend((150..210).map(|at| edge(7, at)));

        let closed = readable(picture.clone());
        let open = picture.clone().readable(&BTreeSet::from(["home3".to_owned()]));
        let small = readable(chain(150, &[]));

        // The tenth of the chain is in trouble: what it needs, and its user.
        assert_eq!((closed.nodes.len(), open.nodes.len(), small.nodes.len()), (11, 71, 150));
        // In an engine that is well, too.
        let mut site = chain(1, &[]);
        site.nodes[0].path = "site".to_owned();
        let mut homes = chain(1, &[]);
        homes.nodes.extend((1..300).map(|at| node(&format!("home{at}"), Look::Well)));
        homes.edges = (1..300).map(|at| edge(0, at)).collect();
        site.nodes[0].inner = Some(homes);
        let open = site.readable(&BTreeSet::from(["home3".to_owned()]));
        let inner = open.nodes[0].inner.as_ref().map(|inner| inner.nodes.len());
        assert_eq!(inner, Some(150));
    }

    #[test]
    fn nothing_and_deep_engines_are_drawn() {
        assert_eq!(readable(Picture::default()).to_text(), []);
        let mut deep = chain(2, &[]);
        for _ in 0..60 {
            let mut outer = chain(2, &[]);
            outer.nodes[1].inner = Some(deep);
            deep = outer;
        }

        assert_eq!(deep.count(), 122);
        assert_eq!(deep.to_text().len(), 121);
    }
}
