//! The command `report`: shows what the running agent and its workers are doing.

use crankcase_resources::Tally;
use crankcase_resources::front::resource_name;
use crankcase_status::Client;
use crankcase_status::wire::{Only, Selection, Subject};

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
    /// Only how many workers are in which state, of the agent or of the engine at the path
    #[arg(long, conflicts_with_all = ["all", "exit_status", "depth", "only", "since", "no_inputs", "no_details"])]
    counts: bool,
    /// How many levels of engines in it are reported: 0 for its own workers [default: all]
    #[arg(long, value_name = "LEVELS")]
    depth: Option<u64>,
    /// Only the workers in trouble (degraded, failed or parked), or in this state, such as `backing_off`
    #[arg(long, value_name = "trouble|STATE", value_parser = only)]
    only: Option<Only>,
    /// Only the workers that an event of this number or a later one has changed
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    since: Option<u64>,
    /// Without the inputs of the workers
    #[arg(long)]
    no_inputs: bool,
    /// Without what the workers report of themselves, such as the last change of a resource
    #[arg(long)]
    no_details: bool,
    #[command(flatten)]
    resources: Filter,
}

fn only(text: &str) -> Result<Only, String> {
    Only::read(text).ok_or_else(|| "it is trouble or a state, such as waiting".to_owned())
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let client = global.connect().await?;
    let path = args.path.as_deref().map(worker_path);
    if args.counts {
        let counts = client.counts(path.as_deref()).await?;
        print::data(global.output, &counts, print::counts)?;
        return Ok(exit::DONE);
    }
    let mut part = Selection::default();
    (part.depth, part.only, part.since) = (args.depth, args.only, args.since);
    (part.without_inputs, part.without_details) = (args.no_inputs, args.no_details);
    let mut subject = client.report_part(path.as_deref(), &part).await?;
    args.resources.apply(&mut subject);
    let has_trouble = subject.has_trouble();
    let people = if args.all { print::report_all } else { print::report };
    print::data(global.output, &with_tally(&client, subject).await, people)?;
    Ok(if args.exit_status && has_trouble { exit::FAILED } else { exit::DONE })
}

/// Returns a report with how the resource has fared, if it is about one.
pub(super) async fn with_tally(client: &Client, subject: Subject) -> Reported {
    let (mut resource, mut tally) = (None, Tally::default());
    if let Subject::Worker(worker) = &subject
        && worker.path.split('/').any(|name| name == RESOURCES)
    {
        tally = fetch_tally(client).await;
        resource = resource_in(&worker.path).and_then(|name| tally.resources.remove(&name));
    }
    Reported { subject, resource, tally }
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
