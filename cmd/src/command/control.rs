//! The commands that change what a worker does: bounce, park and unpark, pause and resume.

use std::io::{self, Write};

use crankcase_status::Client;
use crankcase_status::wire::{Act, ControlRequest, Controlled, MAX_ORIGIN};

use crate::exit::ExitError;
use crate::global::Global;
use crate::paths::worker_path;
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

/// Which worker is bounced, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct BounceArgs {
    #[command(flatten)]
    about: Args,
    /// Stop it also if it could not start again now; it is stopped until it can
    #[arg(long)]
    force: bool,
}

pub(crate) async fn bounce(global: &Global, args: BounceArgs) -> anyhow::Result<u8> {
    let BounceArgs { about, force } = args;
    let (client, request) = asked(global, about).await?;
    let bounced = match force {
        true => client.force_bounce(&request).await?,
        false => client.bounce(&request).await?,
    };
    show(global, &bounced)
}

pub(crate) async fn run(global: &Global, act: Act, args: Args) -> anyhow::Result<u8> {
    let (client, request) = asked(global, args).await?;
    show(global, &client.control(act, &request).await?)
}

pub(crate) async fn pause(global: &Global, args: Args) -> anyhow::Result<u8> {
    let (client, request) = asked(global, args).await?;
    show(global, &client.pause(&request).await?)
}

pub(crate) async fn resume(global: &Global, args: Args) -> anyhow::Result<u8> {
    let (client, request) = asked(global, args).await?;
    show(global, &client.resume(&request).await?)
}

/// Returns a client of the agent, and the request to it.
async fn asked(global: &Global, args: Args) -> anyhow::Result<(Client, ControlRequest)> {
    // The agent would name the field of the request, which is not what was written.
    check(&args.reason)?;
    let request = ControlRequest { path: worker_path(&args.path), who: user(), why: args.reason };
    Ok((global.connect().await?, request))
}

fn show(global: &Global, controlled: &Controlled) -> anyhow::Result<u8> {
    if !global.quiet || global.output.is_data() {
        print::data(global.output, controlled, write)?;
    }
    Ok(exit::DONE)
}

fn write(controlled: &Controlled, out: &mut print::Out<'_>) -> io::Result<()> {
    writeln!(out, "{}", print::one_line(&done(controlled, str::to_owned)))
}

/// Returns what was done, in words. `shown` writes the path of the worker.
pub(crate) fn done(controlled: &Controlled, shown: fn(&str) -> String) -> String {
    let (done, path) = match controlled {
        Controlled::Bounced(path) => ("bounced", path),
        Controlled::Parked(path) => ("parked", path),
        Controlled::Unparked(path) => ("unparked", path),
        Controlled::Paused(path) => ("paused", path),
        Controlled::Resumed(path) => ("resumed", path),
        _ => return "the agent did what this version does not know".to_owned(),
    };
    format!("{done} {}", shown(path))
}

/// Refuses a reason that cannot be sent.
pub(crate) fn check(reason: &str) -> Result<(), ExitError> {
    let wrong = if reason.chars().any(char::is_control) {
        "has control characters"
    } else if reason.chars().count() > MAX_ORIGIN {
        "is too long"
    } else {
        return Ok(());
    };
    let text = format!("--reason {wrong}; a reason is one line of at most {MAX_ORIGIN} characters");
    Err(ExitError::new(exit::USAGE, text))
}

/// Returns the name of who asks; the agent adds the number that the system vouches for.
pub(crate) fn user() -> String {
    let names = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    // Whatever the variables hold, it is not what was asked for, and does not stand against it.
    let sendable = |name: String| {
        name.chars().filter(|character| !character.is_control()).take(MAX_ORIGIN).collect()
    };
    let mut names = names.map(sendable).filter(|name: &String| !name.is_empty());
    names.next().unwrap_or_else(|| "someone".to_owned())
}
