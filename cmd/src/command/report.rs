use crate::global::Global;
use crate::paths::worker_path;
use crate::print::Condition;
use crate::{exit, print};

/// What is reported.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A worker or an engine, such as /agent/resources/www [default: the whole agent]
    path: Option<String>,
    /// Exit with 1 if anything in it is degraded, failed or parked
    #[arg(long)]
    exit_status: bool,
    /// List all resources, also those of many that are as declared
    #[arg(long)]
    all: bool,
    /// Only the resources that are so; may be given again
    #[arg(long, value_enum, value_name = "HOW", conflicts_with = "path")]
    state: Vec<Condition>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let client = global.connect().await?;
    let subject = client.report(args.path.as_deref().map(worker_path).as_deref()).await?;
    let subject = if args.state.is_empty() { subject } else { print::only(subject, &args.state) };
    let people = if args.all { print::report_all } else { print::report };
    print::data(global.output, &subject, people)?;
    Ok(if args.exit_status && subject.has_trouble() { exit::FAILED } else { exit::DONE })
}
