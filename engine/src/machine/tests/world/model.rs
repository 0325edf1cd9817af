//! The naive model: recomputes from scratch what should be.

use std::time::Duration;

use super::{Arrow, Held, Seat, Worker, World};
use crate::machine::{Generation, Need, Rest, Status};

impl Worker {
    /// Whether it was started with this generation's output.
    pub(super) fn holds(&self, place: usize, generation: Generation) -> bool {
        !self.is_stuck
            && self.inputs.iter().any(|held| {
                let is_same = held.value.is_some_and(|(held, _)| held == generation);
                held.arrow.to == place && held.arrow.need.bounces() && is_same
            })
    }

    fn follows(&self, place: usize) -> bool {
        let follows = |held: &Held| held.arrow.to == place && !held.arrow.need.bounces();
        !self.is_stuck && self.inputs.iter().any(follows)
    }

    pub(super) fn uses_one_twice(&self) -> bool {
        let mut inputs: Vec<_> = self.inputs.iter().map(|held| held.arrow.to).collect();
        inputs.sort_unstable();
        inputs.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl Seat {
    pub(super) fn start(&mut self, generation: Generation, inputs: Vec<Held>) {
        self.starts += 1;
        self.generation = generation;
        self.worker = Some(Worker {
            generation,
            inputs,
            is_running: false,
            is_marked: false,
            is_root: false,
            is_swept: false,
            is_obsolete: false,
            is_told: false,
            is_overdue: false,
            must_abort: false,
            is_aborted: false,
            must_stick: false,
            is_stuck: false,
            has_ended: false,
            own_grace: None,
        });
    }
}

impl World {
    pub(super) fn is_up(&self, place: usize) -> bool {
        self.active(place).is_some_and(|worker| worker.is_running && !worker.is_marked)
    }

    pub(super) fn up_set(&self) -> Vec<bool> {
        (0..self.seats.len()).map(|place| self.is_up(place)).collect()
    }

    pub(in super::super) fn uses(
        &self,
        user: usize,
        place: usize,
        how: impl Fn(&Arrow) -> bool,
    ) -> bool {
        let arrows = self.seats[user].arrows.as_deref().unwrap_or_default();
        arrows.iter().any(|arrow| arrow.to == place && how(arrow))
    }

    /// Counts a cause for a name and all that it may reach.
    pub(super) fn cause(&mut self, place: usize) {
        let mut reached = vec![None; self.seats.len()];
        reached[place] = Some(true);
        for user in 0..self.seats.len() {
            if self.reaches(user, &mut reached) {
                self.seats[user].causes += 1;
            }
        }
    }

    fn reaches(&self, user: usize, reached: &mut [Option<bool>]) -> bool {
        if let Some(known) = reached[user] {
            return known;
        }
        // An old worker and its successor may use each other's inputs: no way round twice.
        reached[user] = Some(false);
        let arrows = self.seats[user].arrows.as_deref().unwrap_or_default();
        let old = self.worker(user).into_iter().flat_map(|worker| &worker.inputs);
        let mut all = arrows.iter().copied().chain(old.map(|held| held.arrow));
        let is_reached =
            all.any(|arrow| arrow.need != Need::Live && self.reaches(arrow.to, reached));
        reached[user] = Some(is_reached);
        is_reached
    }

    /// What follows from an event for all the others: marks, and ends of rests.
    pub(super) fn follow(&mut self, was_up: &[bool]) {
        self.mark_changes();
        self.spread_marks();
        for user in 0..self.seats.len() {
            let has_changed =
                |arrow: &Arrow| arrow.need.bounces() && was_up[arrow.to] != self.is_up(arrow.to);
            let arrows = self.seats[user].arrows.as_deref().unwrap_or_default();
            if self.active(user).is_none() && arrows.iter().any(has_changed) {
                self.end_soft_rest(user);
            }
        }
        for (place, _) in was_up.iter().enumerate().filter(|(_, was_up)| !**was_up) {
            if self.is_up(place) {
                self.come_up(place);
            }
        }
        self.statuses = self.compute_statuses();
    }

    /// An optional input that comes up is a cause to those that take it.
    fn come_up(&mut self, place: usize) {
        for user in 0..self.seats.len() {
            if self.uses(user, place, |arrow| arrow.need == Need::Optional) {
                self.cause(user);
            }
        }
    }

    /// Marks those whose inputs have a newer value, or have come.
    fn mark_changes(&mut self) {
        for place in 0..self.seats.len() {
            let is_outdated = self.active(place).is_some_and(|worker| {
                worker.is_running && !worker.is_marked && self.is_outdated(worker)
            });
            if is_outdated {
                self.mark_root(place);
            }
        }
        let ups = self.up_set();
        for place in 0..self.seats.len() {
            let has_come = |held: &Held| {
                held.arrow.need == Need::Optional && held.value.is_none() && ups[held.arrow.to]
            };
            let is_free = |worker: &&Worker| !worker.is_marked;
            let worker = self.active(place).filter(is_free);
            if worker.is_some_and(|worker| worker.inputs.iter().any(has_come)) {
                self.mark_root(place);
                self.wave.spoil();
            }
        }
    }

    /// Whether an input of a worker has another value than the one that it was started with.
    pub(super) fn is_outdated(&self, worker: &Worker) -> bool {
        worker.inputs.iter().any(|held| {
            let target = &self.seats[held.arrow.to];
            !held.arrow.need.follows()
                && held.value.is_some_and(|(generation, version)| {
                    generation == target.generation
                        && version != target.versions[held.arrow.port as usize]
                })
        })
    }

    /// Marks all workers that were started with the output of one that is gone or marked.
    pub(super) fn spread_marks(&mut self) {
        let mut is_done = false;
        while !is_done {
            is_done = true;
            for place in 0..self.seats.len() {
                let is_gone = |held: &Held| {
                    let is_there = self.is_up(held.arrow.to)
                        && held.value.is_some_and(|(generation, _)| {
                            generation == self.seats[held.arrow.to].generation
                        });
                    held.arrow.need.bounces() && held.value.is_some() && !is_there
                };
                let worker = self.active(place).filter(|worker| !worker.is_marked);
                if worker.is_some_and(|worker| worker.inputs.iter().any(is_gone)) {
                    self.seats[place].worker.as_mut().expect("it was found").is_marked = true;
                    is_done = false;
                }
            }
        }
    }

    fn compute_statuses(&self) -> Vec<Status> {
        let mut known = vec![None; self.seats.len()];
        (0..self.seats.len()).map(|place| self.status(place, &mut known)).collect()
    }

    /// Rule S1, by recursion.
    fn status(&self, place: usize, known: &mut [Option<Status>]) -> Status {
        if let Some(status) = known[place] {
            return status;
        }
        // Between the steps of a group there may be a cycle that its last step opens.
        known[place] = Some(Status::Down);
        let seat = &self.seats[place];
        let arrows = seat.arrows.as_deref().unwrap_or_default();
        let mut can_come = || {
            let mut gates = arrows.iter().filter(|arrow| arrow.need.gates());
            gates.all(|arrow| self.status(arrow.to, known) != Status::Down)
        };
        let is_coming = match &seat.worker {
            None => matches!(seat.rest, Rest::Ready | Rest::Delay) && can_come(),
            Some(worker) if worker.has_ended => {
                let is_ready = matches!(seat.rest, Rest::Ready | Rest::Delay);
                is_ready && !worker.is_stuck && can_come()
            }
            Some(worker) if worker.is_marked => !worker.is_stuck && can_come(),
            Some(worker) => !worker.is_overdue,
        };
        let status = match seat.arrows {
            None => Status::Down,
            Some(_) if seat.is_parked => Status::Down,
            Some(_) if self.is_up(place) => Status::Up,
            Some(_) if is_coming => Status::Coming,
            Some(_) => Status::Down,
        };
        known[place] = Some(status);
        status
    }

    /// Returns who has to end before a marked worker is told to stop.
    pub(super) fn user_in_the_way(&self, place: usize) -> Option<usize> {
        let worker = self.worker(place)?;
        (0..self.seats.len()).find(|user| {
            self.worker(*user).is_some_and(|other| {
                other.holds(place, worker.generation) || (worker.is_swept && other.follows(place))
            })
        })
    }

    pub(super) fn can_start(&self, place: usize) -> bool {
        let seat = &self.seats[place];
        let is_met = |arrow: &Arrow| match arrow.need {
            Need::Required | Need::LiveRequired | Need::Held => self.is_up(arrow.to),
            Need::Optional => self.statuses[arrow.to] != Status::Coming,
            Need::Live | Need::Set => true,
        };
        let is_free = seat.worker.is_none() && seat.rest == Rest::Ready && !seat.is_parked;
        is_free && seat.arrows.as_ref().is_some_and(|arrows| arrows.iter().all(is_met))
    }

    pub(super) fn is_forgettable(&self, place: usize) -> bool {
        let seat = &self.seats[place];
        let is_idle = seat.arrows.is_none() && seat.worker.is_none() && seat.removals == 0;
        is_idle
            && seat.pins == 0
            && seat.id.is_some()
            && (0..self.seats.len()).all(|user| {
                let is_held = |held: &Held| {
                    let is_live = !held.arrow.need.bounces();
                    held.arrow.to == place && (is_live || held.value.is_some())
                };
                let worker = self.worker(user).filter(|worker| !worker.is_stuck);
                let held = worker.is_some_and(|worker| worker.inputs.iter().any(is_held));
                !held && !self.uses(user, place, |_| true)
            })
    }

    /// Returns how long the timer runs that a name should have.
    pub(super) fn due(&self, place: usize) -> Option<Duration> {
        let (seat, policy) = (&self.seats[place], &self.policy);
        match &seat.worker {
            Some(worker) if worker.is_stuck => None,
            Some(worker) if worker.is_aborted || worker.is_overdue => Some(policy.abort_grace),
            Some(worker) if worker.has_ended => Some(worker.own_grace.unwrap_or(policy.grace)),
            Some(worker) if worker.is_told => Some(policy.grace),
            Some(worker) => (!worker.is_running).then_some(policy.start_timeout),
            None if matches!(seat.rest, Rest::Delay | Rest::Backoff) => Some(seat.wait.1),
            None => None,
        }
    }

    /// Rests a name from now on for as long as the rules say.
    pub(super) fn rest_for(&mut self, place: usize, rest: Rest) {
        let (seat, policy) = (&mut self.seats[place], &self.policy);
        let wait = match rest {
            Rest::Delay => policy.bounce_delay,
            _ => (1..seat.failures.min(64)).fold(policy.backoff.initial, |wait, _| {
                wait.mul_f64(policy.backoff.factor).min(policy.backoff.max)
            }),
        };
        (seat.rest, seat.wait) = (rest, (self.now, wait));
    }

    /// Whether nothing will happen without a further cause, failures that wait aside.
    pub(in super::super) fn is_at_rest(&self) -> bool {
        let is_still = |seat: &Seat| match &seat.worker {
            Some(worker) if worker.has_ended => worker.is_stuck,
            Some(worker) => worker.is_stuck || (worker.is_running && !worker.is_marked),
            None => seat.rest != Rest::Delay || seat.is_parked || seat.arrows.is_none(),
        };
        self.groups == 0 && self.seats.iter().all(is_still)
    }
}
