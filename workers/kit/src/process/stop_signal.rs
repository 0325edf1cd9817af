//! The signals that can ask a process to end.

use rustix::process::Signal as Number;

/// A signal that asks a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StopSignal {
    /// SIGTERM.
    #[default]
    Terminate,
    /// SIGINT.
    Interrupt,
    /// SIGQUIT.
    Quit,
    /// SIGHUP.
    Hangup,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGWINCH; some web servers take it as the request to end gracefully.
    WindowChange,
    /// SIGKILL; the process gets no chance to clean up.
    Kill,
}

impl StopSignal {
    /// Every signal that can be asked for.
    pub const ALL: [Self; 8] = [
        Self::Terminate,
        Self::Interrupt,
        Self::Quit,
        Self::Hangup,
        Self::User1,
        Self::User2,
        Self::WindowChange,
        Self::Kill,
    ];

    /// Returns the signal's name without `SIG`, as in `TERM`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Interrupt => "INT",
            Self::Quit => "QUIT",
            Self::Hangup => "HUP",
            Self::User1 => "USR1",
            Self::User2 => "USR2",
            Self::WindowChange => "WINCH",
            Self::Kill => "KILL",
        }
    }

    pub(super) fn number(self) -> Number {
        match self {
            Self::Terminate => Number::TERM,
            Self::Interrupt => Number::INT,
            Self::Quit => Number::QUIT,
            Self::Hangup => Number::HUP,
            Self::User1 => Number::USR1,
            Self::User2 => Number::USR2,
            Self::WindowChange => Number::WINCH,
            Self::Kill => Number::KILL,
        }
    }
}
