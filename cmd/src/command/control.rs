use crankcase_status::wire::BounceRequest;

use crate::cli::{Format, Global};
use crate::{exit, print};

/// Which worker is bounced, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The worker, such as /agent/resources/www
    path: String,
    /// Why, for the agent's events and log
    #[arg(long, default_value = "asked for on the command line")]
    reason: String,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let request = BounceRequest { path: args.path, who: user(), why: args.reason };
    let bounced = super::connect(global).await?.bounce(&request).await?;
    if !(global.quiet && global.output == Format::Human) {
        print::data(global.output, &bounced, |bounced, out| {
            writeln!(out, "bounced {}", print::one_line(&bounced.bounced))
        })?;
    }
    Ok(exit::DONE)
}

/// Returns the name of who asks; the agent adds the number that the system vouches for.
fn user() -> String {
    let names = ["USER", "LOGNAME"].into_iter();
    names.filter_map(|name| std::env::var(name).ok()).next().unwrap_or_else(|| "someone".to_owned())
}
