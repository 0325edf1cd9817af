//! The filter that decides which ends and restarts of programs are logged one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long the ends of a program are counted after an end that was logged.
const WINDOW: Duration = Duration::from_secs(60);

/// Keeps the log readable when programs end by themselves again and again: the first end of each
/// program and the restart after it are logged, the other ends are counted, and the count is logged
/// once a minute until it is 0. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct CrashLoops(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The programs that have ended by themselves not long ago, by resource.
    loops: Mutex<BTreeMap<String, CrashLoop>>,
    has_begun: Notify,
}

/// The times that one program has ended by itself since an end that was logged.
#[derive(Debug)]
struct CrashLoop {
    /// The time at which their number is logged.
    until: Instant,
    count: u64,
    /// How the program has ended last.
    why: String,
    /// Whether a number was logged already.
    is_known: bool,
}

impl CrashLoops {
    /// Counts an end of a program by itself; returns whether it is logged.
    pub(crate) fn admits_end(&self, resource: &str, why: &str) -> bool {
        let mut loops = self.0.loops.lock();
        if let Some(known) = loops.get_mut(resource) {
            known.count += 1;
            why.clone_into(&mut known.why);
            return false;
        }
        let until = Instant::now() + WINDOW;
        let first = CrashLoop { until, count: 0, why: String::new(), is_known: false };
        loops.insert(resource.to_owned(), first);
        self.0.has_begun.notify_one();
        true
    }

    /// Returns whether a restart of a program after such an end is logged.
    pub(crate) fn admits_restart(&self, resource: &str) -> bool {
        let loops = self.0.loops.lock();
        loops.get(resource).is_none_or(|known| known.count == 0 && !known.is_known)
    }

    /// Logs once a minute how often each program has ended beyond the ends that were logged. Never
    /// ends. Cancel safe.
    pub(crate) async fn summarize(self) {
        loop {
            let next = self.0.loops.lock().values().map(|known| known.until).min();
            match next {
                Some(next) => sleep_until(next).await,
                None => self.0.has_begun.notified().await,
            }
            self.log_counts(Instant::now());
        }
    }

    /// Logs the numbers that are due, and forgets the programs that have not ended since their last
    /// number.
    fn log_counts(&self, now: Instant) {
        self.0.loops.lock().retain(|resource, known| {
            if known.until > now {
                return true;
            }
            let CrashLoop { count, why, .. } = &*known;
            if *count == 0 {
                return false;
            }
            tracing::warn!(resource, ends = count, why, "ended again and again in the last minute");
            (known.until, known.count, known.is_known) = (now + WINDOW, 0, true);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_first_end_of_a_crash_loop_and_its_restart_are_logged_and_the_others_counted() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let counts = || {
            let text = std::fs::read_to_string(log.path()).unwrap();
            let counts = text.lines().filter_map(|line| line.split_once("ends=")?.1.chars().next());
            counts.collect::<String>()
        };
        let writer = Arc::new(log.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(writer).with_ansi(false);
        let _logged = tracing::subscriber::set_default(subscriber.finish());
        let loops = CrashLoops::default();
        let mut summaries = std::pin::pin!(loops.clone().summarize());
        let crash = || (loops.admits_end("web", "no luck"), loops.admits_restart("web"));

        // The first minute.
        assert_eq!([crash(), crash(), crash()], [(true, true), (false, false), (false, false)]);
        assert!(loops.admits_end("other", "no luck") && loops.admits_restart("other"));
        assert!(timeout(WINDOW - SECOND, &mut summaries).await.is_err());
        assert_eq!(counts(), "");
        assert!(timeout(2 * SECOND, &mut summaries).await.is_err());
        assert_eq!(counts(), "2");

        // It goes on for another minute, and then runs.
        assert!(!loops.admits_restart("web"));
        assert_eq!(crash(), (false, false));
        assert!(timeout(3 * WINDOW, &mut summaries).await.is_err());
        assert_eq!(counts(), "21");
        assert_eq!(crash(), (true, true));
        advance(SECOND).await;
        assert_eq!(crash(), (false, false));
    }
}
