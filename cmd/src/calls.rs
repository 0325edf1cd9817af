//! The calls of external types that this process makes.

use std::io::Write;
use std::sync::LazyLock;
use std::time::Duration;

use crankcase_external::Calls;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::global::Global;
use crate::print::{self, one_line};

/// After this time the program says which calls it waits for.
const FIRST: Duration = Duration::from_secs(1);

/// How long the program waits for calls at its end after that: the grace of a program, and then an engine.
const LAST: Duration = Duration::from_secs(20);

/// The most calls that one line names.
const SHOWN: usize = 3;

static CALLS: LazyLock<Calls> = LazyLock::new(Calls::default);

/// Returns the calls of this process. It has one set, as it ends once.
pub(crate) fn calls() -> Calls {
    CALLS.clone()
}

/// Says which calls are under way; nothing if none is.
pub(crate) fn under_way() -> Option<String> {
    let open = CALLS.open();
    let more = open.len().saturating_sub(SHOWN);
    let shown = open[..open.len() - more].join(", ");
    match (open.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, more) => Some(format!("{shown} and {more} more")),
    }
}

/// Ends all calls, and waits for that with a limit: what they have started would run on.
pub(crate) fn end(global: &Global) {
    CALLS.end();
    if CALLS.open().is_empty() {
        return;
    }
    let ending = async {
        tokio::select! {
            biased;
            () = CALLS.ended() => return,
            () = sleep(FIRST) => {}
        }
        if !global.quiet {
            tell(&format!("waits for {}", under_way().unwrap_or_default()));
        }
        if timeout(LAST, CALLS.ended()).await.is_err() {
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
