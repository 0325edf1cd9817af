//! The command `events`: follows what happens in the running agent.

use std::future::pending;
use std::io::{self, Write};
use std::thread;

use crankcase_status::wire::EventLine;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use tokio::sync::oneshot;

use crate::global::Global;
use crate::{exit, print};

/// Which events are followed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Begin with the event of this number, as far as the agent still has it [default: with the next event]
    #[arg(long, value_name = "[LIFE:]NUMBER", value_parser = since)]
    since: Option<Since>,
}

/// The number of an event, and the life of the agent that the number is of.
#[derive(Debug, Clone)]
struct Since {
    life: Option<String>,
    sequence: u64,
}

fn since(text: &str) -> Result<Since, String> {
    let (life, number) = match text.rsplit_once(':') {
        Some((life, number)) => (Some(life.to_owned()), number),
        None => (None, text),
    };
    let sequence = number.parse().ok().filter(|number| i64::try_from(*number).is_ok());
    let sequence = sequence.ok_or("a number is a whole number below 2^63, such as 0")?;
    Ok(Since { life, sequence })
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let client = global.connect().await?;
    let mut events = match &args.since {
        None => client.events().await?,
        Some(Since { life, sequence }) => client.events_since(*sequence, life.as_deref()).await?,
    };
    if !global.quiet {
        // So that one knows from when on nothing is missed.
        let life = print::one_line(events.life());
        drop(print::to_stderr(|out| writeln!(out, "following the events of life {life}")));
    }
    let unread = unread();
    tokio::pin!(unread);
    loop {
        let line = tokio::select! {
            biased;
            () = &mut unread => None,
            line = events.next() => line?,
        };
        let Some(line) = line else { return Ok(exit::DONE) };
        print::line(global.output, &line, write)?;
    }
}

/// Waits until nobody can read any more what is written: that need not wait for the next event.
async fn unread() {
    let (tell, told) = oneshot::channel();
    // A thread that ends with the process: of a plain file, nothing is ever told. Without it the next
    // event tells.
    drop(thread::Builder::new().spawn(move || {
        #[expect(clippy::disallowed_methods, reason = "nothing is written")]
        let stdout = io::stdout();
        let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
        if retry_on_intr(|| poll(&mut polled, None)).is_ok() {
            let _nobody_waits = tell.send(());
        }
    }));
    if told.await.is_err() {
        pending::<()>().await;
    }
}

fn write(line: &EventLine, out: &mut print::Out<'_>) -> io::Result<()> {
    let event = match line {
        EventLine::Event(event) => event,
        EventLine::Missed { missed } => return writeln!(out, "... {missed} events were missed"),
    };
    let text = print::first_line(&event.text);
    let (at, path) = (print::one_line(&event.at), print::one_line(&event.path));
    write!(out, "{} {at} {path} {text}", event.sequence)?;
    match &event.origin {
        Some(origin) => {
            writeln!(out, " ({}: {})", print::one_line(&origin.who), print::one_line(&origin.why))
        }
        None => writeln!(out),
    }
}
