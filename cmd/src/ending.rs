//! What is done before the process ends: the calls of external types end, and it says what went wrong.

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

/// What is said after a second signal.
const KILLED: &str = "interrupted again: what has not ended is killed";

/// Ends all calls, and waits for that with a limit: what they have started would run on. Once people are told of
/// it, a signal kills what has not ended.
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
        // Before people are told: they may answer with a signal.
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

/// Says what went wrong, and returns the exit code. A signal ends what nobody reads.
pub(crate) fn tell_failure(format: Format, error: anyhow::Error) -> u8 {
    let (code, error) = (failure::code_of(&error), Arc::new(error));
    let until_told = async {
        // Before anything is written: whoever sees it may answer with a signal.
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
        // Without a thread nobody can listen meanwhile.
        drop(failure::tell(format, &error));
        code
    })
}

/// Says something to people, and waits for that for at most a second: nobody may read it.
pub(crate) async fn tell(text: &str) {
    let line = format!("crankcase: {}", one_line(text));
    // Nobody can be told when the stream is closed.
    let told = telling(move || drop(print::to_stderr(|out| writeln!(out, "{line}"))));
    if let Some(told) = told {
        drop(timeout(FIRST, told).await);
    }
}

/// Begins to tell something in a thread of its own, which what nobody reads may hold up. Returns what is done when it
/// is told; none without a thread.
fn telling(tell: impl FnOnce() + Send + 'static) -> Option<oneshot::Receiver<()>> {
    let (told, until_told) = oneshot::channel();
    let tell = move || {
        tell();
        drop(told);
    };
    thread::Builder::new().name("telling".to_owned()).spawn(tell).ok()?;
    Some(until_told)
}
