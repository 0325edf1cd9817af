//! The command `run`: keeps the machine as declared, until a signal comes.

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use crankcase_engine::{Engine, EngineError, Manifold, Name, Report, Stop, Worker};
use crankcase_facts::Facts;
use crankcase_manifest::{Host, LastGood, SiteFiles, SiteJudge};
use crankcase_manifolds::site::{ResourceHolds, RulesConfig, SiteTrial};
use crankcase_manifolds::{
    Agent, AgentBuilder, AgentError, ControlConfig, Ended, SIGNALS, facts, file_watch, last_good,
    metrics, page, site, source,
};
use crankcase_resources::front::resource_name;
use crankcase_resources::run::{RuleEvents, World};
use crankcase_resources::state::Records;
use crankcase_resources::{Observer, Site};
use crankcase_status::wire::EngineReport;
use crankcase_status::{PageAddress, PageConfig};
use crankcase_workers::{SignalHandle, Signals, WatcherConfig, Watches};
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::calls::calls;
use crate::command::progress::{loaded, waited_for};
use crate::command::runtime;
use crate::command::take_over::{HandOver, TakeOver, begin, read_state};
use crate::exit::ExitError;
use crate::facts_store::{self, Begun, FACTS, Held, host_name, world_of};
use crate::global::{Format, Global};
use crate::interrupts::Interrupts;
use crate::metrics::of_resources;
use crate::observing::{Observing, RUN};
use crate::site_args::{FirstFacts, IfInvalid, load_or_go_back, load_to_keep};
use crate::{exit, paths, print};

pub(crate) use self::args::{Args, Command};

mod args;

const WATCHES: Name<Watches> = Name::new("watches");
const SITE: Name<Arc<Site>> = Name::new("site");
const RESOURCES: Name<Engine> = Name::new(paths::RESOURCES);
const TALLY: Name<()> = Name::new(paths::TALLY);
const SETTLED: Name<()> = Name::new("settled");
const HOST_MATCHES: Name<()> = Name::new("host_matches");
const RULES: Name<()> = Name::new("rules");
const PAGE: Name<()> = Name::new("page");
const METRICS: Name<()> = Name::new("metrics");
const HAND_OVER: Name<()> = Name::new("hand_over");
const TAKE_OVER: Name<()> = Name::new("take_over");
const LAST_GOOD: Name<()> = Name::new("last_good");

/// Where facts say what `host` is to be.
const DECLARED_HOST: &str = "/agent/host";

pub(crate) fn run(global: &Global, command: &Command) -> anyhow::Result<u8> {
    let args = &command.args;
    check_addresses(args)?;
    let taken = command.take_over.map(|within| take_over(global, args, within)).transpose()?;
    let begun = match taken {
        Some(Taken::Over(held, take_over)) => (Begun::Held(held), Some(take_over)),
        Some(Taken::Interrupted) => return Ok(exit::INTERRUPTED),
        Some(Taken::NoAgent) | None => (begin(global)?, None),
    };
    run_with(global, args, begun, (None, FirstFacts::Any), |_| Ok(()))
}

/// The result of an attempt to take over.
enum Taken {
    Over(Held, TakeOver),
    NoAgent,
    Interrupted,
}

/// Takes over from the agent that runs, if there is one. That agent goes on if the manifest is invalid, or the records
/// in the state folder cannot be read.
fn take_over(global: &Global, args: &Args, within: Duration) -> anyhow::Result<Taken> {
    if runtime::ask(facts_store::agent(global))?.is_none() {
        return Ok(Taken::NoAgent);
    }
    if args.site.paths.iter().any(|path| path == "-" || path == "/dev/stdin") {
        let text = "--take-over reads the manifest twice, and standard input can be read only once; name a file";
        return Err(ExitError::new(exit::USAGE, text).into());
    }
    let facts = read_state(global)?;
    if try_site(global, args, &facts, FirstFacts::Any)? != exit::DONE {
        return Ok(Taken::Interrupted);
    }
    drop(facts);
    runtime::ask(async {
        let mut interrupts = Interrupts::listen()?;
        tokio::select! {
            biased;
            () = interrupts.next() => Ok(Taken::Interrupted),
            taken = TakeOver::of_agent(global, within) => Ok(match taken? {
                Some((held, take_over)) => Taken::Over(held, take_over),
                None => Taken::NoAgent,
            }),
        }
    })
}

