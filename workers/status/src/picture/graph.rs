//! A dependency graph to be drawn.

use std::collections::BTreeMap;

use crate::wire::{Graph, GraphNode, Graphs, WorkerState};

/// The longest name that is drawn whole, in characters.
const LONGEST: usize = 40;

/// A dependency graph to be drawn, with the inputs on the left and their users on the right.
///
/// [`to_svg`](Self::to_svg), [`to_text`](Self::to_text), [`to_dot`](Self::to_dot) and
/// [`to_mermaid`](Self::to_mermaid) draw it. They use neither chance nor time: the same graph always gives the same
/// picture. A state is shown by a sign, by a colour and by a kind of line, so that it can be seen without colours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges between them.
    pub edges: Vec<Edge>,
    /// How many nodes were left out.
    pub omitted: usize,
    /// How many edges between the nodes were left out.
    pub omitted_edges: usize,
}

/// One node of a [`Picture`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// The path, or what else names it and no other node.
    pub path: String,
    /// The name that is shown.
    pub name: String,
    /// What it is or does, in a few words.
    pub words: String,
    /// How it is.
    pub look: Look,
    /// How many nodes use it and are not in the picture.
    pub more_users: usize,
    /// The paths of the equal nodes that it stands for. Empty if it stands for itself.
    pub folded: Vec<String>,
    /// What is in it, if it is an engine.
    pub inner: Option<Picture>,
}

/// One edge of a [`Picture`]. The nodes are given by their places in the list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The node that needs the other one.
    pub user: usize,
    /// The node that is needed.
    pub input: usize,
    /// How much it is needed.
    pub stroke: Stroke,
    /// Why the edge is there, if nobody has declared it.
    pub because: Option<String>,
    /// Whether the edge would close a circle, so that it orders nothing.
    pub is_left_out: bool,
}

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Look {
    /// Nothing is said of it.
    #[default]
    Plain,
    /// It is well.
    Well,
    /// It is on its way: it starts, stops or waits.
    OnItsWay,
    /// It is switched off or not there.
    Off,
    /// It has failed or is degraded.
    Trouble,
}

impl Look {
    /// Returns the sign of it. It is one column wide.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Well => "✓",
            Self::OnItsWay => "…",
            Self::Off => "‖",
            Self::Trouble => "✗",
        }
    }

    /// Returns how a worker in this state is.
    pub fn of(state: &WorkerState, is_degraded: bool) -> Self {
        match state {
            WorkerState::Parked | WorkerState::Paused | WorkerState::Absent => Self::Off,
            // What holds it back is in trouble.
            WorkerState::HeldBack => Self::OnItsWay,
            state if is_degraded || state.is_trouble() => Self::Trouble,
            WorkerState::Running | WorkerState::Done => Self::Well,
            _ => Self::OnItsWay,
        }
    }
}

/// How an edge is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stroke {
    /// The input is required.
    Solid,
    /// The input is optional; in a manifest, the user is notified.
    Dashed,
    /// The input is live.
    Dotted,
}

impl Picture {
    /// Returns the picture of these graphs, each in the node of its engine. `name` returns what is shown for the name of
    /// a worker.
    pub fn of(graphs: &Graphs, name: impl Fn(&str) -> String) -> Self {
        let mut pictures: BTreeMap<&str, Self> = BTreeMap::new();
        // The longest paths first: those are the innermost engines.
        let mut sorted: Vec<&Graph> = graphs.graphs.iter().collect();
        sorted.sort_by_key(|graph| std::cmp::Reverse(graph.path.len()));
        for graph in sorted {
            let mut picture = Self::of_engine(graph, &name);
            for node in &mut picture.nodes {
                node.inner = pictures.remove(&*node.path);
                if node.inner.as_ref().is_some_and(Self::has_trouble) {
                    node.look = Look::Trouble;
                }
            }
            pictures.insert(&graph.path, picture);
        }
        let mut outermost = pictures.into_values();
        let first = outermost.next().unwrap_or_default();
        // Engines whose own engine is not among the graphs stand beside each other.
        outermost.fold(first, Self::beside)
    }

