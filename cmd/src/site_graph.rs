//! The graph of a site as data.

use std::collections::HashSet;

use crankcase_resources::{Automatic, OnChange, Site};
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
            notifies: edge.on_change == OnChange::Notify,
            because: Some(edge.because.clone()),
        }
    }
}

impl SiteGraph {
    pub(crate) fn new(site: &Site) -> Self {
        let mut graph = Self { resources: Vec::new(), edges: Vec::new(), left_out: Vec::new() };
        for declared in site.declarations() {
            let name = &declared.name;
            graph.resources.push(SiteNode { name: name.clone(), kind: declared.kind.clone() });
            graph.edges.extend(declared.dependencies.iter().map(|dependency| SiteEdge {
                user: name.clone(),
                input: dependency.resource.clone(),
                notifies: dependency.on_change == OnChange::Notify,
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

    /// Returns what is at most this many edges away from a resource, in either direction.
    pub(crate) fn around(mut self, name: &str, depth: usize) -> Self {
        let mut near = HashSet::from([name.to_owned()]);
        for _ in 0..depth {
            let is_touching =
                |edge: &&SiteEdge| near.contains(&edge.user) != near.contains(&edge.input);
            let touching: Vec<_> = self.edges.iter().filter(is_touching).collect();
            if touching.is_empty() {
                break;
            }
            near.extend(touching.iter().flat_map(|edge| [edge.user.clone(), edge.input.clone()]));
        }
        self.resources.retain(|node| near.contains(&node.name));
        let is_near = |edge: &SiteEdge| near.contains(&edge.user) && near.contains(&edge.input);
        self.edges.retain(is_near);
        self.left_out.retain(is_near);
        self
    }
}