/// Loads a site that another process keeps, or will keep. Returns the exit code, `DONE` if it is valid with these facts.
pub(crate) fn try_site(
    global: &Global,
    args: &Args,
    facts: &Facts,
    asked: FirstFacts,
) -> anyhow::Result<u8> {
    let files = args.site.files_of_agent(global, facts);
    runtime::work(async {
        let load = move || load_to_keep(&files, &SiteJudge::default(), &asked);
        let tried = loaded(global, &mut Interrupts::listen()?, load).await.transpose()?;
        Ok(if tried.is_some() { exit::DONE } else { exit::INTERRUPTED })
    })
}

/// Refuses addresses beyond this machine.
fn check_addresses(args: &Args) -> Result<(), ExitError> {
    if let Some(address) =
        args.page.filter(|it| !it.ip().is_loopback() && !args.page_insecure_address)
    {
        let text = format!(
            "--page {address} is beyond this machine, and not encrypted; use 127.0.0.1, or say --page-insecure-address"
        );
        return Err(ExitError::new(exit::USAGE, text));
    }
    if let Some(address) = args.metrics.filter(|it| !it.ip().is_loopback()) {
        let text = format!(
            "--metrics {address} is beyond this machine, where anyone could read them; use 127.0.0.1"
        );
        return Err(ExitError::new(exit::USAGE, text));
    }
    Ok(())
}

/// Runs an agent in a state folder. Its site is read with the first facts, or with those of the
/// folder. When the site was found valid, `change` may change the facts of the folder.
pub(crate) fn run_with(
    global: &Global,
    args: &Args,
    (begun, take_over): (Begun, Option<TakeOver>),
    (first, asked): (Option<&Facts>, FirstFacts),
    change: impl FnOnce(&Facts) -> anyhow::Result<()>,
) -> anyhow::Result<u8> {
    check_addresses(args)?;
    runtime::require_threads()?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot make a thread for the signals")?;
    let ran = listen(&runtime).and_then(|signals| {
        let files = args.files(global, first.unwrap_or(begun.facts()));
        let judge = SiteJudge::default();
        let last_good = args.last_good(global.state_dir()?.path());
        let back = last_good.clone().map(|last_good| (last_good, args.if_invalid()));
        let loading = load((files, asked), (judge.clone(), back), signals.clone());
        let loaded = runtime.block_on(waited_for(global, loading)).transpose()?;
        let Some(site) = loaded else { return Ok(exit::DONE) };
        let held = begun.hold(global)?;
        let records = held.records()?;
        change(&held.facts)?;
        keep(global, args, (site, judge, last_good), (held, records, take_over), signals)
    });
    // A load that was broken off may still wait for a pipe.
    runtime.shutdown_background();
    ran
}

/// Listens for signals, from before the load until the process ends.
fn listen(runtime: &Runtime) -> anyhow::Result<SignalHandle> {
    let _runtime = runtime.enter();
    let signals = Signals::new()?;
    let handle = signals.handle();
    let (_never, stop) = Stop::pair();
    drop(runtime.spawn(signals.run(stop)));
    let asked = handle.clone();
    drop(runtime.spawn(async move {
        // A load that waits for a type would hold the end up.
        if asked.next_end(0).await.is_ok() {
            calls().end_loads();
        }
    }));
    Ok(handle)
}

/// Loads the site; `None` if a signal asks the process to end before that is done.
async fn load(
    (files, asked): (SiteFiles, FirstFacts),
    (judge, back): (SiteJudge, Option<(LastGood, IfInvalid)>),
    signals: SignalHandle,
) -> Option<anyhow::Result<Arc<Site>>> {
    let mut counts = signals.subscribe();
    let loading = spawn_blocking(move || match back {
        Some(back) => load_or_go_back(&files, &judge, (&asked, back)),
        None => load_to_keep(&files, &judge, &asked),
    });
    tokio::select! {
        biased;
        Ok(_) = counts.wait_for(|counts| counts.ends() > 0) => None,
        loaded = loading => {
            Some(loaded.unwrap_or_else(|error| resume_unwind(error.into_panic())))
        }
    }
}