    fn of_engine(graph: &Graph, name: impl Fn(&str) -> String) -> Self {
        let node = |node: &GraphNode| Node {
            path: node.path.clone(),
            name: name(&node.name),
            words: words(node),
            look: Look::of(&node.state, node.is_degraded),
            more_users: node.more_users,
            ..Node::default()
        };
        let places: BTreeMap<&str, usize> =
            graph.nodes.iter().enumerate().map(|(at, node)| (&*node.name, at)).collect();
        let edge = |(user, input, need): (&str, &str, &str)| {
            let stroke = match need {
                "required" => Stroke::Solid,
                "optional" => Stroke::Dashed,
                _ => Stroke::Dotted,
            };
            let (user, input) = (*places.get(user)?, *places.get(input)?);
            Some(Edge { user, input, stroke, because: None, is_left_out: false })
        };
        let edges = graph.edges.iter().filter_map(|it| edge((&it.user, &it.input, &it.need)));
        let mut edges: Vec<_> = edges.collect();
        // Two inputs of one worker may be of the same name; the stronger need is shown.
        edges.sort_unstable();
        edges.dedup_by_key(|edge| (edge.user, edge.input));
        Self { nodes: graph.nodes.iter().map(node).collect(), edges, ..Self::default() }
    }

    fn beside(mut self, other: Self) -> Self {
        let count = self.nodes.len();
        self.nodes.extend(other.nodes);
        self.edges.extend(other.edges.into_iter().map(|edge| Edge {
            user: edge.user + count,
            input: edge.input + count,
            ..edge
        }));
        self
    }

    /// Returns how many nodes are in it, at any depth.
    pub fn count(&self) -> usize {
        let inner = self.nodes.iter().filter_map(|node| node.inner.as_ref());
        self.nodes.len() + inner.map(Self::count).sum::<usize>()
    }

    /// The edges that order something, each from an input to its user.
    pub(super) fn ordering(&self) -> Vec<(usize, usize)> {
        let ordering = self.edges.iter().filter(|edge| !edge.is_left_out);
        ordering.map(|edge| (edge.input, edge.user)).collect()
    }
}

impl Picture {
    /// Returns what is written below it: how much was left out.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let counts = [(self.omitted, ""), (self.omitted_edges, " lines")];
        let some = counts.into_iter().filter(|(count, _)| *count > 0);
        some.map(|(count, what)| format!("... {count} more{what}"))
    }
}

impl Node {
    /// Returns the line below the name: what it does, and what is not shown of it.
    pub(super) fn caption(&self) -> String {
        let mut parts = vec![self.words.clone()];
        parts.retain(|words| !words.is_empty());
        match self.more_users {
            0 => {}
            1 => parts.push("+1 user".to_owned()),
            more => parts.push(format!("+{more} users")),
        }
        if let Some(omitted) = self.inner.as_ref().map(|inner| inner.omitted).filter(|it| *it > 0) {
            parts.push(format!("{omitted} more in it"));
        }
        parts.join(", ")
    }
}

fn words(node: &GraphNode) -> String {
    let state = node.state.to_string().replace('_', " ");
    match node.is_degraded && matches!(node.state, WorkerState::Running | WorkerState::Starting) {
        true => format!("{state}, degraded"),
        false => state,
    }
}

/// Returns a name on one line, without its middle if it is long.
pub(super) fn shortened(name: &str) -> String {
    let name = crankcase_workers::one_line(name);
    let count = name.chars().count();
    if count <= LONGEST {
        return name.into_owned();
    }
    let start: String = name.chars().take(LONGEST / 2).collect();
    let end: String = name.chars().skip(count - LONGEST / 2 + 1).collect();
    format!("{start}…{end}")
}
