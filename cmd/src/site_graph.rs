//! The graph of a site as data.

use std::collections::HashMap;

use crankcase_engine::Near;
use crankcase_resources::Site;
use crankcase_resources::front::Automatic;
use crankcase_status::picture::{Edge, Node, Picture, Stroke};
use serde::Serialize;

/// The dependencies of the resources of a site.
#[derive(Debug, Serialize)]
pub(crate) struct SiteGraph {
    pub(crate) resources: Vec<SiteNode>,
    pub(crate) edges: Vec<SiteEdge>,
    /// The automatic edges that are not there, as each would close a circle.
    pub(crate) left_out: Vec<SiteEdge>,
}

/// One resource.
#[derive(Debug, Serialize)]
pub(crate) struct SiteNode {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// How many resources use it and are not in the graph, because the graph is only a part.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) more_users: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One use of a resource by another, or one notification.
#[derive(Debug, Serialize)]
pub(crate) struct SiteEdge {
    pub(crate) user: String,
    pub(crate) input: String,
    /// Whether a change of the input is only checked, or the user is notified.
    pub(crate) notifies: bool,
    /// Why the edge is there, if nobody has declared it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) because: Option<String>,
}

impl SiteEdge {
    fn automatic(user: &str, edge: &Automatic) -> Self {
        Self {
            user: user.to_owned(),
            input: edge.resource.clone(),
            notifies: edge.on_change.notifies(),
            because: Some(edge.because.clone()),
        }
    }
}

impl SiteGraph {
    pub(crate) fn new(site: &Site) -> Self {
        let mut graph = Self { resources: Vec::new(), edges: Vec::new(), left_out: Vec::new() };
        for declared in site.declarations() {
            let name = &declared.name;
            graph.resources.push(SiteNode {
                name: name.clone(),
                kind: declared.kind.clone(),
                more_users: 0,
            });
            graph.edges.extend(declared.dependencies.iter().map(|dependency| SiteEdge {
                user: name.clone(),
                input: dependency.resource.clone(),
                notifies: dependency.on_change.notifies(),
                because: None,
            }));
            graph.edges.extend(declared.notify.iter().map(|notified| SiteEdge {
                user: notified.clone(),
                input: name.clone(),
                notifies: true,
                because: None,
            }));
            let automatic = |edge| SiteEdge::automatic(name, edge);
            graph.edges.extend(declared.automatic.iter().map(automatic));
            graph.left_out.extend(declared.left_out.iter().map(automatic));
        }
        graph
    }

    /// Returns the graph to be drawn.
    pub(crate) fn picture(&self) -> Picture {
        let node = |node: &SiteNode| Node {
            path: node.name.clone(),
            name: node.name.clone(),
            words: node.kind.clone(),
            more_users: node.more_users,
            ..Node::default()
        };
        let names = self.resources.iter().map(|node| node.name.as_str());
        let places: HashMap<_, _> = names.enumerate().map(|(at, name)| (name, at)).collect();
        let edge = |edge: &SiteEdge, is_left_out| Edge {
            user: places[&*edge.user],
            input: places[&*edge.input],
            stroke: if edge.notifies { Stroke::Dashed } else { Stroke::Solid },
            because: edge.because.clone(),
            is_left_out,
        };
        let edges = self.edges.iter().map(|it| edge(it, false));
        let edges = edges.chain(self.left_out.iter().map(|it| edge(it, true))).collect();
        Picture { nodes: self.resources.iter().map(node).collect(), edges, ..Picture::default() }
    }

    /// Returns what is near a resource: what it needs, directly or through others, and what needs it within
    /// `steps` edges, of the users of each at most `most`.
    pub(crate) fn near(mut self, name: &str, (steps, most): (usize, usize)) -> Self {
        let edges: Vec<_> =
            self.edges.iter().map(|edge| (edge.user.clone(), edge.input.clone())).collect();
        let edges = edges.iter().map(|(user, input)| (user.as_str(), input.as_str()));
        let Near { names, more_users, .. } = Near::of(edges, name, (steps, most));
        self.resources.retain(|node| names.contains(&*node.name));
        for node in &mut self.resources {
            node.more_users = more_users.get(&*node.name).copied().unwrap_or(0);
        }
        let is_near = |edge: &SiteEdge| names.contains(&*edge.user) && names.contains(&*edge.input);
        self.edges.retain(is_near);
        self.left_out.retain(is_near);
        self
    }
}
