//! The command `apply`: makes the machine as declared, once.

use std::io::Write;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::bail;
use crankcase_engine::{Stop, Stopper};
use crankcase_facts::Facts;
use crankcase_resources::report::Salt;
use crankcase_resources::run::Passed;
use crankcase_resources::state::Records;
use crankcase_resources::{
    Account, ApplyOptions, Approval, AsPlanned, Facilities, Halt, Observer, PlanOptions, Selection,
    Site,
};
use crankcase_workers::{Leftover, sort_leftovers};
use serde::Serialize;

use crate::command::confirm::{Asking, Confirm, confirm_plan};
use crate::command::progress::{loaded, told};
use crate::ending::tell;
use crate::exit::ExitError;
use crate::facts_store::{self, Held, world_of};
use crate::global::Global;
use crate::interrupts::Interrupts;
use crate::observing::Observing;
use crate::saved_plan::SavedPlan;
use crate::site_args::{SiteArgs, WorkArgs};
use crate::{exit, print};

/// The message after a second signal.
const KILLED: &str = "interrupted again: what ran was killed, and there is no account";

/// The message when a person has refused the plan.
const UNCONFIRMED: &str = "crankcase: it was not confirmed; no resource was changed";

/// The most applies of one command, while each of them changes facts that the site keeps.
const PASSES: usize = 10;

/// The error when the last of these applies has changed such facts too.
const MOVES_ON: &str = "the facts that the site keeps have changed ten times; what says which resources there are \
    must not depend on them for ever";

/// The error when the site cannot be loaded any more.
const NOT_AGAIN: &str = "cannot load the site again after it was applied";

/// The error when variables or resources are given with a saved plan.
const HAS_VARS: &str = "a saved plan has the variables and resources that it was made with; leave out --var, \
    --var-file, --tag, --only and --skip";

/// What is applied.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    site: SiteArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// Exit with 2 if anything was changed; a print and an exec without a guard act each time, and do not count
    #[arg(long)]
    detailed_exitcode: bool,
    /// Begin nothing more after the first failure
    #[arg(long)]
    fail_fast: bool,
    /// Show the plan, and ask on the terminal before it, or each resource or action of it, is carried out
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    confirm: Confirm,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    args.confirm.require_terminal()?;
    let mut interrupts = Interrupts::listen()?;
    // Boxed, as it is large.
    let done = match Box::pin(work(global, &args, &mut interrupts)).await? {
        Worked::Interrupted => return Ok(exit::INTERRUPTED),
        Worked::Unconfirmed => {
            drop(print::to_stderr(|out| writeln!(out, "{UNCONFIRMED}")));
            return Ok(exit::FAILED);
        }
        Worked::Killed => {
            tell(KILLED).await;
            return Ok(exit::INTERRUPTED);
        }
        Worked::Done(done) => *done,
    };
    let Done { applied: Applied { account, was_interrupted, error }, observing, code } = done;
    let shown = show((global, observing), (account, was_interrupted), &mut interrupts).await;
    let Some(error) = error else {
        return Ok(if shown?.is_some() { code } else { exit::INTERRUPTED });
    };
    if let Err(unshown) = shown {
        let error: &dyn std::error::Error = &*unshown;
        tracing::warn!(error, "the account cannot be shown");
    }
    Err(error)
}

/// How the work has ended.
enum Worked {
    /// A signal came before anything was done.
    Interrupted,
    /// A person has refused the plan.
    Unconfirmed,
    /// A second signal killed the programs, and there is no account.
    Killed,
    Done(Box<Done>),
}

/// The account of the work, to be shown.
struct Done {
    applied: Applied,
    observing: Arc<Observing>,
    /// The exit code, if the account is shown and no error is.
    code: u8,
}

