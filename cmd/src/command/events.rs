use std::io::{self, Write};

use crankcase_status::wire::EventLine;

use crate::cli::Global;
use crate::{exit, print};

/// Which events are followed: all.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(global: &Global, _args: Args) -> anyhow::Result<u8> {
    let mut events = super::connect(global).await?.events().await?;
    if !global.quiet {
        // So that one knows from when on nothing is missed.
        drop(writeln!(anstream::stderr(), "following the events"));
    }
    while let Some(line) = events.next().await? {
        print::line(global.output, &line, write)?;
    }
    Ok(exit::DONE)
}

fn write(line: &EventLine, out: &mut dyn Write) -> io::Result<()> {
    let event = match line {
        EventLine::Event(event) => event,
        EventLine::Missed { missed } => return writeln!(out, "... {missed} events were missed"),
    };
    let text = print::first_line(&event.text);
    write!(out, "{} {} {text}", print::one_line(&event.at), print::one_line(&event.path))?;
    match &event.origin {
        Some(origin) => {
            writeln!(out, " ({}: {})", print::one_line(&origin.who), print::one_line(&origin.why))
        }
        None => writeln!(out),
    }
}
