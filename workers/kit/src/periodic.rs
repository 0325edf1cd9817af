//! Work that is done again and again.

use std::fmt;
use std::time::Duration;

use crankcase_engine::{ConfigError, Outcome, Stop, Worker};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

pub use self::config::{FirstTurn, MissedTurns, PeriodicConfig};

use self::schedule::Schedule;
use crate::seed::any_seed;

mod config;
mod schedule;

/// One turn of a [`Periodic`], as its work is told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Turn {
    /// Which turn of the grid it is, from 0. Turns that were skipped are counted.
    pub number: u64,
    /// How many turns were skipped between the one before and this one.
    pub skipped: u64,
    /// How long ago it was due.
    pub late: Duration,
    /// The worker's request to stop: work that takes long looks at it.
    pub stop: Stop,
}

/// What a [`Periodic`] has done so far.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[non_exhaustive]
pub struct PeriodicStats {
    /// How many turns were done.
    pub done: u64,
    /// How many turns were skipped.
    pub skipped: u64,
    /// Whether a turn is being done now.
    pub is_busy: bool,
    /// How long the last turn took.
    #[serde(rename = "last_took_s", serialize_with = "in_seconds")]
    pub last_took: Option<Duration>,
}

fn in_seconds<S: serde::Serializer>(
    took: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    took.map(|took| took.as_secs_f64()).serialize(serializer)
}

/// A worker that does its work in turns.
///
/// # Guarantees
///
/// - A turn begins only when the one before has ended.
/// - An error of the work ends the worker with it; nothing is tried again here.
/// - Told to stop, it begins no more turns and ends with the one that is being done.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use crankcase_engine::{Exit, Stop, Worker};
/// use crankcase_workers::{Periodic, PeriodicConfig, Turn};
///
/// let config = PeriodicConfig::new(Duration::from_secs(60));
/// let periodic = Periodic::new(config, |turn: Turn| async move {
///     println!("turn {}", turn.number);
///     if turn.number == 2 { Err(Exit::Bounce) } else { Ok(()) }
/// })?;
/// let (_stopper, stop) = Stop::pair();
/// assert!(matches!(periodic.run(stop).await, Err(Exit::Bounce)));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is done until it runs"]
pub struct Periodic<F> {
    config: PeriodicConfig,
    work: F,
    stats: watch::Sender<PeriodicStats>,
}

impl<F, W> Periodic<F>
where
    F: FnMut(Turn) -> W + Send + 'static,
    W: Future<Output = Outcome> + Send + 'static,
{
    /// Returns a worker that does `work`.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid.
    pub fn new(config: PeriodicConfig, work: F) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { config, work, stats: watch::Sender::default() })
    }
}

impl<F> Periodic<F> {
    /// Returns a view of what it has done so far.
    pub fn stats(&self) -> watch::Receiver<PeriodicStats> {
        self.stats.subscribe()
    }
}

impl<F, W> Worker for Periodic<F>
where
    F: FnMut(Turn) -> W + Send + 'static,
    W: Future<Output = Outcome> + Send + 'static,
{
    async fn run(mut self, stop: Stop) -> Outcome {
        let seed = self.config.seed.or_else(|| stop.seed()).unwrap_or_else(any_seed);
        let mut schedule = Schedule::new(&self.config, seed, Instant::now());
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                () = sleep_until(schedule.next()) => {}
            }
            let began = Instant::now();
            let due = schedule.take(began);
            if due.skipped > 0 {
                tracing::debug!(turn = due.number, skipped = due.skipped, "turns skipped");
            }
            self.stats.send_modify(|stats| {
                stats.is_busy = true;
                stats.skipped = stats.skipped.saturating_add(due.skipped);
            });
            let late = began.saturating_duration_since(due.at);
            let (number, skipped) = (due.number, due.skipped);
            let ended = (self.work)(Turn { number, skipped, late, stop: stop.clone() }).await;
            self.stats.send_modify(|stats| {
                stats.is_busy = false;
                stats.done += 1;
                stats.last_took = Some(began.elapsed());
            });
            ended?;
            schedule.end(Instant::now());
        }
    }
}

impl<F> fmt::Debug for Periodic<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic").field("config", &self.config).finish_non_exhaustive()
    }
}
