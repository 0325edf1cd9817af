//! The command `graph`: draws the dependencies of a site or of the running agent.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use anstyle::AnsiColor;
use crankcase_resources::front::resource_name;
use crankcase_status::picture::{Line, Look, Picture};
use serde::Serialize;

use crate::command::progress::loaded;
use crate::external_args::ExternalArgs;
use crate::facts_store::find_or_none;
use crate::global::{Format, Global};
use crate::interrupts::Interrupts;
use crate::paths::worker_path;
use crate::site_args::{SiteArgs, variable};
use crate::site_graph::SiteGraph;
use crate::{exit, print};

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Drawn {
    /// Boxes and lines for a terminal
    Text,
    /// A picture as SVG
    Svg,
    /// A flowchart of Mermaid
    Mermaid,
    /// The language of Graphviz; always the whole graph
    Dot,
    /// JSON; always the whole graph
    Json,
}

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
    /// How it is drawn
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Drawn,
    /// Draw all: equal siblings as a box each, and also what is well in a graph of more than 150 boxes
    #[arg(long)]
    whole: bool,
    /// Show what is inside this engine, or the group of equal siblings that this worker is in; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "whole")]
    open: Vec<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let Args { live, path, around, depth, most, format, whole, open, .. } = args;
    let open: BTreeSet<String> = open.iter().map(|path| worker_path(path)).collect();
    let drawing = Drawing { format, open: (!whole).then_some(open) };
    if live {
        let client = global.connect().await?;
        let graphs = match around {
            Some(around) => client.graph_near(&worker_path(&around), (depth, most)).await?,
            None => client.graph(path.as_deref().map(worker_path).as_deref()).await?,
        };
        drawing.print(global, &graphs, || Picture::of(&graphs, resource_name))?;
    } else {
        let Args { paths, vars, var_files, no_automatic_edges, external, .. } = args;
        let site = SiteArgs { paths, vars, var_files, no_automatic_edges, external };
        let (mut interrupts, asked) = (Interrupts::listen()?, global.clone());
        // Also drawn there: a signal ends a graph that nobody reads.
        let draw = move || -> anyhow::Result<()> {
            let site = site.load(&asked, &find_or_none(&asked)?)?;
            let graph = SiteGraph::new(&site);
            let graph = match around {
                Some(around) => {
                    let limits = [depth, most].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
                    graph.near(&site.resource(&around)?.name, limits.into())
                }
                None => graph,
            };
            drawing.print(&asked, &graph, || graph.picture())
        };
        if loaded(global, &mut interrupts, draw).await.transpose()?.is_none() {
            return Ok(exit::INTERRUPTED);
        }
    }
    Ok(exit::DONE)
}

/// How the graph is drawn, and how much of it.
struct Drawing {
    format: Drawn,
    /// The engines and groups that stay open in a picture that leaves parts out; none if the whole graph is drawn.
    open: Option<BTreeSet<String>>,
}

impl Drawing {
    fn print<T: Serialize>(
        &self,
        global: &Global,
        graph: &T,
        picture: impl FnOnce() -> Picture,
    ) -> anyhow::Result<()> {
        let is_svg = global.output == Format::Svg;
        let format = if is_svg { Drawn::Svg } else { self.format };
        if global.output.is_data() || format == Drawn::Json {
            let output = if global.output.is_data() { global.output } else { Format::Json };
            return print::data(output, graph, |_, _| Ok(()));
        }
        let whole = picture();
        if format == Drawn::Dot {
            return print::text(whole.to_dot());
        }
        let picture = match &self.open {
            Some(open) => whole.readable(open),
            None => whole,
        };
        match format {
            Drawn::Svg => print::text(picture.to_svg()),
            Drawn::Mermaid => print::text(picture.to_mermaid()),
            _ => print::data(Format::Human, graph, |_, out| {
                picture.to_text().iter().try_for_each(|line| colored(line, out))
            }),
        }
    }
}

/// Writes a line of a picture in the colours of what it shows.
fn colored(line: &Line, out: &mut print::Out<'_>) -> std::io::Result<()> {
    for span in &line.spans {
        let color = match span.look {
            Look::Plain => None,
            Look::Well => Some(AnsiColor::Green),
            Look::OnItsWay => Some(AnsiColor::Yellow),
            Look::Off => Some(AnsiColor::BrightBlack),
            Look::Trouble => Some(AnsiColor::Red),
        };
        out.colored(color, &span.text)?;
    }
    writeln!(out)
}
