use std::path::PathBuf;

use crate::external_args::ExternalArgs;
use crate::global::Global;
use crate::paths::worker_path;
use crate::site_args::{SiteArgs, variable};
use crate::site_graph::SiteGraph;
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
    #[command(flatten)]
    external: ExternalArgs,
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

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let Args { live, path, around, depth, .. } = args;
    if live {
        let client = global.connect().await?;
        let graphs = match around {
            Some(around) => client.graph_around(&worker_path(&around), depth).await?,
            None => client.graph(path.as_deref().map(worker_path).as_deref()).await?,
        };
        print::data(global.output, &graphs, print::dot)?;
    } else {
        let Args { paths, vars, var_files, no_automatic_edges, external, .. } = args;
        let site = SiteArgs { paths, vars, var_files, no_automatic_edges, external };
        let site = site.load(global)?;
        let graph = SiteGraph::new(&site);
        let graph = match around {
            Some(around) => graph.around(&site.resource(&around)?.name, depth),
            None => graph,
        };
        print::data(global.output, &graph, print::site_dot)?;
    }
    Ok(exit::DONE)
}
