//! Why an idle path rests, and for how long (P4, S9, S10).

use std::time::Duration;

use crankcase_engine::{EndKind, Policy};

use super::next::{Next, Rest, TICK};
use super::seat::{Need, Phase, Seat};
use super::{Judge, Judged, ensure};

impl Judge {
    /// Ends the rest of an idle path, but not a bounce delay or a park by hand.
    pub(super) fn soften(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if seat.phase == Phase::Idle && seat.rest.is_soft() {
            seat.rest = Rest::Ready;
        }
    }

    /// Sets the step that must follow the end of a worker, by the plain rules.
    pub(super) fn rest_after(&mut self, index: usize, end: EndKind) {
        let is_killed = self.is_killed(index);
        let at = self.at;
        let seat = &mut self.seats[index];
        if seat.shows_up() {
            self.leave(index);
        }
        let seat = &mut self.seats[index];
        let ran = if seat.phase == Phase::Running { seat.ran(at) } else { Duration::ZERO };
        let reset_after = seat.policy.as_ref().map(|policy| policy.backoff.reset_after);
        if reset_after.is_some_and(|after| ran >= after) {
            seat.forget_failures();
        }
        seat.ran = ran;
        seat.rest = Rest::Ready;
        seat.next = Next::Whatever;
        let is_over = matches!(end, EndKind::Fatal | EndKind::Dropped);
        if end == EndKind::Uninstall && !seat.is_obsolete {
            seat.is_installed = false;
            seat.declared = None;
        }
        if is_killed || is_over || !seat.is_installed || seat.is_parked {
            return;
        }
        // A wave of the same moment may have reached the engine later than the end.
        if seat.is_vague || seat.spread == Some(at) {
            seat.rest = Rest::Unknown;
            seat.is_uncounted |= seat.is_vague;
            return;
        }
        if seat.is_marked() {
            seat.next = after_mark(seat);
            return;
        }
        // A start that took too long has failed, whatever its result.
        let is_overdue = seat.phase == Phase::Starting && seat.is_aborted;
        (seat.rest, seat.next) = match end {
            EndKind::Failed if seat.is_uncounted => (Rest::Unknown, Next::Whatever),
            EndKind::Failed => (Rest::Ready, Next::Backoff(seat.failures + 1)),
            _ if is_overdue => (Rest::Ready, Next::Backoff(seat.failures + 1)),
            EndKind::Done => (Rest::Done, Next::Nothing),
            EndKind::Missing => (Rest::Missing, Next::Nothing),
            _ => (Rest::Ready, Next::Delay),
        };
        // An input has changed since the start, so the end counts only if it is a failure.
        let is_outdated = seat.is_outdated && !matches!(end, EndKind::Bounce | EndKind::Stopped);
        if is_outdated {
            match seat.next {
                Next::Backoff(failures) => seat.has_failed_untold(failures),
                _ if end == EndKind::Done => seat.forget_failures(),
                _ => {}
            }
            (seat.rest, seat.next) = (Rest::Ready, Next::Nothing);
            return;
        }
        if end == EndKind::Done {
            seat.forget_failures();
        }
    }

    /// Judges a wait that begins.
    pub(super) fn waiting(&mut self, index: usize, delay: Duration, failures: u32) -> Judged {
        let until = self.at + delay;
        let seat = &mut self.seats[index];
        let lingered = seat.lingered.take();
        let policy = seat.policy.as_deref();
        let path = &seat.path;
        match std::mem::take(&mut seat.next) {
            Next::Whatever => {}
            Next::NoDelay => {
                ensure!(failures == 0, "S10: {path} waits as after a failure, but it was stopped");
                return Err(format!(
                    "P4: {path} waits for {delay:?} of its own, but the wave began elsewhere"
                ));
            }
            Next::Delay => {
                ensure!(failures == 0, "S10: {path} waits as after a failure, but has not failed");
            }
            // Without the policy it is not known how long a worker has to be up before its earlier
            // failures are forgotten.
            Next::Backoff(expected) => ensure!(
                failures == expected
                    || (policy.is_none() && (1..=1 + seat.untold).contains(&failures)),
                "S9: {path} waits as after failure {failures} in a row, but it is {expected}"
            ),
            Next::Nothing => {
                return Err(format!("S9: {path} waits for {delay:?} after an end without a wait"));
            }
        }
        if let Some(policy) = policy {
            let (least, most) = bounds(policy, failures);
            // A wait runs from the end of a worker, even if the worker lingers.
            let since = lingered.unwrap_or(self.at);
            ensure!(
                (least..=most).contains(&(delay + (self.at - since))),
                "S9: {path} waits for {delay:?} {}; by its policy it is {least:?} to {most:?}",
                after(failures)
            );
        }
        if failures > 0 {
            (seat.failures, seat.untold, seat.is_uncounted) = (failures, 0, false);
        }
        seat.rest = match failures {
            0 => Rest::Delay(until),
            // A change at the same moment may end the wait at once.
            _ if seat.spread == Some(self.at) => Rest::Unknown,
            _ => Rest::Backoff(until),
        };
        Ok(())
    }

