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
    /// Only this engine of the running agent, or what is near this worker
    #[arg(long, requires = "live", conflicts_with = "around")]
    path: Option<String>,
    /// Only what is near this resource, or this worker of the running agent
    #[arg(long, value_name = "NAME")]
    around: Option<String>,
    /// How many edges away what needs it is near; what it needs is near at any distance
    #[arg(long, value_name = "EDGES", default_value_t = 1, requires = "around")]
    depth: u64,
    /// How many users of one of them are shown; the number of the others stands there
    #[arg(long, value_name = "USERS", default_value_t = 20, requires = "around")]
    most: u64,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let Args { live, path, around, depth, most, .. } = args;
    if live {
        let client = global.connect().await?;
        let graphs = match around {
            Some(around) => client.graph_near(&worker_path(&around), (depth, most)).await?,
            None => client.graph(path.as_deref().map(worker_path).as_deref()).await?,
        };
        print::data(global.output, &graphs, print::dot)?;
    } else {
        let Args { paths, vars, var_files, no_automatic_edges, external, .. } = args;
        let site = SiteArgs { paths, vars, var_files, no_automatic_edges, external };
        let site = site.load(global)?;
        let graph = SiteGraph::new(&site);
        let graph = match around {
            Some(around) => {
                let limits = [depth, most].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
                graph.near(&site.resource(&around)?.name, limits.into())
            }
            None => graph,
        };
        print::data(global.output, &graph, print::site_dot)?;
    }
    Ok(exit::DONE)
}
