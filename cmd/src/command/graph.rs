use crate::cli::Global;
use crate::{exit, print};

/// Which graph is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show the graph of the running agent, with states
    #[arg(long, required = true)]
    live: bool,
    /// Only this engine, or what is next to this worker
    #[arg(long)]
    path: Option<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let Args { live: _, path } = args;
    let graphs = super::connect(global).await?.graph(path.as_deref()).await?;
    print::data(global.output, &graphs, print::dot)?;
    Ok(exit::DONE)
}
