//! Why an idle path does not start, and what must follow an end.

use std::time::Duration;

/// By how much a timer of the paused clock may be late: its times are rounded up to milliseconds,
/// and the clock goes on by whole ones.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// Why an idle path does not start, apart from its inputs and from being parked by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Rest {
    #[default]
    Ready,
    /// It waits out its bounce delay until then.
    Delay(Duration),
    /// It waits after a failure until then.
    Backoff(Duration),
    Missing,
    Done,
    Spent,
    /// Too little is known to say.
    Unknown,
}

/// What must follow a worker's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Next {
    /// Whatever comes.
    #[default]
    Whatever,
    /// No wait: the wave began elsewhere.
    NoDelay,
    /// A bounce delay.
    Delay,
    /// The wait after so many failures in a row, or after a first one if the worker ran well.
    Backoff(u32),
    /// No wait: it is done, or something is missing, or it is tried again at once.
    Nothing,
}

impl Rest {
    /// Whether an input change or a bounce by hand ends it.
    pub(super) fn is_soft(self) -> bool {
        matches!(self, Self::Backoff(_) | Self::Missing | Self::Done | Self::Spent)
    }

    /// Whether it is over for sure.
    pub(super) fn is_over(self, at: Duration) -> bool {
        match self {
            Self::Ready => true,
            Self::Delay(until) | Self::Backoff(until) => until + TICK < at,
            _ => false,
        }
    }

    /// Whether it ends without a further cause, failures aside; `None` if that cannot be said, as of
    /// what is over by the last jump of the clock and may not have been looked at since.
    pub(super) fn is_coming(self, at: Duration, jumped_to: Duration) -> Option<bool> {
        match self {
            Self::Ready | Self::Delay(_) => Some(true),
            Self::Backoff(until) if at < until => Some(false),
            Self::Backoff(until) => (until.max(jumped_to) + TICK < at).then_some(true),
            Self::Missing | Self::Done | Self::Spent => Some(false),
            Self::Unknown => None,
        }
    }
}