/// Does all the work. The state folder is held before anything is read, because an agent that runs
/// would undo and do the same things. It is given back when this returns: the account may wait for
/// its reader, and holds up no other process.
async fn work(global: &Global, args: &Args, interrupts: &mut Interrupts) -> anyhow::Result<Worked> {
    let asked = Asked::new(global, args);
    let beginning = asked.clone();
    let begin = move || {
        let begun = facts_store::begin(&beginning.global)?;
        let loaded = beginning.load(begun.facts())?;
        anyhow::Ok((begun.hold(&beginning.global)?, loaded))
    };
    let begun = loaded(global, interrupts, begin).await.transpose()?;
    let Some((held, (saved, site))) = begun else { return Ok(Worked::Interrupted) };
    let processes = Facilities::processes(held.state());
    let left = tokio::select! {
        biased;
        () = interrupts.next() => return Ok(Worked::Interrupted),
        // The programs that run on are for the next agent to adopt.
        left = sort_leftovers(&processes) => left?.ended,
    };
    let observing = Observing::new(global, ("apply", &args.site.paths), held.state());
    let observing = Arc::new(observing);
    let facilities = facilities(&held, observing.clone())?;
    tell_leftovers(&left, (&site, facilities.records()), &observing);
    let is_bound = saved.is_some();
    let mut as_planned = None;
    if is_bound || args.confirm != Confirm::None {
        let planning = plan(global, args, (saved, &site), &facilities);
        let confirmed = tokio::select! {
            biased;
            () = interrupts.next() => return Ok(Worked::Interrupted),
            confirmed = planning => confirmed?,
        };
        let Some(confirmed) = confirmed else { return Ok(Worked::Unconfirmed) };
        as_planned = Some(confirmed);
    }
    let (stopper, stop) = Stop::pair();
    let asking = args.confirm.is_piecemeal();
    let asking = asking.then(|| Asking::new(args.confirm, (stopper.clone(), stop.clone())));
    let asking = asking.map(Arc::new);
    let options = options(args, (as_planned, asking.clone()), facilities);
    let (facts, is_asked) = (held.facts.clone(), asking.is_some());
    let passes = Passes { asked, facts, args, options: &options, observing: &observing, is_asked };
    let Some(applied) = passes.apply(site, (&stopper, stop), interrupts).await? else {
        observing.end_record("interrupted");
        // A thread may still work on a file: the folder is given back with the process.
        std::mem::forget(held);
        return Ok(Worked::Killed);
    };
    let is_bound = is_bound && asking.is_none_or(|asking| !asking.was_refused());
    let code = applied.code(is_bound, args.detailed_exitcode);
    observing.end_record(applied.outcome(code));
    Ok(Worked::Done(Box::new(Done { applied, observing, code })))
}

/// Returns the exit code of an apply that went to its end. `is_bound` says that what was refused was so by
/// a saved plan.
fn code_of(account: &Account, is_bound: bool, is_detailed: bool) -> u8 {
    if is_bound && account.refused() > 0 {
        exit::CONFLICT
    } else if account.failures() + account.refused() > 0 {
        exit::FAILED
    } else if is_detailed && account.has_changed() {
        exit::CHANGED
    } else {
        exit::DONE
    }
}

/// Shows the account: to people as a whole, and as data the last line of it, after those of what was done. `None` if a
/// signal comes first.
async fn show(
    (global, observing): (&Global, Arc<Observing>),
    (account, was_interrupted): (Account, bool),
    interrupts: &mut Interrupts,
) -> anyhow::Result<Option<()>> {
    let output = global.output;
    let show = move || {
        if !output.is_data() {
            return print::data(output, &account, print::marked);
        }
        observing.end_lines();
        print::last_line(output, &End::of(&account))
    };
    let shown = match was_interrupted {
        true => interrupts.unless_later(show).await,
        false => interrupts.unless(show).await,
    };
    shown.transpose()
}

/// The last line of data: how many resources ended in which way.
#[derive(Debug, Serialize)]
struct End {
    event: &'static str,
    changed: usize,
    unchanged: usize,
    /// Includes the resources that were skipped because of other ones.
    failed: usize,
    left_alone: usize,
    run_only: usize,
    /// Depends on a resource that only `run` supervises.
    needs_run: usize,
    /// All was done, and a stop has prevented the look after it.
    unverified: usize,
    halted: usize,
    refused: usize,
    released: usize,
}

impl End {
    fn of(account: &Account) -> Self {
        Self {
            event: "end",
            changed: account.changes(),
            unchanged: account.unchanged(),
            failed: account.failures(),
            left_alone: account.left_alone(),
            run_only: account.run_only(),
            needs_run: account.needs_run(),
            unverified: account.unverified(),
            halted: account.halted(),
            refused: account.refused(),
            released: account.released.len(),
        }
    }
}

/// Returns what the resources are given, in a state folder that is held.
fn facilities(held: &Held, observing: Arc<Observing>) -> anyhow::Result<Facilities> {
    let facilities = Facilities::open(held.state(), held.records()?).observed_by(observing);
    Ok(facilities.in_world(world_of(held.facts.clone())))
}

/// Plans what is to be applied, compares that with a saved plan, and has a person confirm it. Returns the
/// approval of what was shown; nothing if it was not confirmed.
async fn plan(
    global: &Global,
    args: &Args,
    (saved, site): (Option<SavedPlan>, &Site),
    facilities: &Facilities,
) -> anyhow::Result<Option<AsPlanned>> {
    let (parallel, facilities) = (args.work.jobs, facilities.clone());
    let salt = saved.as_ref().map_or_else(|| Some(Salt::random()), SavedPlan::salt);
    let options = PlanOptions { parallel, facilities, salt, ..PlanOptions::default() };
    let plan = told(global, ("plan", &options.progress), site.plan(&options)).await;
    if let Some(saved) = &saved {
        saved.check(&plan)?;
    }
    let is_asked = args.confirm != Confirm::None && plan.has_something_to_do();
    if is_asked && !confirm_plan(args.confirm, &plan).await {
        return Ok(None);
    }
    let as_planned = AsPlanned::new(plan);
    // Nobody has confirmed the changes that a saved plan could not show.
    Ok(Some(if saved.is_some() { as_planned } else { as_planned.with_unseen() }))
}

