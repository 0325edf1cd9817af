//! The command `plan`: shows what apply would change, and changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use crankcase_facts::Facts;
use crankcase_resources::report::Salt;
use crankcase_resources::state::Records;
use crankcase_resources::{Facilities, PlanOptions};
use crankcase_state::reading;

use crate::command::progress::{loaded, told};
use crate::exit::ExitError;
use crate::facts_store::{find_or_none, world_of};
use crate::global::Global;
use crate::interrupts::Interrupts;
use crate::saved_plan::SavedPlan;
use crate::site_args::{SiteArgs, WorkArgs};
use crate::{exit, print};

/// What is planned.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    site: SiteArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// Exit with 2 if anything would change; a print and an exec without a guard act each time, and do not count
    #[arg(long)]
    detailed_exitcode: bool,
    /// Save the plan in a regular file, for `apply` to carry out as it was seen; not of a manifest from
    /// a pipe, which `apply` could not read again
    #[arg(long, short = 'o', value_name = "PLAN")]
    out: Option<PathBuf>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let mut interrupts = Interrupts::listen()?;
    // A saved plan has absolute paths: `apply` plans the same files again, and compares.
    let named = if args.out.is_some() { args.site.absolute()? } else { args.site };
    let (loading, is_saved, asked) = (named.clone(), args.out.is_some(), global.clone());
    // The files are read before anything is looked at, so that a change meanwhile is noticed.
    let load = move || {
        let files = if is_saved { loading.fingerprints() } else { BTreeMap::new() };
        // The site and its resources see the facts of one moment.
        let facts = find_or_none(&asked)?;
        anyhow::Ok((files, loading.load(&asked, &facts)?, facts))
    };
    let Some((files, site, facts)) = loaded(global, &mut interrupts, load).await.transpose()?
    else {
        return Ok(exit::INTERRUPTED);
    };
    if site.is_piped() && args.out.is_some() {
        let text = "cannot save a plan of a manifest from a pipe: apply could not read it again";
        bail!(ExitError::new(exit::USAGE, text));
    }
    if let Some(name) = named.secret_var(&site).filter(|_| args.out.is_some()) {
        let text = format!(
            "cannot save a plan with the secret of --var {name} in it; set it in a file, with --var-file"
        );
        bail!(ExitError::new(exit::USAGE, text));
    }
    let selection = args.work.selection();
    let digest = site.digest().to_owned();
    let site = site.select(&selection)?;
    let (parallel, facilities) = (args.work.jobs, facilities(global, facts));
    let salt = args.out.as_ref().map(|_| Salt::random());
    let options = PlanOptions { parallel, facilities, salt, ..PlanOptions::default() };
    let plan = tokio::select! {
        biased;
        () = interrupts.next() => return Ok(exit::INTERRUPTED),
        plan = told(global, ("plan", &options.progress), site.plan(&options)) => plan,
    };
    let output = global.output;
    let show = move || print::data(output, &plan, print::marked).map(|()| plan);
    let Some(plan) = interrupts.unless(show).await.transpose()? else {
        return Ok(exit::INTERRUPTED);
    };
    let code = if plan.failures() > 0 {
        exit::FAILED
    } else if args.detailed_exitcode && plan.has_changes() {
        exit::CHANGED
    } else {
        exit::DONE
    };
    if let Some(path) = &args.out {
        SavedPlan::new((named, selection), (files, digest), plan).write(path)?;
    }
    Ok(code)
}

/// Returns what an earlier run has left to be done. A plan goes without, where it may not look.
fn facilities(global: &Global, facts: Facts) -> Facilities {
    let state = global.state_dir().map_err(anyhow::Error::from);
    let opened = state.and_then(|state| {
        let records = Records::open(reading(state.path())?)?;
        Ok(Facilities::of_plan(state.path(), records))
    });
    let opened = opened.unwrap_or_else(|error| {
        tracing::warn!("what an earlier run has left to be done is not shown: {error:#}");
        Facilities::default()
    });
    opened.in_world(world_of(facts))
}
