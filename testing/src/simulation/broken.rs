use std::fmt;
use std::time::Duration;

use super::Mode;
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
    pub(super) replays: Option<bool>,
}

impl Broken {
    pub(super) fn new(seed: u64, mode: Mode, what: String, trace: Trace) -> Self {
        let at = trace.tally.lasted;
        Self { seed, mode, at, what, trace: Box::new(trace), replays: None }
    }

    /// Returns the seed of the run.
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
        writeln!(f, "simulation ({mode}) with seed {seed}, after {at:.3} s: {}", self.what)?;
        match self.replays {
            Some(false) => writeln!(
                f,
                "the seed does not replay: something in it is random that the seed does not \
                 decide, such as a hash map's order, an unbiased `select!`, a thread or the wall \
                 clock"
            )?,
            Some(true) | None => writeln!(f, "replay it with CRANKCASE_SIM_SEED={seed}")?,
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
