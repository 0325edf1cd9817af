//! The commands that change what a worker does: bounce, park and unpark.

use std::io::{self, Write};

use crankcase_status::wire::{ControlRequest, Controlled};

use crate::cli::{Format, Global};
use crate::{exit, print};

/// Which worker it is about, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The worker, such as /agent/resources/www
    path: String,
    /// Why, for the agent's events and log
    #[arg(long, default_value = "asked for on the command line")]
    reason: String,
}

/// What is done to the worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Bounce,
    Park,
    Unpark,
}

pub(crate) async fn run(global: &Global, act: Act, args: Args) -> anyhow::Result<u8> {
    let request = ControlRequest { path: args.path, who: user(), why: args.reason };
    let client = super::connect(global).await?;
    let controlled = match act {
        Act::Bounce => client.bounce(&request).await,
        Act::Park => client.park(&request).await,
        Act::Unpark => client.unpark(&request).await,
    }?;
    if !(global.quiet && global.output == Format::Human) {
        print::data(global.output, &controlled, write)?;
    }
    Ok(exit::DONE)
}

fn write(controlled: &Controlled, out: &mut dyn Write) -> io::Result<()> {
    let (done, path) = match controlled {
        Controlled::Bounced(path) => ("bounced", path),
        Controlled::Parked(path) => ("parked", path),
        Controlled::Unparked(path) => ("unparked", path),
        _ => return writeln!(out, "the agent did what this version does not know"),
    };
    writeln!(out, "{done} {}", print::one_line(path))
}

/// Returns the name of who asks; the agent adds the number that the system vouches for.
fn user() -> String {
    let names = ["USER", "LOGNAME"].into_iter();
    names.filter_map(|name| std::env::var(name).ok()).next().unwrap_or_else(|| "someone".to_owned())
}
