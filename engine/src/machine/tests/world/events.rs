//! What each event does to the record, by the rules, and how the machine is told of it.

use std::sync::Arc;
use std::time::Duration;

use super::{Arrow, Checked, Event, Worker, World};
use crate::machine::ends::Left;
use crate::machine::{EndKind, Machine, Port, Rest};

impl World {
    pub(super) fn happen(&mut self, event: &Event) -> Checked {
        self.now += Duration::from_secs(1);
        match event {
            Event::Started(place) => self.start_done(*place),
            Event::Ended(place, kind, ran) => {
                self.ended(*place, *kind, *ran, Left::Nothing);
                self.gone(*place);
            }
            Event::Lingers(place, kind, ran, grace) => {
                self.ended(*place, *kind, *ran, Left::Something { grace: *grace });
                self.tally.lingers += 1;
                self.linger(*place, *grace);
            }
            Event::Gone(place) => {
                let (id, generation) = (self.id(*place), self.seats[*place].generation);
                self.machine.gone(id, generation, self.now);
                self.gone(*place);
            }
            Event::Changed(place, port) => self.changed(*place, *port),
            Event::Fire(place) => self.fire(*place),
            Event::FireOld(place, token) => {
                let id = self.id(*place);
                self.machine.fired(id, *token);
            }
            Event::EndedOld(place) => self.end_of_old(*place),
            Event::Install(place, arrows) => self.install(*place, arrows),
            Event::Uninstall(place) => self.uninstall(*place),
            Event::Bounce(place) => self.bounce(*place),
            Event::Park(place) => self.park(*place),
            Event::Unpark(place) => self.unpark(*place),
            Event::Pin(place) => {
                let id = self.id(*place);
                self.seats[*place].pins += 1;
                self.machine.pin(id);
            }
            Event::Unpin(place) => {
                let id = self.id(*place);
                self.seats[*place].pins -= 1;
                self.machine.unpin(id);
            }
            Event::Check(changes) => self.check_cycle(changes)?,
            Event::BeginGroup => {
                self.groups += 1;
                self.machine.begin_group();
            }
            Event::EndGroup => {
                self.groups -= 1;
                self.machine.end_group();
            }
            Event::Kill => {
                self.machine.kill();
                self.killed();
            }
        }
        Ok(())
    }

    /// The worker's outputs are there, and as new as when it was started or newer.
    fn start_done(&mut self, place: usize) {
        let id = self.id(place);
        let worker = self.seats[place].worker.as_mut().expect("a start is under way");
        self.machine.started(id, worker.generation);
        if !worker.is_overdue {
            worker.is_running = true;
            if !worker.is_told {
                self.drop_timer(place);
            }
        }
    }

    fn changed(&mut self, place: usize, port: u32) {
        let id = self.id(place);
        let worker = self.seats[place].worker.as_ref().expect("a worker publishes");
        self.machine.changed(id, worker.generation, |changed| changed == Port(port));
        self.seats[place].versions[port as usize] += 1;
        self.wave.spoil();
        if self.is_killed {
            return;
        }
        for user in 0..self.seats.len() {
            if self.uses(user, place, |arrow| arrow.port == port && !arrow.need.follows()) {
                self.cause(user);
                self.end_soft_rest(user);
            }
        }
    }

    fn fire(&mut self, place: usize) {
        let id = self.id(place);
        let token = self.seats[place].token.expect("a timer is armed");
        self.drop_timer(place);
        self.machine.fired(id, token);
        let seat = &mut self.seats[place];
        let Some(worker) = &mut seat.worker else {
            if seat.rest == Rest::Backoff {
                self.wave.spoil();
            }
            seat.rest = Rest::Ready;
            return;
        };
        if worker.is_aborted {
            worker.must_stick = true;
            worker.is_stuck = true;
        } else if worker.has_ended {
            worker.is_aborted = true;
        } else {
            worker.must_abort = true;
            worker.is_overdue = !worker.is_told;
        }
        self.wave.spoil();
    }

