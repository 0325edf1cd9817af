use crate::global::Global;
use crate::paths::worker_path;
use crate::{exit, print};

/// What is reported.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A worker or an engine, such as /agent/resources/www [default: the whole agent]
    path: Option<String>,
    /// Exit with 1 if anything in it is degraded, failed or parked
    #[arg(long)]
    exit_status: bool,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let client = global.connect().await?;
    let subject = client.report(args.path.as_deref().map(worker_path).as_deref()).await?;
    print::data(global.output, &subject, print::report)?;
    Ok(if args.exit_status && subject.has_trouble() { exit::FAILED } else { exit::DONE })
}
