use crankcase_resources::{Tally, resource_name};
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
    let (mut resource, mut tally) = (None, Tally::default());
    if let Subject::Worker(worker) = &subject
        && worker.path.split('/').any(|name| name == RESOURCES)
    {
        tally = fetch_tally(&client).await;
        resource = resource_in(&worker.path).and_then(|name| tally.resources.remove(&name));
    }
    let has_trouble = subject.has_trouble();
    let people = if args.all { print::report_all } else { print::report };
    print::data(global.output, &Reported { subject, resource, tally }, people)?;
    Ok(if args.exit_status && has_trouble { exit::FAILED } else { exit::DONE })
}

/// Returns how the resources have fared, as far as the agent tells.
async fn fetch_tally(client: &Client) -> Tally {
    match client.report(Some(TALLY)).await {
        Ok(Subject::Worker(worker)) => worker.report.as_ref().and_then(print::tally_of),
        _ => None,
    }
    .unwrap_or_default()
}

/// Returns the name of the resource at the path of a worker, if it is one.
fn resource_in(path: &str) -> Option<String> {
    let (of, name) = path.rsplit_once('/')?;
    of.ends_with(&format!("/{RESOURCES}")).then(|| resource_name(name))
}