    /// Judges an engine that says at this moment that it has settled.
    ///
    /// No worker in it may be starting, be stopping or wait out a bounce delay. A path with an
    /// event at this very moment is left out, because the event may be later than the answer.
    pub(in crate::simulation) fn judge_settled(&self, engine: &str, at: Duration) -> Judged {
        let Some(engine) = self.places.number(engine) else { return Ok(()) };
        for seat in self.seats.iter().filter(|seat| seat.engine == engine && seat.turned < at) {
            let what = match (seat.phase, seat.rest) {
                _ if seat.is_stuck || self.places.is_killed(engine) => continue,
                (Phase::Starting, _) => "is starting",
                (Phase::Running, _) if seat.is_told => "is stopping",
                (Phase::Idle, Rest::Delay(until))
                    if seat.is_installed && !seat.is_parked && until > at =>
                {
                    "waits out its bounce delay"
                }
                _ => continue,
            };
            return Err(format!(
                "P5: the engine says that it has settled while {} {what}",
                seat.path
            ));
        }
        Ok(())
    }

    /// Judges, when something else happens to a path, whether the due wait has begun.
    pub(super) fn judge_next(&mut self, index: usize) -> Judged {
        let seat = &mut self.seats[index];
        let next = std::mem::take(&mut seat.next);
        if let Next::Backoff(failures) = next {
            seat.has_failed_untold(failures);
        }
        let Some(policy) = seat.policy.as_deref() else { return Ok(()) };
        let failures = match next {
            Next::Delay => 0,
            Next::Backoff(failures) => failures,
            Next::Whatever | Next::NoDelay | Next::Nothing => return Ok(()),
        };
        let (least, _) = bounds(policy, failures);
        ensure!(
            least.is_zero(),
            "S9: {} does not wait {}; by its policy it is {least:?} at least",
            seat.path,
            after(failures)
        );
        Ok(())
    }

    /// Judges whether a path that is started has waited for exactly the announced time.
    pub(super) fn judge_wait_is_over(&self, seat: &Seat) -> Judged {
        let (Rest::Delay(until) | Rest::Backoff(until)) = seat.rest else { return Ok(()) };
        let (path, at) = (&seat.path, self.at);
        ensure!(at >= until, "S9: {path} is started {:?} before its wait is over", until - at);
        let has_jumped = until <= self.jumped_to && at <= self.jumped_to + TICK;
        let waits_longer = |(input, need): &(usize, Need)| {
            let input = &self.seats[*input];
            let is_in_time = input.shows_up() && input.came().is_some_and(|came| came <= until);
            need.is_optional() || (need.gates && !is_in_time)
        };
        let is_held =
            seat.declared.as_ref().is_none_or(|declared| declared.iter().any(waits_longer));
        ensure!(
            has_jumped
                || is_held
                || seat.freed.is_some_and(|freed| freed > until)
                || at <= until + TICK,
            "S9: {path} is started {:?} after its wait is over",
            at - until
        );
        Ok(())
    }
}

/// Returns the step that must follow the end of a worker that a wave has marked.
fn after_mark(seat: &Seat) -> Next {
    if seat.struck == seat.reached {
        return Next::Whatever;
    }
    let is_root =
        seat.struck.is_some_and(|struck| seat.reached.is_none_or(|reached| struck <= reached));
    // With a delay that grows, every bounce waits.
    let grows = seat.policy.as_deref().is_some_and(|policy| policy.max_bounce_delay.is_some());
    if is_root || grows { Next::Delay } else { Next::NoDelay }
}

/// Returns the words for the cause of a wait.
fn after(failures: u32) -> String {
    match failures {
        0 => "before its restart".to_owned(),
        _ => format!("after failure {failures} in a row"),
    }
}

/// Returns the shortest and the longest time of a wait.
fn bounds(policy: &Policy, failures: u32) -> (Duration, Duration) {
    /// The most that rounding changes.
    const SLACK: Duration = Duration::from_nanos(2);
    let backoff = &policy.backoff;
    let base = if failures == 0 { policy.bounce_delay } else { backoff.base(failures) };
    let longest = policy.max_bounce_delay.filter(|_| failures == 0).unwrap_or(base);
    let least = base.mul_f64((1.0 - backoff.jitter).max(0.0));
    (least.saturating_sub(SLACK), longest.mul_f64(1.0 + backoff.jitter) + SLACK)
}