/// Runs an agent that keeps the site.
fn keep(
    global: &Global,
    args: &Args,
    (site, judge, last_good): (Arc<Site>, SiteJudge, Option<LastGood>),
    (Held { facts, lock }, records, take_over): (Held, Records, Option<TakeOver>),
    signals: SignalHandle,
) -> anyhow::Result<u8> {
    let lock = Arc::new(lock);
    let files = args.files(global, &facts);
    let state = lock.state_dir().path().to_owned();
    let observing = Arc::new(Observing::new(global, (RUN, &args.site.paths), &state));
    let (world, holds) = (world_of(facts.clone()), ResourceHolds::default());
    let (observer, rules) = observed(args, &observing, (&world, &records), &state);
    let keeping = site::Config::new(SITE, WATCHES, state.clone(), records)
        .quiet(args.quiet_time)
        .looks_only(args.noop)
        .holds(holds.clone())
        .world(world);
    let answering = facts::answering(facts.clone(), facts::judge(judge.clone(), host_name()));
    let hand_over = HandOver::new(&state, &site, args.until_settled);
    let extensions = vec![answering, hand_over.extension()];
    let control = ControlConfig::default().extensions(extensions).metrics(of_resources);
    let control = control.holder(Arc::new(holds));
    let agent = Agent::builder().state_lock(Arc::clone(&lock)).signals(signals.clone());
    let agent = agent.control(control).install(HAND_OVER, hand_over.manifold());
    let agent = match take_over {
        Some(take_over) => agent.install(TAKE_OVER, take_over.manifold(RESOURCES)),
        None => agent,
    };
    let agent = agent.log_names(paths::resource_path);
    let matching = facts::host_matches(&FACTS, DECLARED_HOST.parse()?, Host::of_machine());
    let agent =
        agent.install(FACTS, facts::manifold(facts.clone())).install(HOST_MATCHES, matching);
    let agent = match rules {
        Some(rules) => agent.install(RULES, rules),
        None => agent,
    };
    let agent = install_ports(agent, args, &state);
    let source = source::Config { files, site, signals: SIGNALS, watches: WATCHES };
    let judging = Judging { judge, last_good, canary: args.canary };
    let agent = install(agent, (keeping, observer), source, judging)?;
    let settled = watch::Sender::new(None);
    let settling = match args.until_settled {
        Some(lasting) => site::until_settled_for(SITE, RESOURCES, lasting, settled.clone()),
        None => site::when_settled(SITE, RESOURCES),
    };
    let agent = agent.install(SETTLED, settling);
    let ended = agent.run();
    observing.end_record(outcome_of(&ended));
    // The lines and the report may wait for their reader. That holds up no other process.
    drop(facts);
    drop(lock);
    observing.end_lines();
    if let Some(next) = hand_over.next()
        && !keeps_folder(&ended)
    {
        next.until_ready(global, &signals)?;
    }
    match ended? {
        Ended::Interrupted => Ok(exit::INTERRUPTED),
        Ended::Stopped => show_unless_interrupted(global, settled.send_replace(None)),
    }
}

/// Returns the observer of the resources, and the manifold of the rules. There is no such manifold
/// if every resource is left alone, because a rule changes something, too.
fn observed(
    args: &Args,
    observing: &Arc<Observing>,
    (world, records): (&Arc<dyn World>, &Records),
    state: &Path,
) -> (Arc<dyn Observer>, Option<Manifold>) {
    if args.noop {
        tracing::info!("noop: every resource is only looked at, and left alone");
        let observer: Arc<dyn Observer> = Arc::<Observing>::clone(observing);
        return (observer, None);
    }
    let (telling, events) = RuleEvents::new(Some(observing.clone()), state.join("rules"));
    let rules = RulesConfig {
        site: SITE,
        resources: RESOURCES,
        world: world.clone(),
        events,
        state: state.to_owned(),
        records: records.clone(),
    };
    let observer: Arc<dyn Observer> = Arc::new(telling);
    (observer, Some(site::rules(rules)))
}

/// Returns what the status page in the agent is.
fn page_of(address: SocketAddr, args: &Args, state: &Path) -> page::Config {
    let config = PageConfig::new(state);
    let config = config
        .allows_changes(args.allow_changes)
        .who("someone with the token of the page".to_owned())
        .name(resource_name);
    page::Config { address: PageAddress::Tcp(address), page: config, url: state.join("page.url") }
}

/// Installs the manifolds that serve on ports, if the arguments ask for them.
fn install_ports(agent: AgentBuilder, args: &Args, state: &Path) -> AgentBuilder {
    let agent = match args.page {
        Some(address) => agent.install(PAGE, page::manifold(page_of(address, args, state))),
        None => agent,
    };
    match args.metrics {
        Some(address) => {
            let config = metrics::Config { address, more: of_resources };
            agent.install(METRICS, metrics::manifold(config))
        }
        None => agent,
    }
}

