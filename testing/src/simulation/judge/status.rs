//! The status that each path shows its users, and the starts that follow from it (S1, S2, S6).

use super::known::{Known, Status};
use super::next::Next;
use super::seat::{Need, Phase};
use super::{Judge, Judged, ensure};

impl Judge {
    /// Judges whether a start comes at its time.
    pub(super) fn judge_start(&mut self, index: usize) -> Judged {
        let seat = &self.seats[index];
        self.judge_wait_is_over(seat)?;
        if !seat.declared.iter().flatten().any(|(_, need)| need.is_optional()) {
            return Ok(());
        }
        self.with_known(|judge, known| {
            let seat = &judge.seats[index];
            let optional = |(_, need): &&(usize, Need)| need.is_optional();
            for (input, _) in seat.declared.iter().flatten().filter(optional) {
                ensure!(
                    judge.status(*input, known) != Status::Coming,
                    "S6: {} is started while its optional input {} is coming",
                    seat.path,
                    judge.seats[*input].path
                );
            }
            Ok(())
        })
    }

    /// Judges with no status known yet.
    fn with_known(&mut self, judge: impl FnOnce(&Self, &mut Known) -> Judged) -> Judged {
        let mut known = std::mem::take(&mut self.known);
        known.clear();
        known.resize(self.seats.len(), None);
        let judged = judge(self, &mut known);
        self.known = known;
        judged
    }

    /// Judges, at the end of a moment, whether every path that nothing held was started.
    pub(super) fn judge_starts(&mut self) -> Judged {
        while let Some(index) = self.due.pop() {
            self.judge_next(index)?;
        }
        let seats = &mut self.seats;
        self.idle.retain(|index| {
            let seat = &mut seats[*index];
            seat.is_listed = seat.phase == Phase::Idle && seat.is_installed;
            seat.is_listed
        });
        self.with_known(|judge, known| {
            judge.idle.iter().try_for_each(|index| judge.judge_idle(*index, known))
        })
    }

    /// Judges whether an idle path may be idle.
    fn judge_idle(&self, index: usize, known: &mut Known) -> Judged {
        let seat = &self.seats[index];
        let is_gone = !seat.lingers && !seat.is_stuck;
        if !is_gone || !seat.rest.is_over(self.at) || seat.is_parked || self.is_killed(index) {
            return Ok(());
        }
        let Some(declared) = &seat.declared else { return Ok(()) };
        let mut is_there = |(input, need): &(usize, Need)| match self.status(*input, known) {
            Status::Up => true,
            Status::Down => !need.gates,
            Status::Coming | Status::Unknown => !need.gates && !need.bounces,
        };
        ensure!(
            !declared.iter().all(&mut is_there),
            "S2: {} is not started at once though nothing holds it",
            seat.path
        );
        Ok(())
    }

    /// Returns the status that a path shows its users.
    fn status(&self, index: usize, known: &mut Known) -> Status {
        if let Some(status) = known[index] {
            return status;
        }
        let status = self.find_status(index, known);
        known[index] = Some(status);
        status
    }

    fn find_status(&self, index: usize, known: &mut Known) -> Status {
        let seat = &self.seats[index];
        if !seat.is_installed || seat.is_parked {
            return Status::Down;
        }
        if seat.is_vague || self.is_killed(index) {
            return Status::Unknown;
        }
        if seat.shows_up() {
            return Status::Up;
        }
        match seat.phase {
            Phase::Starting if !seat.is_marked() && seat.is_aborted => Status::Down,
            Phase::Starting if !seat.is_marked() => Status::Coming,
            _ if seat.is_stuck => Status::Down,
            Phase::Idle if seat.next != Next::Whatever => Status::Unknown,
            Phase::Idle => match seat.rest.is_coming(self.at, self.jumped_to) {
                Some(true) => self.status_by_inputs(index, known),
                Some(false) => Status::Down,
                None => Status::Unknown,
            },
            Phase::Starting | Phase::Running => self.status_by_inputs(index, known),
        }
    }

    /// Returns the status of a path that waits for nothing but its inputs.
    fn status_by_inputs(&self, index: usize, known: &mut Known) -> Status {
        let Some(declared) = &self.seats[index].declared else { return Status::Unknown };
        let gating = declared.iter().filter(|(_, need)| need.gates);
        let mut status = Status::Coming;
        for (input, _) in gating {
            match self.status(*input, known) {
                Status::Down => return Status::Down,
                Status::Unknown => status = Status::Unknown,
                Status::Up | Status::Coming => {}
            }
        }
        status
    }
}
