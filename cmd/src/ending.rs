//! The end of the calls of external types, before the process ends.

use std::future::pending;
use std::io::Write;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::calls::{calls, under_way};
use crate::global::Global;
use crate::interrupts::Interrupts;
use crate::print::{self, one_line};

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

fn tell(text: &str) {
    // Nobody can be told when the stream is closed.
    drop(print::to_stderr(|out| writeln!(out, "crankcase: {}", one_line(text))));
}
