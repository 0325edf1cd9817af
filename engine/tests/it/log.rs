//! The log of this process. A subscriber of one thread sees nothing of other threads, and would
//! race with other tests for what is remembered of spans.

use std::pin::pin;
use std::sync::Once;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) struct Log {
    /// The warnings and what is worth knowing, and not the lines for debugging.
    lines: Mutex<Vec<String>>,
    news: Notify,
}

/// Returns the log; the first call begins it.
pub(crate) fn log() -> &'static Log {
    static BEGIN: Once = Once::new();
    static LOG: Log = Log { lines: Mutex::new(Vec::new()), news: Notify::const_new() };
    BEGIN.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(|| &LOG)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("nothing else sets it");
    });
    &LOG
}

impl Log {
    /// Waits for a line with all these words.
    pub(crate) async fn line(&self, words: &[&str]) -> String {
        loop {
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            let is_it = |line: &&String| words.iter().all(|word| line.contains(word));
            if let Some(line) = self.lines.lock().iter().find(is_it) {
                return line.clone();
            }
            news.await;
        }
    }

    /// Returns how many lines have this text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.lines.lock().iter().filter(|line| line.contains(text)).count()
    }
}

impl std::io::Write for &Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        if !line.contains("DEBUG ") {
            self.lines.lock().push(line.into_owned());
            self.news.notify_waiters();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
