//! The command `boot`: shows how the running agent came up.

use std::io::{self, Write};

use anyhow::bail;
use crankcase_status::wire::WaitedFor;
use crankcase_status::{Boot, BootStep, NotUp, seconds};
use serde::Serialize;

use crate::exit::ExitError;
use crate::global::{Format, Global};
use crate::paths::{resource_path, worker_path};
use crate::{exit, print};

/// How many lines are printed of those by their own time, and of those that are not up.
const LISTED: usize = 40;

/// What of the boot is shown.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// The chain of this worker instead of the critical path, such as resources/www
    path: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The workers by the time that their own start took, the longest first
    Blame,
}

/// The chain of one worker.
#[derive(Debug, Serialize)]
struct Chain {
    chain: Vec<BootStep>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let client = global.connect().await?;
    let boot = client.boot().await?;
    match (args.what, args.path) {
        (None, None) if global.output == Format::Svg => print::text(boot.to_svg(resource_path))?,
        _ if global.output == Format::Svg => {
            let text = "--output svg draws the whole boot: leave the worker or `blame` out";
            bail!(ExitError::new(exit::USAGE, text))
        }
        (Some(What::Blame), _) => print::data(global.output, &boot, blame)?,
        (None, None) => print::data(global.output, &boot, write)?,
        (None, Some(path)) => {
            let path = worker_path(&path);
            let path = match path.strip_prefix('/') {
                Some(_) => path,
                None => format!("{}/{path}", boot.path.trim_end_matches('/')),
            };
            let chain = boot.chain(&path);
            if chain.is_empty() {
                // Names the path that was meant, if there is no such worker.
                let why = client.why(&path).await?;
                bail!("{} has not come up in the boot: {}", resource_path(&path), why.text);
            }
            print::data(global.output, &Chain { chain }, |Chain { chain }, out| steps(chain, out))?;
        }
    }
    Ok(exit::DONE)
}

fn write(boot: &Boot, out: &mut print::Out<'_>) -> io::Result<()> {
    writeln!(out, "{}", boot.summary())?;
    writeln!(out, "@ when it was up, + how long its start took")?;
    steps(&boot.critical, out)?;
    if boot.not_up.is_empty() {
        return Ok(());
    }
    writeln!(out, "not up:")?;
    for NotUp { why, path, state, error, .. } in boot.not_up.iter().take(LISTED) {
        if let Some(why) = why {
            writeln!(out, "  {}", print::indented(why, 4))?;
            continue;
        }
        let error = error.as_ref().map(|error| format!(": {}", print::first_line(error)));
        let (path, state) = (resource_path(path), state.replace('_', " "));
        writeln!(out, "  {} {state}{}", print::one_line(&path), error.unwrap_or_default())?;
    }
    more(boot.not_up.len(), out)
}

fn blame(boot: &Boot, out: &mut print::Out<'_>) -> io::Result<()> {
    let mut steps: Vec<_> = boot.workers.iter().collect();
    steps.sort_by_key(|step| std::cmp::Reverse(step.took()));
    for step in steps.iter().take(LISTED) {
        let took = seconds(step.took().as_secs_f64());
        writeln!(out, "{took:>10}  {}", print::one_line(&resource_path(&step.path)))?;
    }
    more(steps.len(), out)
}

fn more(count: usize, out: &mut print::Out<'_>) -> io::Result<()> {
    match count.saturating_sub(LISTED) {
        0 => Ok(()),
        more => writeln!(out, "  ... {more} more; --output json has all"),
    }
}

/// Writes the steps of a chain, each below the one that waited for it.
fn steps(steps: &[BootStep], out: &mut print::Out<'_>) -> io::Result<()> {
    for (depth, step) in steps.iter().enumerate() {
        let path = resource_path(&step.path);
        let (up, took) = (seconds(step.up), seconds(step.took().as_secs_f64()));
        write!(out, "{:indent$}{} @{up} +{took}", "", print::one_line(&path), indent = depth * 2)?;
        let waited = step.ready - step.installed;
        let what = match &step.waited_for {
            WaitedFor::Input(name) => print::one_line(&resource_path(name)).into_owned(),
            WaitedFor::Delay => "its bounce delay".to_owned(),
            WaitedFor::Backoff => "its backoff".to_owned(),
            WaitedFor::End => "the end of its worker before".to_owned(),
            _ => String::new(),
        };
        if !what.is_empty() {
            write!(out, ", waited {} for {what}", seconds(waited))?;
        }
        let queued = step.begun - step.ready;
        if queued >= 0.001 {
            write!(out, ", begun {} later", seconds(queued))?;
        }
        if step.generation > 1 {
            write!(out, ", at its start {}", step.generation)?;
        }
        match step.failed_attempts {
            0 => {}
            1 => out.write_all(b", after a failed attempt")?,
            failed => write!(out, ", after {failed} failed attempts")?,
        }
        writeln!(out)?;
    }
    Ok(())
}
