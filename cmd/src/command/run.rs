use std::path::Path;
use std::sync::Arc;

use crankcase_engine::{Engine, Name, Report};
use crankcase_manifolds::{Agent, AgentBuilder, Ended, SIGNALS, file_watch, site, source};
use crankcase_resources::Site;
use crankcase_workers::{WatcherConfig, Watches};
use tokio::sync::watch;

use crate::cli::Global;
use crate::site_args::SiteArgs;
use crate::{exit, print};

const WATCHES: Name<Watches> = Name::new("watches");
const SITE: Name<Arc<Site>> = Name::new("site");
const RESOURCES: Name<Engine> = Name::new("resources");
const SETTLED: Name<()> = Name::new("settled");

/// What is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    site: SiteArgs,
    /// Stop when every resource is as declared, or says why it is not, and show the report; to a program
    /// nothing may have happened for a second
    #[arg(long)]
    until_settled: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let files = args.site.files();
    let site = Arc::new(args.site.load()?);
    let state_dir = global.state_dir()?;
    let ledger = super::ledger(&state_dir);
    let agent = Agent::builder().state_dir(state_dir);
    let agent = install(
        agent,
        &ledger,
        source::Config { files, site, signals: SIGNALS, watches: WATCHES },
    )?;
    let settled = watch::Sender::new(None);
    let agent = if args.until_settled {
        agent.install(SETTLED, site::until_settled(SITE, RESOURCES, settled.clone()))
    } else {
        agent
    };
    match agent.run()? {
        Ended::Interrupted => Ok(exit::INTERRUPTED),
        Ended::Stopped => show(global, settled.borrow().as_ref()),
    }
}

/// Installs what keeps a site.
fn install(
    agent: AgentBuilder,
    ledger: &Path,
    config: source::Config,
) -> anyhow::Result<AgentBuilder> {
    let watches = file_watch::manifold(WatcherConfig::default())?;
    let keeping = site::Config::new(SITE, WATCHES, ledger.to_owned());
    Ok(agent
        .install(WATCHES, watches)
        .install(SITE, source::manifold(config).essential())
        .install(RESOURCES, site::manifold(keeping).essential()))
}

/// Shows the report of a run that ended because everything was settled.
fn show(global: &Global, report: Option<&Report>) -> anyhow::Result<u8> {
    let Some(report) = report else { return Ok(exit::DONE) };
    print::data(global.output, report, |report, out| write!(out, "{report}"))?;
    Ok(if site::has_trouble(report) { exit::FAILED } else { exit::DONE })
}
