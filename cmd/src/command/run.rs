//! The command `run`: keeps the machine as declared, until a signal comes.

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use crankcase_engine::{Engine, Manifold, Name, Report, Stop, Worker};
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
use crate::command::progress::waited_for;
use crate::command::runtime;
use crate::exit::ExitError;
use crate::facts_store::{self, Begun, FACTS, Held, host_name, world_of};
use crate::global::{Format, Global};
use crate::interrupts::Interrupts;
use crate::metrics::of_resources;
use crate::observing::{Observing, RUN};
use crate::site_args::{FirstFacts, IfInvalid, SiteArgs, load_or_go_back, load_to_keep};
use crate::{exit, paths, print};

const WATCHES: Name<Watches> = Name::new("watches");
const SITE: Name<Arc<Site>> = Name::new("site");
const RESOURCES: Name<Engine> = Name::new(paths::RESOURCES);
const TALLY: Name<()> = Name::new(paths::TALLY);
const SETTLED: Name<()> = Name::new("settled");
const HOST_MATCHES: Name<()> = Name::new("host_matches");
const RULES: Name<()> = Name::new("rules");
const PAGE: Name<()> = Name::new("page");
const METRICS: Name<()> = Name::new("metrics");
const LAST_GOOD: Name<()> = Name::new("last_good");

/// Where facts say what `host` is to be.
const DECLARED_HOST: &str = "/agent/host";

/// The longest quiet time that resources take.
const LONGEST_QUIET_TIME: Duration = Duration::from_secs(10);

/// The longest time for which a new manifest may be on trial.
const LONGEST_CANARY: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest time for which all resources may have to be settled.
const LONGEST_SETTLED_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) site: SiteArgs,
    /// Stop when every resource is as declared, or says why it is not, and show the report; to a program
    /// nothing may have happened for a second, and it runs on unless it has `keep: false`. With a DURATION, such as 5s
    /// and at most 24h, nothing may have happened to any resource for that long
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0s",
        value_parser = settled_time
    )]
    until_settled: Option<Duration>,
    /// Look at every resource and leave it alone, as with `meta: {noop: true}`: what differs is said, and makes the
    /// resource degraded. Nothing is put back, and no rule holds
    #[arg(long)]
    noop: bool,
    /// How long a manifest, a template or a source must have been left alone after a change before it is read again, at
    /// most 10s
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = quiet_time)]
    quiet_time: Duration,
    /// Keep the manifest in the state folder once every resource is as declared, and start with the one that was kept
    /// last if the manifest is invalid; secrets that are written in it are kept too, for the owner alone
    #[arg(long, conflicts_with_all = ["until_settled", "noop"])]
    last_good: bool,
    /// Go back to the last good manifest if a resource that was as declared fails within this time after a new one, such
    /// as 30s, at most 24h; keeps the manifest as --last-good does, after that time
    #[arg(
        long,
        value_name = "DURATION",
        conflicts_with_all = ["until_settled", "noop"],
        value_parser = canary
    )]
    canary: Option<Duration>,
    /// Serve the status page in the agent, such as on 127.0.0.1:8080; its address with the token is in page.url in
    /// the state folder
    #[arg(long, value_name = "ADDRESS:PORT")]
    page: Option<SocketAddr>,
    /// Let the page bounce, park and unpark workers
    #[arg(long, requires = "page")]
    allow_changes: bool,
    /// Let --page be beyond this machine, without encryption: whoever can read the traffic sees the token, all that
    /// the page shows, and may do what it allows
    #[arg(long, requires = "page")]
    page_insecure_address: bool,
    /// Serve metrics in the text format of Prometheus at /metrics, such as on 127.0.0.1:9464; on loopback only, as any
    /// program there may read them
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

impl Args {
    /// Returns what the site of the agent is loaded from.
    fn files(&self, global: &Global, facts: &Facts) -> SiteFiles {
        let mut files = self.site.files_of_agent(global, facts);
        files.quiet = self.quiet_time;
        files.overrides.noop = self.noop;
        files
    }
}

fn quiet_time(text: &str) -> Result<Duration, String> {
    let quiet_time = humantime::parse_duration(text).ok();
    let quiet_time = quiet_time.filter(|quiet_time| *quiet_time <= LONGEST_QUIET_TIME);
    quiet_time.ok_or_else(|| "expected a duration of at most 10s, such as 2s".to_owned())
}

fn canary(text: &str) -> Result<Duration, String> {
    let canary = humantime::parse_duration(text).ok();
    let canary = canary.filter(|it| !it.is_zero() && *it <= LONGEST_CANARY);
    canary.ok_or_else(|| "expected a duration of at most 24h, such as 30s".to_owned())
}

impl Args {
    /// Opens the last good manifest of the site, if one is to be kept.
    fn last_good(&self, state: &Path) -> Option<LastGood> {
        let is_wanted = self.last_good || self.canary.is_some();
        is_wanted.then(|| LastGood::open(state, &self.site.paths))
    }

    fn if_invalid(&self) -> IfInvalid {
        if self.last_good { IfInvalid::GoBack } else { IfInvalid::Refuse }
    }
}

fn settled_time(text: &str) -> Result<Duration, String> {
    let lasting = humantime::parse_duration(text).ok();
    let lasting = lasting.filter(|lasting| *lasting <= LONGEST_SETTLED_TIME);
    lasting.ok_or_else(|| "expected a duration of at most 24h, such as 5s".to_owned())
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    run_with(global, args, facts_store::begin(global)?, (None, FirstFacts::Any), |_| Ok(()))
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
    begun: Begun,
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
        keep(global, args, (site, judge, last_good), (held, records), signals)
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
    (Held { facts, lock }, records): (Held, Records),
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
    let control = ControlConfig::default().extensions(vec![answering]).metrics(of_resources);
    let control = control.holder(Arc::new(holds));
    let agent = Agent::builder().state_lock(Arc::clone(&lock)).signals(signals).control(control);
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
    match ended? {
        Ended::Interrupted => Ok(exit::INTERRUPTED),
        Ended::Stopped => show_unless_interrupted(global, settled.send_replace(None)),
    }
}

/// Returns who sees what happens to the resources, and the manifold of the rules. There is none if every resource is
/// left alone: a rule changes something, too.
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

/// Installs what is served on ports, if that is asked for.
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

/// Returns the outcome of a run, for its record.
fn outcome_of(ended: &Result<Ended, AgentError>) -> &'static str {
    match ended {
        Ok(Ended::Stopped) => "done",
        Ok(Ended::Interrupted) => "interrupted",
        Err(_) => "failed",
    }
}

/// What is found out about the manifests of a site.
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
