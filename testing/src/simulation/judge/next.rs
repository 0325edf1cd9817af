//! The reasons why an idle path does not start, and the steps that must follow an end.

use std::time::Duration;

/// The most by which a timer of the paused clock is late: its times are rounded up to milliseconds,
/// and the clock goes on by whole ones.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// Why an idle path does not start, apart from its inputs and from a park by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Rest {
    #[default]
    Ready,
    /// It waits until the end of its bounce delay.
    Delay(Duration),
    /// It waits until the end of its backoff.
    Backoff(Duration),
    Missing,
    Done,
    Spent,
    /// Too little is known to say.
    Unknown,
}

/// The step that must follow a worker's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Next {
    /// Any step.
    #[default]
    Whatever,
    /// No wait: the wave began elsewhere.
    NoDelay,
    /// A bounce delay.
    Delay,
    /// The wait after this many failures in a row, or after a first one if the worker ran well.
    Backoff(u32),
    /// No wait: it is done, or something is missing, or it is tried again at once.
    Nothing,
}

impl Rest {
    /// Returns whether an input change or a bounce by hand ends it.
    pub(super) fn is_soft(self) -> bool {
        matches!(self, Self::Backoff(_) | Self::Missing | Self::Done | Self::Spent)
    }

    /// Returns whether it is over for sure.
    pub(super) fn is_over(self, at: Duration) -> bool {
        match self {
            Self::Ready => true,
            Self::Delay(until) | Self::Backoff(until) => until + TICK < at,
            _ => false,
        }
    }

    /// Returns whether it ends without a further cause, failures aside. Returns `None` if that is
    /// not known: the last jump of the clock may have ended the wait, and the engine may not have
    /// looked since.
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
