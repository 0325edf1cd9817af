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
            tell(&format!("waits for {}", under_way().unwrap_or_default()));
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
                tell(KILLED);
                calls.kill();
            }
            () = sleep(LAST) => {}
        }
        if timeout(FIRST, calls.ended()).await.is_err() {
            let left = under_way().unwrap_or_default();
            tell(&format!(
                "does not wait any more for {left}; the next apply or run ends what is on record"
            ));
        }
    };
    if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
        runtime.block_on(ending);
    }
}

/// Says what went wrong, and returns the exit code. A signal ends what nobody reads.
pub(crate) fn tell_failure(format: Format, error: anyhow::Error) -> u8 {
    let (code, error) = (failure::code_of(&error), Arc::new(error));
    let telling = async {
        // Before anything is written: whoever sees it may answer with a signal.
        let mut interrupts = Interrupts::listen().ok()?;
        let ((told, telling), error) = (oneshot::channel::<()>(), Arc::clone(&error));
        let tell = move || {
            // Nobody can be told when the stream is closed.
            drop(failure::tell(format, &error));
            drop(told);
        };
        thread::Builder::new().name("failure".to_owned()).spawn(tell).ok()?;
        Some(tokio::select! {
            biased;
            _ = telling => code,
            () = interrupts.next() => exit::INTERRUPTED,
        })
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let told = runtime.ok().and_then(|runtime| runtime.block_on(telling));
    told.unwrap_or_else(|| {
        // Without a thread nobody can listen meanwhile.
        drop(failure::tell(format, &error));
        code
    })
}

fn tell(text: &str) {
    // Nobody can be told when the stream is closed.
    drop(print::to_stderr(|out| writeln!(out, "crankcase: {}", one_line(text))));
}
