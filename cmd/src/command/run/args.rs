//! The arguments of `run`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use crankcase_facts::Facts;
use crankcase_manifest::{LastGood, SiteFiles};

use crate::global::Global;
use crate::site_args::{IfInvalid, SiteArgs};

/// The shortest time but none at all.
const SHORTEST: Duration = Duration::from_nanos(1);

/// The longest quiet time that resources take.
const LONGEST_QUIET_TIME: Duration = Duration::from_secs(10);

/// The longest time for which a new manifest may be on trial.
const LONGEST_CANARY: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest time for which all resources may have to be settled.
const LONGEST_SETTLED_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest time for which an agent that has handed over may wait for the next one.
const LONGEST_TAKE_OVER: Duration = Duration::from_secs(60 * 60);

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
        value_parser = within(Duration::ZERO..=LONGEST_SETTLED_TIME, "24h, such as 5s")
    )]
    pub(super) until_settled: Option<Duration>,
    /// Look at every resource and leave it alone, as with `meta: {noop: true}`: what differs is said, and makes the
    /// resource degraded. Nothing is put back, and no rule holds
    #[arg(long)]
    pub(super) noop: bool,
    /// How long a manifest, a template or a source must have been left alone after a change before it is read again, at
    /// most 10s
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "500ms",
        value_parser = within(Duration::ZERO..=LONGEST_QUIET_TIME, "10s, such as 2s")
    )]
    pub(super) quiet_time: Duration,
    /// Keep the manifest in the state folder once every resource is as declared, and start with the one that was kept
    /// last if the manifest is invalid; secrets that are written in it are kept too, for the owner alone
    #[arg(long, conflicts_with_all = ["until_settled", "noop"])]
    pub(super) last_good: bool,
    /// Go back to the last good manifest if a resource that was as declared fails within this time after a new one, such
    /// as 30s, at most 24h; keeps the manifest as --last-good does, after that time
    #[arg(
        long,
        value_name = "DURATION",
        conflicts_with_all = ["until_settled", "noop"],
        value_parser = within(SHORTEST..=LONGEST_CANARY, "24h, such as 30s")
    )]
    pub(super) canary: Option<Duration>,
    /// Serve the status page in the agent, such as on 127.0.0.1:8080; its address with the token is in page.url in
    /// the state folder
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) page: Option<SocketAddr>,
    /// Let the page bounce, park, unpark, pause and resume workers
    #[arg(long, requires = "page")]
    pub(super) allow_changes: bool,
    /// Let --page be beyond this machine, without encryption: whoever can read the traffic sees the token, all that
    /// the page shows, and may do what it allows
    #[arg(long, requires = "page")]
    pub(super) page_insecure_address: bool,
    /// Serve metrics in the text format of Prometheus at /metrics, such as on 127.0.0.1:9464; on loopback only, as any
    /// program there may read them
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) metrics: Option<SocketAddr>,
}

/// What is kept, and how the agent begins.
#[derive(Debug, clap::Args)]
pub(crate) struct Command {
    #[command(flatten)]
    pub(super) args: Args,
    /// Take the place of an agent that runs in the state folder: it ends once this one has read the manifest, its
    /// programs run on, and it starts again if this one ends before it is ready, or is not ready within DURATION, at
    /// most 1h. Without an agent this one starts as usual
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "60s",
        value_parser = within(SHORTEST..=LONGEST_TAKE_OVER, "1h, such as 60s")
    )]
    pub(super) take_over: Option<Duration>,
}

impl Args {
    /// Returns what the site of the agent is loaded from.
    pub(super) fn files(&self, global: &Global, facts: &Facts) -> SiteFiles {
        let mut files = self.site.files_of_agent(global, facts);
        files.quiet = self.quiet_time;
        files.overrides.noop = self.noop;
        files
    }

    /// Opens the last good manifest of the site, if one is to be kept.
    pub(super) fn last_good(&self, state: &Path) -> Option<LastGood> {
        let is_wanted = self.last_good || self.canary.is_some();
        is_wanted.then(|| LastGood::open(state, &self.site.paths))
    }

    pub(super) fn if_invalid(&self) -> IfInvalid {
        if self.last_good { IfInvalid::GoBack } else { IfInvalid::Refuse }
    }
}

/// Returns the parser of a duration in a range. `most` is the end of the range and an example, for the error.
fn within(
    range: RangeInclusive<Duration>,
    most: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let duration = humantime::parse_duration(text).ok();
        let duration = duration.filter(|duration| range.contains(duration));
        duration.ok_or_else(|| format!("expected a duration of at most {most}"))
    }
}
