use std::io::Write as _;
use std::time::Duration;

use crankcase_facts::wire::Difference;
use crankcase_facts::{Facts, Pointer, Snapshot, difference};
use serde::Serialize;
use tokio::time::sleep;

use super::{path, show};
use crate::completion::fact_path;
use crate::facts_store as store;
use crate::global::Global;
use crate::{exit, print};

/// How often the store is asked whether something has changed. Asking costs some microseconds.
const EVERY: Duration = Duration::from_millis(100);

/// What is followed.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// The path, such as /mero/globals
    #[arg(default_value = "/", value_parser = path, add = fact_path())]
    path: Pointer,
}

/// What has changed at a path.
#[derive(Debug, Serialize)]
struct Changed {
    version: u64,
    revision: u64,
    differences: Vec<Difference>,
}

pub(super) async fn run(global: &Global, args: WatchArgs) -> anyhow::Result<u8> {
    let path = &args.path;
    let mut facts = store::find(global)?;
    let mut before = facts.as_ref().map_or_else(Snapshot::default, Facts::current);
    if !global.quiet {
        // Nobody can be told when stderr is closed.
        drop(writeln!(anstream::stderr(), "following the facts from version {}", before.version()));
    }
    loop {
        sleep(EVERY).await;
        match &facts {
            Some(facts) => drop(facts.refresh()?),
            None => facts = store::find(global)?,
        }
        let now = facts.as_ref().map_or_else(Snapshot::default, Facts::current);
        if now == before {
            continue;
        }
        let changed = difference(before.facts(), now.facts());
        let changed =
            changed.iter().filter(|it| it.path.is_within(path) || path.is_within(&it.path));
        let differences: Vec<_> = changed.map(|it| Difference::of(it, now.schemas())).collect();
        if !differences.is_empty() {
            let (version, revision) = (now.version(), now.revision());
            let changed = Changed { version, revision, differences };
            let printed = print::line(global.output, &changed, |changed, out| {
                writeln!(out, "version {}", changed.version)?;
                show::differences(&changed.differences, out)
            });
            match printed {
                Err(error) if print::is_broken_pipe(&error) => return Ok(exit::DONE),
                printed => printed?,
            }
        }
        before = now;
    }
}
