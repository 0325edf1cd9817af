//! Which of many changes are logged one by one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// How many changes are logged one by one in a window of time; the others are counted.
const SHOWN: usize = 100;

/// How long such a window is.
const WINDOW: Duration = Duration::from_secs(1);

/// What keeps the log readable when many resources change at once, as at the start of an agent. Cheap to
/// clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flood(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    window: Mutex<Window>,
    has_begun: Notify,
}

/// The present window; it begins with a change.
#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    count: usize,
}

impl Flood {
    /// Counts a change; returns whether it is logged.
    pub(crate) fn admits(&self) -> bool {
        let mut window = self.0.window.lock();
        if window.began.is_none_or(|began| began.elapsed() >= WINDOW) {
            end(&mut window);
            window.began = Some(Instant::now());
            self.0.has_begun.notify_one();
        }
        window.count += 1;
        window.count <= SHOWN
    }

    /// Logs at the end of each window how many changes it had beyond those that were logged. Never ends.
    /// Cancel safe.
    pub(crate) async fn summarize(self) {
        loop {
            self.0.has_begun.notified().await;
            sleep(WINDOW).await;
            end(&mut self.0.window.lock());
        }
    }
}

/// Ends a window; logs and returns how many changes it had beyond those that were logged.
fn end(window: &mut Window) -> usize {
    let more = window.count.saturating_sub(SHOWN);
    if more > 0 {
        tracing::info!(resources = more, "more were changed");
    }
    *window = Window::default();
    more
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn in_each_second_a_hundred_changes_are_logged_and_the_others_counted() {
        let flood = Flood::default();
        let logged = |count: usize| (0..count).filter(|_| flood.admits()).count();

        assert_eq!((logged(70), logged(70)), (70, 30));
        assert_eq!(end(&mut flood.0.window.lock()), 40);
        assert_eq!(logged(100), 100);
        sleep(WINDOW).await;
        assert_eq!((logged(1), logged(150)), (1, 99));
        assert_eq!(end(&mut flood.0.window.lock()), 51);
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_has_at_the_end_of_a_second_how_many_changes_it_lacks() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let text = || std::fs::read_to_string(log.path()).unwrap();
        let writer = Arc::new(log.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(writer).with_ansi(false);
        let _logged = tracing::subscriber::set_default(subscriber.finish());
        let flood = Flood::default();
        let mut summaries = std::pin::pin!(flood.clone().summarize());

        let admitted = (0..140).filter(|_| flood.admits()).count();
        assert!(timeout(WINDOW - Duration::from_millis(1), &mut summaries).await.is_err());
        let before = text();
        assert!(timeout(Duration::from_millis(2), &mut summaries).await.is_err());

        assert_eq!((admitted, &*before), (100, ""));
        assert_eq!(text().matches("more were changed resources=40\n").count(), 1, "{}", text());
    }
}
