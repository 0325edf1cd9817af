use std::future::pending;
use std::io::{self, Write};
use std::thread;

use crankcase_status::wire::EventLine;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use tokio::sync::oneshot;

use crate::global::Global;
use crate::{exit, print};

/// Which events are followed: all.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(global: &Global, _args: Args) -> anyhow::Result<u8> {
    let mut events = global.connect().await?.events().await?;
    if !global.quiet {
        // So that one knows from when on nothing is missed.
        drop(writeln!(anstream::stderr(), "following the events"));
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
