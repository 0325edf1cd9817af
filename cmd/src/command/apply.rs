use std::io::Write;

use crankcase_engine::Stop;
use crankcase_resources::{ApplyOptions, PlanOptions};

use crate::cli::Global;
use crate::command::{Interrupts, told};
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
    let saved = SavedPlan::read(&args.site)?;
    if saved.is_some() && (args.site.sets_vars() || !args.tags.tags.is_empty()) {
        return Err(HasVars.into());
    }
    let site = match &saved {
        Some(saved) => saved.load()?,
        None => args.tags.select(args.site.load()?)?,
    };
    // Held until all is done: an agent that runs would undo and do the same things.
    let _lock = global.state_dir()?.lock()?;
    let mut interrupts = Interrupts::listen()?;
    if let Some(saved) = saved {
        let options = PlanOptions::default();
        let plan = tokio::select! {
            biased;
            () = interrupts.next() => return Ok(exit::INTERRUPTED),
            plan = told(global, ("plan", &options.progress), site.plan(&options)) => plan,
        };
        saved.check(site.digest(), &plan)?;
    }
    let options = ApplyOptions { fail_fast: args.fail_fast, ..ApplyOptions::default() };
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