    fn end_of_old(&mut self, place: usize) {
        let id = self.id(place);
        let old = self.seats[place].generation.wrapping_sub(1);
        self.machine.ended(id, old, self.end(EndKind::Failed, Duration::ZERO, Left::Nothing));
        self.machine.gone(id, old, self.now);
        self.machine.started(id, old);
        self.machine.changed(id, old, |_| true);
    }

    /// Rule S10, in its order.
    fn ended(&mut self, place: usize, kind: EndKind, ran: Duration, left: Left) {
        let id = self.id(place);
        let worker = self.worker(place).cloned().expect("a worker ends");
        let was_outdated = self.is_outdated(&worker);
        self.machine.ended(id, worker.generation, self.end(kind, ran, left));
        let ended = self.seats[place].worker.as_mut().expect("a worker ends");
        ended.has_ended = true;
        ended.is_running = false;
        ended.is_marked = false;
        self.seats[place].rest = Rest::Ready;
        if ran >= self.policy.backoff.reset_after {
            self.seats[place].failures = 0;
        }
        let is_asked = worker.is_told
            && !worker.is_stuck
            && matches!(kind, EndKind::Stopped | EndKind::Failed);
        if !is_asked {
            self.cause(place);
            self.wave.spoil();
        }
        if !worker.is_told {
            self.expect_losses(place, &worker);
        }
        if matches!(kind, EndKind::Fatal | EndKind::Dropped) {
            self.killed();
        } else if worker.is_obsolete {
            if self.seats[place].arrows.is_some() {
                self.delay_if_root(place, &worker);
            }
        } else if kind == EndKind::Uninstall {
            self.take_manifold(place);
        } else if worker.is_marked {
            self.delay_if_root(place, &worker);
        } else if worker.is_overdue || kind == EndKind::Failed {
            self.failed(place);
        } else {
            let seat = &mut self.seats[place];
            match kind {
                EndKind::Done => (seat.rest, seat.failures) = (Rest::Done, 0),
                EndKind::Missing => seat.rest = Rest::Missing,
                _ => self.rest_for(place, Rest::Delay),
            }
        }
        if was_outdated {
            self.end_soft_rest(place);
        }
    }

    /// What is left of a worker has its graces, and what remains of those it was given.
    fn linger(&mut self, place: usize, grace: Option<Duration>) {
        let worker = self.seats[place].worker.as_mut().expect("it has ended");
        worker.is_aborted |= worker.is_overdue;
        let has_timer = worker.is_stuck || worker.is_aborted || (worker.is_told && grace.is_none());
        worker.own_grace = grace;
        worker.is_told = true;
        if !has_timer {
            self.drop_timer(place);
        }
    }

    /// Nothing is left of a worker.
    fn gone(&mut self, place: usize) {
        self.drop_timer(place);
        let (now, is_killed) = (self.now, self.is_killed);
        let seat = &mut self.seats[place];
        let worker = seat.worker.take().expect("it has ended");
        if worker.is_obsolete && seat.arrows.is_none() {
            seat.removals += 1;
        }
        let (since, wait) = seat.wait;
        if matches!(seat.rest, Rest::Delay | Rest::Backoff) && (now > since || is_killed) {
            seat.wait.1 = wait.saturating_sub(now.saturating_sub(since));
            // Nothing starts after a kill, so nothing waits.
            if seat.wait.1.is_zero() || is_killed {
                seat.rest = Rest::Ready;
            }
        }
    }

    fn delay_if_root(&mut self, place: usize, worker: &Worker) {
        if worker.is_root && !self.seats[place].is_parked {
            self.rest_for(place, Rest::Delay);
        }
    }

    fn failed(&mut self, place: usize) {
        let (now, policy) = (self.now, Arc::clone(&self.policy));
        let seat = &mut self.seats[place];
        seat.failures += 1;
        seat.recent.push(now);
        let is_spent = match policy.intensity {
            Some(limit) => {
                seat.recent.retain(|at| now - *at < limit.within);
                seat.recent.len() > limit.failures as usize
            }
            None => {
                seat.recent.clear();
                false
            }
        };
        if is_spent {
            seat.rest = Rest::Spent;
        } else {
            self.rest_for(place, Rest::Backoff);
        }
    }

