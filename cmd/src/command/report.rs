use crankcase_resources::{ResourceTally, resource_name};
use crankcase_status::Client;
use crankcase_status::wire::Subject;

use crate::global::Global;
use crate::paths::{RESOURCES, TALLY, worker_path};
use crate::print::{Filter, Reported};
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
    #[command(flatten)]
    only: Filter,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let client = global.connect().await?;
    let path = args.path.as_deref().map(worker_path);
    let mut subject = client.report(path.as_deref()).await?;
    args.only.apply(&mut subject);
    let resource = match &subject {
        Subject::Worker(worker) => resource(&client, &worker.path).await,
        _ => None,
    };
    let has_trouble = subject.has_trouble();
    let people = if args.all { print::report_all } else { print::report };
    print::data(global.output, &Reported { subject, resource }, people)?;
    Ok(if args.exit_status && has_trouble { exit::FAILED } else { exit::DONE })
}

/// Returns how the resource at a path has fared, if it is one.
async fn resource(client: &Client, path: &str) -> Option<ResourceTally> {
    let (of, name) = path.rsplit_once('/')?;
    if !of.ends_with(&format!("/{RESOURCES}")) {
        return None;
    }
    match client.report(Some(TALLY)).await.ok()? {
        Subject::Worker(worker) => {
            let mut tally = worker.report.as_ref().and_then(print::tally_of)?;
            tally.resources.remove(&resource_name(name))
        }
        _ => None,
    }
}
