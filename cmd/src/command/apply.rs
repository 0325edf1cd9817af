use std::io::Write;

use crankcase_engine::Stop;
use crankcase_resources::{ApplyOptions, Facilities, PlanOptions, Site};
use crankcase_workers::{Leftover, end_leftovers};

use crate::command::interrupts::Interrupts;
use crate::command::progress::told;
use crate::global::Global;
use crate::saved_plan::{HasVars, SavedPlan};
use crate::site_args::{SiteArgs, Tags};
use crate::{exit, print};

/// What is said after a second signal.
const KILLED: &str = "crankcase: interrupted again: what ran was killed, and there is no account";

/// What is applied.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    site: SiteArgs,
    #[command(flatten)]
    tags: Tags,
    /// Exit with 2 if anything was changed
    #[arg(long)]
    detailed_exitcode: bool,
    /// Begin nothing more after the first failure
    #[arg(long)]
    fail_fast: bool,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let mut interrupts = Interrupts::listen()?;
    let loaded = interrupts.unless(move || load(&args.site, &args.tags)).await;
    let Some((saved, site)) = loaded.transpose()? else { return Ok(exit::INTERRUPTED) };
    // Held until all is done: an agent that runs would undo and do the same things.
    let state_dir = global.state_dir()?;
    let _lock = state_dir.lock()?;
    let processes = Facilities::processes(state_dir.path());
    tokio::select! {
        biased;
        () = interrupts.next() => return Ok(exit::INTERRUPTED),
        ended = end_leftovers(&processes) => ended?.iter().for_each(tell_leftover),
    }
    let facilities = Facilities::open(state_dir.path())?;
    if let Some(saved) = saved {
        let options = PlanOptions { facilities: facilities.clone(), ..PlanOptions::default() };
        let plan = tokio::select! {
            biased;
            () = interrupts.next() => return Ok(exit::INTERRUPTED),
            plan = told(global, ("plan", &options.progress), site.plan(&options)) => plan,
        };
        saved.check(site.digest(), &plan)?;
    }
    let options = ApplyOptions { fail_fast: args.fail_fast, facilities, ..ApplyOptions::default() };
    let (stopper, stop) = Stop::pair();
    let applying = told(global, ("apply", &options.progress), site.apply(&options, stop));
    tokio::pin!(applying);
    let (account, was_interrupted) = tokio::select! {
        biased;
        account = &mut applying => (account, false),
        () = interrupts.next() => {
            // Commands that run are told to end, and the account says what was not attempted.
            stopper.stop();
            tokio::select! {
                biased;
                account = &mut applying => (account, true),
                // Commands that run are killed when it is dropped.
                () = interrupts.again() => {
                    drop(writeln!(anstream::stderr(), "{KILLED}"));
                    return Ok(exit::INTERRUPTED);
                }
            }
        }
    };
    print::data(global.output, &account, print::marked)?;
    Ok(if was_interrupted {
        exit::INTERRUPTED
    } else if account.failures() > 0 {
        exit::FAILED
    } else if args.detailed_exitcode && account.changes() > 0 {
        exit::CHANGED
    } else {
        exit::DONE
    })
}

/// Loads what is applied: a site, or a saved plan and the site that it was made of.
fn load(args: &SiteArgs, tags: &Tags) -> anyhow::Result<(Option<SavedPlan>, Site)> {
    let saved = SavedPlan::read(args)?;
    if saved.is_some() && (args.sets_vars() || !tags.tags.is_empty()) {
        return Err(HasVars.into());
    }
    let site = match &saved {
        Some(saved) => saved.load()?,
        None => tags.select(args.load()?)?,
    };
    Ok((saved, site))
}

fn tell_leftover(leftover: &Leftover) {
    let (process, fate) = (&leftover.name, leftover.fate);
    tracing::warn!(process, ?fate, "process was left behind");
}
