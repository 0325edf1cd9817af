//! The end of the calls of external types, before the process ends.

use std::io::Write;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::calls::{calls, under_way};
use crate::global::Global;
use crate::print::{self, one_line};

/// After this time the program says which calls it waits for.
const FIRST: Duration = Duration::from_secs(1);

/// How long the program waits for calls at its end after that: the grace of a program, and then an engine.
const LAST: Duration = Duration::from_secs(20);

/// Ends all calls, and waits for that with a limit: what they have started would run on.
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
        if !global.quiet {
            tell(&format!("waits for {}", under_way().unwrap_or_default()));
        }
        if timeout(LAST, calls.ended()).await.is_err() {
            let left = under_way().unwrap_or_default();
            tell(&format!(
                "does not wait any more for {left}; the next apply or run ends what is on record"
            ));
        }
    };
    if let Ok(runtime) = Builder::new_current_thread().enable_time().build() {
        runtime.block_on(ending);
    }
}

fn tell(text: &str) {
    // Nobody can be told when the stream is closed.
    drop(print::to_stderr(|out| writeln!(out, "crankcase: {}", one_line(text))));
}
