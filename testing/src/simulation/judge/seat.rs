//! The judge's record of one path.

use std::time::Duration;

use crankcase_engine::testing::WrappedInput;
use crankcase_engine::{EndKind, Policy};

use super::next::{Next, Rest};
use crate::simulation::trace::About;

/// How a worker depends on an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::simulation) struct Need {
    pub(super) gates: bool,
    pub(super) bounces: bool,
    pub(super) is_present: bool,
    /// The output whose new values are changes. Empty if no new value is a change.
    pub(super) output: &'static str,
    /// A new value is a change only if the part of it that is used has changed.
    pub(super) is_selected: bool,
}

impl Need {
    pub(in crate::simulation) fn of(input: &WrappedInput<'_>) -> Self {
        Self {
            gates: matches!(input.need, "required" | "live required"),
            bounces: matches!(input.need, "required" | "optional"),
            is_present: input.is_present,
            output: input.output,
            is_selected: input.is_selected,
        }
    }

    /// Returns the need of a worker of a border for an input: it follows the input's values.
    pub(in crate::simulation) fn of_carrier(input: &WrappedInput<'_>) -> Self {
        Self { output: "", is_selected: false, ..Self::of(input) }
    }

    /// Returns whether it is an optional input.
    pub(super) fn is_optional(self) -> bool {
        self.bounces && !self.gates
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::simulation) enum Phase {
    #[default]
    Idle,
    Starting,
    Running,
}

/// A time for which a worker was up, by the numbers of events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Up {
    pub(super) generation: u32,
    pub(super) since: u64,
    /// The time at which the worker came up.
    pub(super) came: Duration,
    /// The number of the event at which it was told to stop, or has ended.
    pub(super) until: Option<u64>,
    pub(super) went: Option<Duration>,
    pub(super) was_told: bool,
}

/// An output that a live worker was started with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hold {
    pub(super) input: usize,
    pub(super) generation: u32,
    pub(super) output: &'static str,
    pub(super) is_selected: bool,
}

impl Hold {
    pub(super) fn of(input: usize, generation: u32, need: Need) -> Self {
        let Need { output, is_selected, .. } = need;
        Self { input, generation, output, is_selected }
    }
}

/// The judge's record of one path.
#[derive(Debug, Default)]
pub(in crate::simulation) struct Seat {
    pub(in crate::simulation) path: About,
    /// The number of its engine.
    pub(super) engine: usize,
    /// The policy by which its waits are judged, if that was demanded.
    pub(super) policy: Option<Box<Policy>>,
    /// Set if it passes a value over the border of a nested engine, and is the engine's own.
    pub(in crate::simulation) is_carrier: bool,
    pub(super) is_installed: bool,
    pub(in crate::simulation) was_installed: bool,
    pub(super) is_parked: bool,
    pub(in crate::simulation) phase: Phase,
    pub(in crate::simulation) generation: u32,
    /// The generation up to which its workers were counted since it was installed.
    pub(super) counted: u32,
    /// The number of the event at which it began to start.
    pub(super) began: u64,
    pub(in crate::simulation) is_told: bool,
    pub(super) is_aborted: bool,
    pub(super) is_stuck: bool,
    /// Set if its last worker has ended, and something of it is left.
    pub(super) lingers: bool,
    /// The time at which that worker had ended, until the next step is known.
    pub(super) lingered: Option<Duration>,
    pub(in crate::simulation) starts: u64,
    /// How its last worker ended.
    pub(in crate::simulation) end: Option<EndKind>,
    /// Set if one of its workers has been done.
    pub(in crate::simulation) was_done: bool,
    /// How long its last worker was up.
    pub(in crate::simulation) ran: Duration,
    /// The last two times for which it was up.
    pub(super) ups: [Option<Up>; 2],
    /// The number of the event at which each output last changed.
    pub(super) changes: Vec<(&'static str, u64)>,
    pub(super) holds: Vec<Hold>,
    /// The optional inputs that its live worker was started without.
    pub(super) lacks: Vec<usize>,
    /// The inputs that its live worker follows.
    pub(super) follows: Vec<usize>,
    pub(super) users: Vec<usize>,
    /// The inputs that its manifold declares; unknown before the first worker of the manifold.
    pub(super) declared: Option<Vec<(usize, Need)>>,
    /// The time at which a cause of its own struck its live worker: a root of a wave.
    pub(super) struck: Option<Duration>,
    /// The time at which a wave that began elsewhere reached its live worker.
    pub(super) reached: Option<Duration>,
    /// The time at which another worker marked its live worker. The engine may learn of that mark
    /// together with the next event.
    pub(super) spread: Option<Duration>,
    /// Set if a value has changed that it is being started with.
    pub(super) is_outdated: bool,
    /// Set if its live worker is one of a manifold that was replaced or taken out.
    pub(super) is_obsolete: bool,
    /// Set if too little is known of its live worker to judge why it is stopped.
    pub(super) is_vague: bool,
    /// The time of the last event about it.
    pub(super) turned: Duration,
    /// The time at which it was last unparked.
    pub(super) freed: Option<Duration>,
    pub(super) rest: Rest,
    pub(super) next: Next,
    /// Set if it stands in the list of installed paths without a worker.
    pub(super) is_listed: bool,
    /// How many times in a row it has failed.
    pub(super) failures: u32,
    /// How many of these failures no wait has followed. A wait would have told their count.
    pub(super) untold: u32,
    /// Set if it is not known whether its last failure counts.
    pub(super) is_uncounted: bool,
}

impl Seat {
    /// Returns whether its path ends with this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.path.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'))
    }

