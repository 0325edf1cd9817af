//! Says on stderr how far work that takes long has come.

use std::io::Write;
use std::time::Duration;

use crankcase_resources::Progress;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::calls::under_way;
use crate::global::Global;
use crate::interrupts::Interrupts;
use crate::print::{self, one_line};

/// How long work may take before anything is said of it.
const FIRST: Duration = Duration::from_secs(1);

/// The longest wait from one time to the next.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits for work, and says on stderr how far it has come: after a second, and then after waits that
/// double.
pub(super) async fn told<F: Future>(
    global: &Global,
    (what, progress): (&str, &Progress),
    work: F,
) -> F::Output {
    told_of(global, || Some(format!("{what}: {progress}")), work).await
}

/// Loads something in a thread of its own, and says on stderr which types it waits for. `None` if a signal
/// comes first.
pub(super) async fn loaded<T: Send + 'static>(
    global: &Global,
    interrupts: &mut Interrupts,
    load: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    waited_for(global, interrupts.unless(load)).await
}

/// Waits for a load, and says on stderr which types it waits for.
pub(super) async fn waited_for<F: Future>(global: &Global, load: F) -> F::Output {
    let what = || under_way().map(|calls| format!("load: waits for {}", one_line(&calls)));
    told_of(global, what, load).await
}

async fn told_of<F: Future>(
    global: &Global,
    what: impl Fn() -> Option<String>,
    work: F,
) -> F::Output {
    tokio::pin!(work);
    let mut wait = FIRST;
    loop {
        tokio::select! {
            biased;
            output = &mut work => return output,
            () = sleep(wait), if !global.quiet => {}
        }
        if let Some(what) = what() {
            // Nobody can be told when the stream is closed, and the work goes on while nobody reads.
            let tell = move || drop(print::to_stderr(|out| writeln!(out, "{what}")));
            tokio::select! {
                biased;
                output = &mut work => return output,
                _ = spawn_blocking(tell) => {}
            }
        }
        wait = (wait * 2).min(LONGEST);
    }
}
