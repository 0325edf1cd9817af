//! The command `facts watch`: prints each change at a path as it happens.

use std::io::Write as _;
use std::time::Duration;

use crankcase_facts::wire::Entry;
use crankcase_facts::{Facts, Pointer, Snapshot};
use tokio::time::sleep;

use super::path::path;
use super::read;
use crate::completion::fact_path;
use crate::facts_store as store;
use crate::global::Global;
use crate::{exit, print};

/// The interval at which the command looks for changes in the store. A look takes some microseconds.
const EVERY: Duration = Duration::from_millis(100);

/// The facts to follow.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// The path, such as /mero/globals
    #[arg(default_value = "/", value_parser = path, add = fact_path())]
    path: Pointer,
}

pub(super) async fn run(global: &Global, args: WatchArgs) -> anyhow::Result<u8> {
    let path = &args.path;
    let mut facts = store::find(global)?;
    let first = facts.as_ref().map_or_else(Snapshot::default, Facts::current);
    let mut seen = first.revision();
    if !global.quiet {
        // When stderr is closed, there is nowhere to report the error.
        let version = first.version();
        drop(print::to_stderr(|out| writeln!(out, "following the facts from version {version}")));
    }
    loop {
        sleep(EVERY).await;
        match &facts {
            Some(facts) => drop(facts.refresh()?),
            None => facts = store::find(global)?,
        }
        let Some(facts) = &facts else { continue };
        for entry in facts.since(seen)? {
            seen = entry.revision;
            let Some(entry) = of_path(entry, path) else { continue };
            let entry = Entry::of(&entry, facts.current().schemas());
            match print::line(global.output, &entry, read::write_entry) {
                Err(error) if print::is_broken_pipe(&error) => return Ok(exit::DONE),
                printed => printed?,
            }
        }
    }
}

/// Returns the change with only its differences at a path. Returns none if it has none there.
fn of_path(mut entry: crankcase_facts::Entry, path: &Pointer) -> Option<crankcase_facts::Entry> {
    entry.differences.retain(|it| it.path.touches(path));
    (!entry.differences.is_empty()).then_some(entry)
}
