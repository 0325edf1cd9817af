use std::collections::HashSet;
use std::path::PathBuf;

use crankcase_resources::{Automatic, OnChange, Site};
use serde::Serialize;

use crate::cli::Global;
use crate::paths::worker_path;
use crate::site_args::{SiteArgs, variable};
use crate::{exit, print};

/// Which graph is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Manifests whose resources are shown: files, folders, pipes, or - for standard input
    #[arg(value_name = "SITE", required_unless_present = "live", conflicts_with = "live")]
    paths: Vec<PathBuf>,
    /// Set a variable of the manifests, as a text, or as true or false if it is declared as one
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable, requires = "paths")]
    vars: Vec<(String, String)>,
    /// Set the variables of a file that holds a map
    #[arg(long = "var-file", value_name = "FILE", requires = "paths")]
    var_files: Vec<PathBuf>,
    /// Without the edges that follow from what resources make and need
    #[arg(long, requires = "paths")]
    no_automatic_edges: bool,
    /// Show the graph of the running agent, with states
    #[arg(long)]
    live: bool,
    /// Only this engine of the running agent, or what is next to this worker
    #[arg(long, requires = "live", conflicts_with = "around")]
    path: Option<String>,
    /// Only what is near this resource, or this worker of the running agent
    #[arg(long, value_name = "NAME")]
    around: Option<String>,
    /// How many edges away, in either direction, is near
    #[arg(long, value_name = "EDGES", default_value_t = 1, requires = "around")]
    depth: usize,
}

/// Who uses whom in a site.
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
    fn new(site: &Site) -> Self {
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
    fn around(mut self, name: &str, depth: usize) -> Self {
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

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let Args { paths, vars, var_files, no_automatic_edges, live, path, around, depth } = args;
    if live {
        let client = super::connect(global).await?;
        let graphs = match around {
            Some(around) => client.graph_around(&worker_path(&around), depth).await?,
            None => client.graph(path.as_deref().map(worker_path).as_deref()).await?,
        };
        print::data(global.output, &graphs, print::dot)?;
    } else {
        let site = SiteArgs { paths, vars, var_files, no_automatic_edges }.load()?;
        let graph = SiteGraph::new(&site);
        let graph = match around {
            Some(around) => graph.around(&site.resource(&around)?.name, depth),
            None => graph,
        };
        print::data(global.output, &graph, print::site_dot)?;
    }
    Ok(exit::DONE)
}
