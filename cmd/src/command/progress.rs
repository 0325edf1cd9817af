use std::io::Write;
use std::time::Duration;

use crankcase_resources::Progress;
use tokio::time::sleep;

use crate::global::Global;
use crate::print;

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
    tokio::pin!(work);
    let mut wait = FIRST;
    loop {
        tokio::select! {
            biased;
            output = &mut work => return output,
            () = sleep(wait), if !global.quiet => {}
        }
        // Nobody can be told when the stream is closed.
        drop(print::to_stderr(|out| writeln!(out, "{what}: {progress}")));
        wait = (wait * 2).min(LONGEST);
    }
}