/// Returns how to apply. Two decide on each change: the plan that was shown, and the person at the
/// terminal.
fn options(
    args: &Args,
    (as_planned, asking): (Option<AsPlanned>, Option<Arc<Asking>>),
    facilities: Facilities,
) -> ApplyOptions {
    // A person is asked about one resource at a time, in the order of the plan.
    let parallel = if asking.is_some() { NonZeroUsize::MIN } else { args.work.jobs };
    let is_free = as_planned.is_none() && asking.is_none();
    let as_planned = as_planned.map(|as_planned| Arc::new(as_planned) as Arc<dyn Approval>);
    let asking = asking.map(|asking| asking as Arc<dyn Approval>);
    let approval = as_planned.into_iter().chain(asking).collect();
    let fail_fast = args.fail_fast;
    // With an approval there is no second apply: it could make changes that the approved plan does not show.
    let passed = is_free.then(Passed::default);
    ApplyOptions { parallel, fail_fast, approval, passed, facilities, ..ApplyOptions::default() }
}

/// The result of the applies of one command.
struct Applied {
    account: Account,
    was_interrupted: bool,
    /// The error that prevented a further apply.
    error: Option<anyhow::Error>,
}

impl Applied {
    /// Returns the exit code of the account. `is_bound` says that what was refused was so by a saved
    /// plan.
    fn code(&self, is_bound: bool, is_detailed: bool) -> u8 {
        match self.was_interrupted {
            true => exit::INTERRUPTED,
            false => code_of(&self.account, is_bound, is_detailed),
        }
    }

    /// Returns how the record ends.
    fn outcome(&self, code: u8) -> &'static str {
        match code {
            _ if self.error.is_some() => "failed",
            exit::INTERRUPTED => "interrupted",
            exit::DONE | exit::CHANGED => "done",
            _ => "failed",
        }
    }
}

/// The applies of one command.
struct Passes<'a> {
    asked: Asked,
    facts: Facts,
    args: &'a Args,
    options: &'a ApplyOptions,
    observing: &'a Observing,
    /// Whether a person is asked during the applies.
    is_asked: bool,
}

