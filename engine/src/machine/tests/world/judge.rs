//! Judges what stands when the machine has nothing more to do.

use super::{Arrow, Checked, World, ensure};
use crate::machine::{Need, Phase, Rest};

impl World {
    pub(super) fn check_idle(&mut self) -> Checked {
        ensure!(self.losses.is_empty(), "P3: {:?} were not told of a loss", self.losses);
        let mut timers = 0;
        for place in 0..self.seats.len() {
            self.check_worker(place)?;
            self.check_seat(place)?;
            timers += usize::from(self.due(place).is_some());
        }
        let armed = self.machine.armed();
        ensure!(armed == timers, "P10: {armed} timers are armed in place of {timers}");
        if self.is_killed {
            let is_over = self
                .seats
                .iter()
                .all(|seat| seat.worker.as_ref().is_none_or(|worker| worker.is_stuck));
            ensure!(is_over == self.is_finished, "P6: all ended, but never finished");
            return Ok(());
        }
        let is_at_rest = self.is_at_rest();
        let is_settled = self.machine.is_settled();
        ensure!(is_settled == is_at_rest, "P5: settled is {is_settled}, at rest is {is_at_rest}");
        if is_at_rest {
            self.tally.rests += 1;
            self.check_desired()?;
            self.check_wave()?;
        }
        Ok(())
    }

    fn check_worker(&self, place: usize) -> Checked {
        let Some(worker) = self.worker(place) else { return Ok(()) };
        ensure!(!worker.must_abort, "P6: {place} outlived its grace and was not aborted");
        ensure!(!worker.must_stick, "P6: {place} outlived both graces and was not named");
        let may_act = self.groups == 0 || self.is_killed;
        let is_due = worker.is_marked && !worker.is_told && !worker.is_overdue && may_act;
        let is_due = is_due && !worker.has_ended;
        let rule = if self.is_killed { "P6" } else { "S2" };
        if is_due {
            let is_free = self.user_in_the_way(place).is_none();
            ensure!(!is_free, "{rule}: {place} was not told to stop");
        }
        Ok(())
    }

    fn check_seat(&self, place: usize) -> Checked {
        let seat = &self.seats[place];
        let Some(id) = seat.id else { return Ok(()) };
        ensure!(seat.removals == 0, "P7: the removal of {place} was not told");
        ensure!(seat.token.is_some() == self.due(place).is_some(), "P10: {place}'s timer is wrong");
        if self.is_killed {
            return Ok(());
        }
        let may_act = self.groups == 0;
        ensure!(!(may_act && self.can_start(place)), "P5: {place} was not started");
        ensure!(!(may_act && self.is_forgettable(place)), "P10: {place} was not forgotten");
        let (view, status) = (self.machine.view(id), self.statuses[place]);
        let is_shown = view.status == status || self.groups > 0;
        ensure!(is_shown, "S1: {place} shows {:?}, not {status:?}", view.status);
        let phase = match &seat.worker {
            None => Phase::Idle,
            Some(worker) if worker.has_ended => Phase::Lingering,
            Some(worker) if worker.is_running => Phase::Running,
            Some(_) => Phase::Starting,
        };
        let rule = if phase == Phase::Lingering { "S12" } else { "S1" };
        ensure!(view.phase == phase, "{rule}: {place} is {:?}, not {phase:?}", view.phase);
        let is_same = self.active(place).is_some() || view.rest == seat.rest;
        ensure!(is_same, "S10: {place} rests {:?}, not {:?}", view.rest, seat.rest);
        Ok(())
    }

    /// P5: who runs at rest is who should, found from nothing but the manifolds and how the last
    /// workers ended.
    fn check_desired(&self) -> Checked {
        let mut desired = vec![true; self.seats.len()];
        let mut is_done = false;
        while !is_done {
            is_done = true;
            for place in 0..self.seats.len() {
                let is_wanted = self.is_desired(place, &desired);
                is_done &= is_wanted == desired[place];
                desired[place] = is_wanted;
            }
        }
        for (place, desired) in desired.into_iter().enumerate() {
            let is_running = self.is_running(place);
            ensure!(desired == is_running, "P5: {place} runs is {is_running} at rest");
        }
        Ok(())
    }

    fn is_desired(&self, place: usize, desired: &[bool]) -> bool {
        let seat = &self.seats[place];
        let is_stuck = seat.worker.as_ref().is_some_and(|worker| worker.is_stuck);
        // A live input delays a start, and no more than that.
        let is_there = |arrow: &Arrow| match arrow.need {
            Need::Required | Need::Held => desired[arrow.to],
            Need::LiveRequired => desired[arrow.to] || self.is_running(place),
            Need::Optional | Need::Live | Need::Set => true,
        };
        let is_free = seat.worker.is_some() || seat.rest == Rest::Ready;
        let is_kept = is_free && !seat.is_parked && !is_stuck;
        is_kept && seat.arrows.as_ref().is_some_and(|arrows| arrows.iter().all(is_there))
    }
}