    pub(super) fn is_live(&self) -> bool {
        self.phase != Phase::Idle && !self.is_stuck
    }

    pub(in crate::simulation) fn is_up(&self) -> bool {
        self.phase == Phase::Running && !self.is_told
    }

    /// Returns whether its live worker is to stop.
    pub(super) fn is_marked(&self) -> bool {
        self.struck.is_some() || self.reached.is_some()
    }

    /// Returns whether it is up and not about to stop.
    pub(in crate::simulation) fn shows_up(&self) -> bool {
        self.is_up() && !self.is_marked() && !self.is_aborted
    }

    pub(in crate::simulation) fn is_installed(&self) -> bool {
        self.is_installed
    }

    pub(in crate::simulation) fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Returns whether it waits after a failure, and will be tried again.
    pub(in crate::simulation) fn backs_off(&self) -> bool {
        let waits = self.phase == Phase::Idle && matches!(self.rest, Rest::Backoff(_));
        waits && self.is_installed && !self.is_parked
    }

    /// Returns whether it has failed too often.
    pub(in crate::simulation) fn is_spent(&self) -> bool {
        self.phase == Phase::Idle && self.is_installed && self.rest == Rest::Spent
    }

    /// Returns how long its worker has been up, if it is up.
    pub(in crate::simulation) fn up_for(&self, at: Duration) -> Option<Duration> {
        let came = self.came().filter(|_| self.is_up())?;
        Some(at.saturating_sub(came))
    }

    pub(in crate::simulation) fn is_done(&self) -> bool {
        self.phase == Phase::Idle && self.end == Some(EndKind::Done)
    }

    pub(super) fn holds(&self, input: usize, generation: u32) -> bool {
        self.holds.iter().any(|hold| hold.input == input && hold.generation == generation)
    }

    /// Returns an input that its manifold declares.
    pub(super) fn declared_at(&self, nth: usize) -> Option<(usize, Need)> {
        self.declared.as_ref()?.get(nth).copied()
    }

    /// Returns whether its manifold declares an input whose coming and going bounces its workers.
    pub(super) fn is_bounced_by(&self, input: usize) -> bool {
        let is_it = |(other, need): &(usize, Need)| *other == input && need.bounces;
        self.declared.as_ref().is_some_and(|declared| declared.iter().any(is_it))
    }

    /// Returns the need of an input for which a new value of this output may be a change.
    pub(super) fn is_changed_by(&self, input: usize, output: &str) -> Option<Need> {
        let is_it = |(other, need): &&(usize, Need)| {
            *other == input && need.bounces && need.output == output
        };
        self.declared.as_ref()?.iter().find(is_it).map(|(_, need)| *need)
    }

    pub(super) fn down(&mut self, (at, moment): (u64, Duration), was_told: bool) {
        if let Some(up) = &mut self.ups[0]
            && up.until.is_none()
        {
            (up.until, up.went, up.was_told) = (Some(at), Some(moment), was_told);
        }
    }

    /// Returns whether it is idle, and a changed input may start it.
    pub(super) fn may_be_roused(&self) -> bool {
        let may_end = self.rest == Rest::Unknown || self.rest.is_soft();
        self.phase == Phase::Idle && self.is_installed && may_end
    }

    pub(super) fn forget_failures(&mut self) {
        (self.failures, self.untold, self.is_uncounted) = (0, 0, false);
    }

    /// Counts a failure that no wait follows.
    pub(super) fn has_failed_untold(&mut self, failures: u32) {
        self.failures = failures;
        self.untold += 1;
    }

    /// Returns the time of being up that includes a moment.
    pub(super) fn up_at(&self, at: u64) -> Option<Up> {
        let covers = |up: &Up| up.since < at && up.until.is_none_or(|until| until > at);
        self.ups.into_iter().flatten().find(covers)
    }

    /// Returns how long its live worker has been up, or was up before it was told to stop.
    pub(super) fn ran(&self, now: Duration) -> Duration {
        let up = self.ups[0].filter(|up| up.generation == self.generation);
        up.map_or(Duration::ZERO, |up| up.went.unwrap_or(now).saturating_sub(up.came))
    }

    /// Returns the time at which its live worker came up.
    pub(super) fn came(&self) -> Option<Duration> {
        self.ups[0].filter(|up| up.generation == self.generation).map(|up| up.came)
    }
}