/// Returns whether the state folder is held until this process ends, because workers may run on.
fn keeps_folder(ended: &Result<Ended, AgentError>) -> bool {
    matches!(
        ended,
        Ok(Ended::Interrupted) | Err(AgentError::Engine(EngineError::LeftBehind { .. }))
    )
}

/// Returns the outcome of a run, for its record.
fn outcome_of(ended: &Result<Ended, AgentError>) -> &'static str {
    match ended {
        Ok(Ended::Stopped) => "done",
        Ok(Ended::Interrupted) => "interrupted",
        Err(_) => "failed",
    }
}

/// The parts that judge the manifests of a site.
struct Judging {
    judge: SiteJudge,
    last_good: Option<LastGood>,
    canary: Option<Duration>,
}

/// Installs what keeps a site.
fn install(
    agent: AgentBuilder,
    (keeping, observer): (site::Config, Arc<dyn Observer>),
    source: source::Config,
    Judging { judge, last_good, canary }: Judging,
) -> anyhow::Result<AgentBuilder> {
    let watches = file_watch::manifold(WatcherConfig::default())?;
    let (agent, keeping, source) = match last_good {
        None => (agent, keeping.observer(observer), source::judged(source, judge)),
        Some(last_good) => {
            let trial = SiteTrial::default();
            let observer = trial.observing(observer);
            let keeping = keeping.observer(observer).trial(trial.clone());
            let config = last_good::Config { last_good: last_good.clone(), trial, canary };
            let manifold = last_good::manifold(SITE, RESOURCES, config);
            let source = source::going_back(source, judge, last_good);
            (agent.install(LAST_GOOD, manifold), keeping, source)
        }
    };
    Ok(agent
        .install(WATCHES, watches)
        .install(SITE, source.essential())
        .install(RESOURCES, site::manifold(keeping).essential())
        .install(TALLY, site::tally(RESOURCES)))
}

/// Shows the report of a run that ended because everything was settled. A signal ends what nobody reads.
fn show_unless_interrupted(global: &Global, report: Option<Report>) -> anyhow::Result<u8> {
    let Some(report) = report else { return Ok(exit::DONE) };
    let asked = global.clone();
    runtime::work(async {
        let show = move || show(&asked, report);
        let shown = Interrupts::listen()?.unless(show).await.transpose()?;
        Ok(shown.unwrap_or(exit::INTERRUPTED))
    })
}

/// Shows a report, and returns the exit code that stands for it.
fn show(global: &Global, report: Report) -> anyhow::Result<u8> {
    let report = EngineReport::from(report);
    match global.output {
        Format::Human | Format::Svg => print::data(global.output, &report, print::engine)?,
        format => print::last_line(format, &Line::Report(&report))?,
    }
    Ok(if report.has_trouble() { exit::FAILED } else { exit::DONE })
}

/// A line of data beside those of what has happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Report(&'a EngineReport),
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use clap::Parser;
    use crankcase_engine::{Change, Engine, Exit, Manifold, Name};
    use crankcase_status::wire::Subject;

    use super::show;
    use crate::cli::Cli;

    const IT: Name<()> = Name::new("it");

    /// Returns a manifold that waits for an input that is not there.
    fn waiting() -> Manifold {
        Manifold::builder().inputs(Name::<()>::new("absent")).run(|_, up| async move {
            up.ready(()).wait().await;
            Ok(())
        })
    }

    /// Returns a manifold that says that something is missing.
    fn missing() -> Manifold {
        Manifold::builder().run(|(), _up| async { Err(Exit::missing("no luck")) })
    }

    #[tokio::test]
    async fn a_settled_run_and_report_agree_on_what_trouble_is() -> Result<(), Box<dyn Error>> {
        let global = Cli::try_parse_from(["crankcase", "report"])?.global;
        for (manifold, is_parked, code) in
            [(waiting(), false, 0), (missing(), false, 1), (waiting(), true, 1)]
        {
            let engine = Engine::builder().name(Name::new("agent")).seed(0).build()?;
            engine.install(IT, manifold).await?;
            if is_parked {
                engine.apply(Change::new().park(IT)).await?;
            }
            engine.settled().await?;
            let report = engine.report().await;

            // A client reads the report as JSON, and judges it for `--exit-status`.
            let sent = serde_json::to_value(Subject::Engine(report.clone().into()))?;
            let read: Subject = serde_json::from_value(sent)?;
            assert_eq!((show(&global, report)?, read.has_trouble()), (code, code == 1));
            engine.stop().await?;
        }
        Ok(())
    }
}