    fn expect_losses(&mut self, place: usize, dead: &Worker) {
        for (user, seat) in self.seats.iter().enumerate() {
            let may_be_told = |worker: &&Worker| !worker.is_stuck && !worker.has_ended;
            let Some(worker) = seat.worker.as_ref().filter(may_be_told) else {
                continue;
            };
            if dead.is_running && worker.holds(place, dead.generation) {
                self.losses.insert((user, worker.generation));
            }
        }
    }

    fn install(&mut self, place: usize, arrows: &Arc<[Arrow]>) {
        let id = self.id(place);
        let edges = self.edges(arrows);
        // What is lost by the replaced manifold is reached as well as what the new one reaches.
        self.cause(place);
        self.hurry(place);
        self.machine.install(id, &edges, None);
        self.give_up_manifold(place);
        let seat = &mut self.seats[place];
        seat.arrows = Some(Arc::clone(arrows));
        seat.failures = 0;
        seat.recent.clear();
        self.wave.spoil();
    }

    fn uninstall(&mut self, place: usize) {
        let id = self.id(place);
        self.cause(place);
        self.hurry(place);
        self.machine.uninstall(id);
        self.take_manifold(place);
        self.wave.spoil();
    }

    fn take_manifold(&mut self, place: usize) {
        self.give_up_manifold(place);
        let seat = &mut self.seats[place];
        seat.arrows = None;
        seat.is_parked = false;
        if seat.worker.is_none() {
            seat.removals += 1;
        }
    }

    fn give_up_manifold(&mut self, place: usize) {
        self.mark_root(place);
        let seat = &mut self.seats[place];
        if let Some(worker) = &mut seat.worker {
            worker.is_obsolete = true;
            if worker.has_ended {
                seat.rest = Rest::Ready;
            }
        } else {
            seat.rest = Rest::Ready;
            self.drop_timer(place);
        }
    }

    fn bounce(&mut self, place: usize) {
        let id = self.id(place);
        self.expect_wave(place, Machine::bounce);
        self.cause(place);
        self.hurry(place);
        self.machine.bounce(id);
        self.mark_root(place);
        self.end_soft_rest(place);
    }

    fn park(&mut self, place: usize) {
        let id = self.id(place);
        self.expect_wave(place, Machine::park);
        self.cause(place);
        self.hurry(place);
        self.machine.park(id);
        self.mark_root(place);
        self.seats[place].is_parked = true;
    }

    fn unpark(&mut self, place: usize) {
        let id = self.id(place);
        self.cause(place);
        self.hurry(place);
        self.machine.unpark(id);
        self.seats[place].is_parked = false;
        self.end_soft_rest(place);
        self.wave.spoil();
    }

    fn killed(&mut self) {
        self.wave.spoil();
        if self.is_killed {
            return;
        }
        self.is_killed = true;
        // What a wave had reached before goes on as that wave.
        self.spread_marks();
        let workers = self.seats.iter_mut().filter_map(|seat| seat.worker.as_mut());
        for worker in workers.filter(|worker| !worker.has_ended) {
            worker.is_swept = !worker.is_marked;
            worker.is_marked = true;
        }
    }

    pub(super) fn mark_root(&mut self, place: usize) {
        let is_free = |worker: &&mut Worker| !worker.is_marked && !worker.has_ended;
        let marked = self.seats[place].worker.as_mut().filter(is_free);
        if let Some(worker) = marked {
            worker.is_marked = true;
            worker.is_root = true;
        }
    }

    pub(super) fn end_soft_rest(&mut self, place: usize) {
        let rest = self.seats[place].rest;
        if matches!(rest, Rest::Backoff | Rest::Missing | Rest::Done | Rest::Spent) {
            self.seats[place].rest = Rest::Ready;
            // The timer of what lingers is its grace.
            if self.seats[place].worker.is_none() {
                self.drop_timer(place);
            }
        }
    }

    pub(super) fn drop_timer(&mut self, place: usize) {
        let seat = &mut self.seats[place];
        seat.old_token = seat.token.take().or(seat.old_token);
    }
}
