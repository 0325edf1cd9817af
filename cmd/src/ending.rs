//! The end of the process: it ends the calls of external types, and shows the error.

use std::future::pending;
use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::calls::{calls, under_way};
use crate::global::{Format, Global};
use crate::interrupts::Interrupts;
use crate::print::{self, one_line};
use crate::{exit, failure};

/// After this time the program says which calls it waits for.
const FIRST: Duration = Duration::from_secs(1);

/// How long the program waits for calls at its end after that: the grace of a program, and then an engine.
const LAST: Duration = Duration::from_secs(20);

/// The message after a second signal.
const KILLED: &str = "interrupted again: what has not ended is killed";

/// Ends all calls, and waits for a limited time until they have ended: the programs and containers that they have
/// started would run on otherwise. After the first second, a signal kills the programs of the calls that are left.
pub(crate) fn end_calls(global: &Global) {
    let calls = calls();
    calls.end();
    if calls.open().is_empty() {
        return;
    }
    let ending = async {
        tokio::select! {
            biased;
            () = calls.ended() => return,
            () = sleep(FIRST) => {}
        }
        // It listens before the message appears: a person may answer the message with a signal.
        let mut interrupts = Interrupts::listen().ok();
        if !global.quiet {
            tell(&format!("waits for {}", under_way().unwrap_or_default())).await;
        }
        let again = async {
            match &mut interrupts {
                Some(interrupts) => interrupts.next().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = calls.ended() => return,
            () = again => {
                calls.kill();
                tell(KILLED).await;
            }
            () = sleep(LAST) => {}
        }
        if timeout(FIRST, calls.ended()).await.is_err() {
            let left = under_way().unwrap_or_default();
            let next = "the next apply or run ends what is on record";
            tell(&format!("does not wait any more for {left}; {next}")).await;
        }
    };
    if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
        runtime.block_on(ending);
    }
}

/// Shows an error, and returns the exit code. A signal ends the wait for a reader of the error.
pub(crate) fn tell_failure(format: Format, error: anyhow::Error) -> u8 {
    let (code, error) = (failure::code_of(&error), Arc::new(error));
    let until_told = async {
        // It listens before the error appears: a person may answer the error with a signal.
        let mut interrupts = Interrupts::listen().ok()?;
        let error = Arc::clone(&error);
        // Nobody can be told when the stream is closed.
        let told = telling(move || drop(failure::tell(format, &error)))?;
        Some(tokio::select! {
            biased;
            _ = told => code,
            () = interrupts.next() => exit::INTERRUPTED,
        })
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let told = runtime.ok().and_then(|runtime| runtime.block_on(until_told));
    told.unwrap_or_else(|| {
        // Without a thread of its own, the error is written here, and the write may block.
        drop(failure::tell(format, &error));
        code
    })
}

/// Shows a message to people. Waits for at most a second, because there may be no reader.
pub(crate) async fn tell(text: &str) {
    let line = format!("crankcase: {}", one_line(text));
    // Nobody can be told when the stream is closed.
    let told = telling(move || drop(print::to_stderr(|out| writeln!(out, "{line}"))));
    if let Some(told) = told {
        drop(timeout(FIRST, told).await);
    }
}

/// Begins to write a message in a thread of its own, because the write may block without a reader. Returns a receiver
/// that resolves when the message is written. Returns none if the thread does not start.
fn telling(tell: impl FnOnce() + Send + 'static) -> Option<oneshot::Receiver<()>> {
    let (told, until_told) = oneshot::channel();
    let tell = move || {
        tell();
        drop(told);
    };
    thread::Builder::new().name("telling".to_owned()).spawn(tell).ok()?;
    Some(until_told)
}