impl Passes<'_> {
    /// Applies a site. Loads and applies it again as long as an apply changes facts that the site keeps, because other
    /// resources may be declared then. A failed resource prevents no further apply, except with `--fail-fast`. Returns
    /// nothing if the work was broken off.
    async fn apply(
        &self,
        site: Site,
        (stopper, stop): (&Stopper, Stop),
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<Option<Applied>> {
        let (mut released, mut passes) = (Vec::new(), 0);
        // Nothing is done yet. The error of a later round is returned with the account.
        let mut round = self.round(site, passes)?;
        loop {
            let applying = self.once(round.part(), stop.clone());
            let applied = to_the_end(applying, stopper, interrupts).await;
            let Some((mut account, was_interrupted)) = applied else { return Ok(None) };
            released.append(&mut account.released);
            account.released.clone_from(&released);
            let has_failed = self.args.fail_fast && account.failures() > 0;
            let halt = match was_interrupted {
                true => Some(Halt::Stop),
                false => has_failed.then_some(Halt::FailFast),
            };
            if let Some(by) = halt {
                self.leave(&mut account, &round.site, by);
            }
            let passed = self.options.passed.as_ref();
            let passed = passed.filter(|_| halt.is_none() && !round.site.is_piped());
            let mut applied = Applied { account, was_interrupted, error: None };
            let is_part = round.part.is_some();
            if !passed.is_some_and(|passed| passed.has_changed_facts() || is_part) {
                return Ok(Some(applied));
            }
            passes += 1;
            if passes == PASSES {
                self.leave(&mut applied.account, &round.site, Halt::NotLoadedAgain);
                applied.error = Some(ExitError::new(exit::FAILED, MOVES_ON).into());
                return Ok(Some(applied));
            }
            match self.load_again(interrupts, passes).await {
                Ok(Some(again)) => round = again,
                Ok(None) => {
                    self.leave(&mut applied.account, &round.site, Halt::Stop);
                    return Ok(Some(Applied { was_interrupted: true, ..applied }));
                }
                Err(error) => {
                    // It is no error of input any more: something was done.
                    self.leave(&mut applied.account, &round.site, Halt::NotLoadedAgain);
                    applied.error = Some(error.context(ExitError::new(exit::FAILED, NOT_AGAIN)));
                    return Ok(Some(applied));
                }
            }
        }
    }

    /// Loads the site for the next round, with the facts as they are by now. Returns none if a signal
    /// comes first.
    async fn load_again(
        &self,
        interrupts: &mut Interrupts,
        passes: usize,
    ) -> anyhow::Result<Option<Round>> {
        let (asked, facts) = (self.asked.clone(), self.facts.clone());
        let load = move || asked.load(&facts).map(|(_, site)| site);
        let again = loaded(&self.asked.global, interrupts, load).await.transpose()?;
        again.map(|site| self.round(site, passes)).transpose()
    }

    /// Accounts for what was left out because it is known only after another apply, which does not come.
    fn leave(&self, account: &mut Account, site: &Site, by: Halt) {
        let left = account.not_attempted(site.declarations(), by);
        left.iter().for_each(|accounted| self.observing.accounted(accounted));
        account.resources.extend(left);
    }

    /// Returns the round of a site. It leaves out the resources that are known only after an apply,
    /// unless the last apply has changed no facts.
    fn round(&self, site: Site, passes: usize) -> anyhow::Result<Round> {
        let late = site.declarations().iter().filter(|declared| declared.is_unsure);
        let skip: Vec<String> = late.map(|declared| declared.name.clone()).collect();
        let passed = self.options.passed.as_ref().filter(|_| !skip.is_empty() && !site.is_piped());
        if !passed.is_some_and(|passed| passes == 0 || passed.has_changed_facts()) {
            return Ok(Round { site, part: None });
        }
        let part = site.select(&Selection { skip, ..Selection::default() })?;
        Ok(Round { site, part: Some(part) })
    }

    fn once<'s>(
        &'s self,
        site: &'s Site,
        stop: Stop,
    ) -> Pin<Box<dyn Future<Output = Account> + 's>> {
        let applying = site.apply(self.options, stop);
        match self.is_asked {
            // A message about the progress would appear in the line of a question.
            true => Box::pin(applying),
            false => {
                Box::pin(told(&self.asked.global, ("apply", &self.options.progress), applying))
            }
        }
    }
}

/// A site that is applied, whole or in part.
struct Round {
    site: Site,
    /// The resources that are known already; none if these are all.
    part: Option<Site>,
}

impl Round {
    /// Returns what is applied.
    fn part(&self) -> &Site {
        self.part.as_ref().unwrap_or(&self.site)
    }
}

/// Waits for the account, and returns whether the work was interrupted; nothing if it was broken off.
async fn to_the_end(
    mut applying: Pin<Box<dyn Future<Output = Account> + '_>>,
    stopper: &Stopper,
    interrupts: &mut Interrupts,
) -> Option<(Account, bool)> {
    tokio::select! {
        biased;
        account = &mut applying => return Some((account, false)),
        () = interrupts.next() => {}
    }
    // Commands that run are told to end, and the account says what was not attempted.
    stopper.stop();
    tokio::select! {
        biased;
        account = &mut applying => Some((account, true)),
        // Commands that run are killed when it is dropped.
        () = interrupts.again() => None,
    }
}

/// The site that the command line names.
#[derive(Debug, Clone)]
struct Asked {
    site: SiteArgs,
    work: WorkArgs,
    global: Global,
}

impl Asked {
    fn new(global: &Global, args: &Args) -> Self {
        Self { site: args.site.clone(), work: args.work.clone(), global: global.clone() }
    }

    /// Loads what is applied: a site, or a saved plan and the site that it was made of.
    fn load(&self, facts: &Facts) -> anyhow::Result<(Option<SavedPlan>, Site)> {
        let Self { site, work, global } = self;
        let saved = SavedPlan::read(site)?;
        let selection = work.selection();
        if saved.is_some() && (site.sets_vars() || !selection.is_all()) {
            bail!(ExitError::new(exit::USAGE, HAS_VARS));
        }
        let loaded = match &saved {
            Some(saved) => saved.load(global, facts)?,
            None => site.load_to_apply(global, facts)?.select(&selection)?,
        };
        Ok((saved, loaded))
    }
}

/// Tells of what a killed agent has left, and puts the ends of its programs on record.
fn tell_leftovers(left: &[Leftover], (site, records): (&Site, &Records), observing: &Observing) {
    for leftover in left {
        let (process, fate) = (&leftover.name, leftover.fate);
        tracing::warn!(process, %fate, "process was left behind");
        if let Some(ended) = site.left_behind(leftover, records) {
            observing.happened(&ended);
        }
    }
}
