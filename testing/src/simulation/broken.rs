//! The failure of a simulation, as a test prints it.

use std::fmt;
use std::time::Duration;

use super::excerpt::Excerpt;
use super::finding::Finding;
use super::mode::Mode;
use super::seeds::SEED;
use super::trace::Trace;

/// The finding of a run of a simulation: a promise or an invariant that does not hold.
///
/// A test that returns it prints the text as it is: the seed, what does not hold, and the last lines
/// of the trace.
pub struct Broken {
    seed: u64,
    mode: Mode,
    at: Duration,
    what: String,
    /// The path of the worker that has not recovered, and the paths of what it uses.
    about: Vec<String>,
    trace: Box<Trace>,
    /// It was found in the run without faults that the other runs are compared with.
    pub(super) is_calm: bool,
    pub(super) replay: Replay,
}

/// Whether a seed fails again in the same way, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    Unknown,
    Same,
    Other,
    /// All seeds together fail, and not one of them.
    None,
}

impl Broken {
    /// Returns the finding of a run after this time.
    pub(super) fn new(seed: u64, mode: Mode, at: Duration, found: Finding, trace: Trace) -> Self {
        let Finding { what, about } = found;
        let (trace, replay) = (Box::new(trace), Replay::Unknown);
        Self { seed, mode, at, what, about, trace, is_calm: false, replay }
    }

    /// Returns a failure of all seeds together, with the trace of the last one.
    pub(super) fn of_all(seed: u64, mode: Mode, what: String, trace: Trace) -> Self {
        let broken = Self::new(seed, mode, Duration::ZERO, what.into(), trace);
        Self { replay: Replay::None, ..broken }
    }

    /// Returns the seed of the run. If all runs together have failed, returns the last seed, or the
    /// first one if there was no run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the text of what does not hold. A promise of the engine's begins with its number.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the events of the run up to the failure.
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
                let calm = if self.is_calm { ", its run without faults" } else { "" };
                writeln!(
                    f,
                    "simulation ({mode}{calm}) with seed {seed}, after {at:.3} s: {}",
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
        let Excerpt { story, tail } = Excerpt::of(&self.trace, &self.about);
        if let Some(path) = self.about.first().filter(|_| !story.is_empty()) {
            writeln!(f, "what has become of {path} and what it uses since it was up last:")?;
            story.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        }
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
