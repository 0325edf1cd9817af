use std::fmt;
use std::time::Duration;

use super::Mode;
use super::seeds::SEED;
use super::trace::Trace;

/// What a run of a simulation has found: a promise or an invariant that does not hold.
///
/// A test that returns it prints the text as it is: the seed, what does not hold, and the last lines
/// of the trace.
pub struct Broken {
    seed: u64,
    mode: Mode,
    at: Duration,
    what: String,
    trace: Box<Trace>,
    pub(super) replay: Replay,
}

/// What is known of whether a seed fails again in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    Unknown,
    Same,
    Other,
    /// It is not one seed that fails, but all of them together.
    None,
}

impl Broken {
    pub(super) fn new(seed: u64, mode: Mode, what: String, trace: Trace) -> Self {
        let at = trace.tally.lasted;
        Self { seed, mode, at, what, trace: Box::new(trace), replay: Replay::Unknown }
    }

    /// Returns a failure of all seeds together, with the trace of the last one.
    pub(super) fn of_all(seed: u64, mode: Mode, what: String, trace: Trace) -> Self {
        Self { replay: Replay::None, ..Self::new(seed, mode, what, trace) }
    }

    /// Returns the seed of the run; of a failure that is not one run's, the last seed, or the first one
    /// if none was run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns what does not hold. A promise of the engine's begins with its number.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns what happened in the run up to then.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, mode, at) = (self.seed, self.mode, self.at.as_secs_f64());
        match self.replay {
            Replay::None => writeln!(f, "simulation ({mode}): {}", self.what)?,
            _ => {
                writeln!(
                    f,
                    "simulation ({mode}) with seed {seed}, after {at:.3} s: {}",
                    self.what
                )?;
            }
        }
        match self.replay {
            Replay::Other => writeln!(
                f,
                "the seed does not replay: something in it is random that the seed does not \
                 decide, such as a hash map's order, an unbiased `select!`, a thread or the wall \
                 clock"
            )?,
            Replay::Same | Replay::Unknown => writeln!(f, "replay it with {SEED}={seed}")?,
            Replay::None if self.trace.count() == 0 => return Ok(()),
            Replay::None => writeln!(f, "the seed that was run last is {seed}")?,
        }
        let tail = self.trace.tail();
        writeln!(f, "the last {} of {} lines of its trace:", tail.len(), self.trace.count())?;
        tail.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Debug for Broken {
    /// Writes the text as it is: a test that fails prints this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Broken {}
