//! A record of what workers do, in the order in which they do it.

use std::sync::Arc;

use parking_lot::Mutex;

/// Records what workers do, in the order in which they do it.
///
/// Doubles that share a journal write one line each time they are started (`start web (80,)`, with
/// the values they were given), told to stop (`stop web`) and ended (`end web`).
///
/// # Examples
///
/// ```
/// use crankcase_engine::Name;
/// use crankcase_testing::{Journal, clean_kill, test_engine};
///
/// const BASE: Name<u32> = Name::new("base");
/// const TOP: Name<u32> = Name::new("top");
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Journal::new();
/// let engine = test_engine().build()?;
/// engine.install(TOP, journal.manifold(BASE)).await?;
/// engine.install(BASE, journal.manifold(())).await?;
/// engine.running(TOP).await?;
/// clean_kill(engine).await?;
/// let lines = ["start base", "start top 1", "stop top", "end top", "stop base", "end base"];
/// assert_eq!(journal.lines(), lines);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Journal {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Journal {
    /// Returns an empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a line of the test's own.
    pub fn note(&self, line: impl Into<String>) {
        self.lines.lock().push(line.into());
    }

    /// Returns all lines, the oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Returns all lines and forgets them.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }

    /// Returns how often the workers of a name were started.
    pub fn starts(&self, name: &str) -> usize {
        let of_name = |line: &&String| {
            let mut words = line.split(' ');
            words.next() == Some("start") && words.next() == Some(name)
        };
        self.lines.lock().iter().filter(of_name).count()
    }

    /// Returns the names of the workers that were told to stop, in that order.
    pub fn stops(&self) -> Vec<String> {
        let lines = self.lines.lock();
        lines.iter().filter_map(|line| line.strip_prefix("stop ")).map(str::to_owned).collect()
    }
}
