//! Random worlds under random schedules. A failure prints its seed and its last events;
//! `CRANKCASE_SEED` replays it, `CRANKCASE_STEPS` sets how many steps each test takes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::world::{Arrow, Event, PORTS, Worker, World};
use crate::machine::{EndKind, Need, Rest, Scope};
use crate::vocabulary::policy::Policy;

/// The grace of what is left of a worker that has one of its own.
const OWN_GRACE: Duration = Duration::from_millis(7_004);

/// What kind of life a test's worlds lead.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) seats: std::ops::RangeInclusive<usize>,
    pub(super) events: usize,
    /// Of a hundred events, how many are control calls.
    pub(super) control: u32,
    /// Of a hundred things that workers do, how many are none that the engine likes.
    pub(super) trouble: u32,
    pub(super) policy: Policy,
}

/// One world's life.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    pub(super) world: World,
    pub(super) random: SmallRng,
    life: Life,
    /// Events that were decided on together.
    queue: VecDeque<Event>,
}

impl Schedule {
    pub(super) fn new(life: &Life, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let seats = random.random_range(life.seats.clone());
        let mut world = World::new(seats, life.policy.clone(), seed);
        world.has_callers = random.random_bool(0.5);
        Self { world, random, life: life.clone(), queue: VecDeque::new() }
    }

    /// Lives the whole life: installs, storms and calms by turns, and a kill at the end.
    pub(super) fn run(&mut self) -> Result<(), String> {
        self.live_for(self.life.events)?;
        self.shut_down()
    }

    /// Lives for so many events, storms and calms by turns.
    pub(super) fn live_for(&mut self, events: usize) -> Result<(), String> {
        self.plan_installs();
        let mut left = events;
        while left > 0 && !self.world.is_finished {
            let storm = self.random.random_range(1..=60).min(left);
            left -= storm;
            self.storm(storm)?;
            if self.random.random_bool(0.6) {
                self.calm()?;
                self.wave()?;
            }
        }
        Ok(())
    }

    /// Lives for so many events without a calm.
    pub(super) fn storm(&mut self, events: usize) -> Result<(), String> {
        for _ in 0..events {
            let event = self.any_event();
            self.apply(event)?;
        }
        Ok(())
    }

    fn apply(&mut self, event: Option<Event>) -> Result<(), String> {
        let Some(event) = event else { return Ok(()) };
        match self.random.random_range(0..8) {
            // The next event comes before the machine has done all.
            0 => self.world.apply_to(Scope::Marks, &event),
            1 => self.world.apply_to(Scope::Calls, &event),
            _ => self.world.apply(&event),
        }
    }

    /// Lets happen what must, and nothing else, until the world is at rest.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        self.end_groups()?;
        if self.world.is_killed {
            return Ok(());
        }
        for _ in 0..10_000 {
            let places = self.world.seats.len();
            let first = self.random.random_range(0..places);
            let mut next = (first..places).chain(0..first);
            let Some(event) = next.find_map(|place| self.world.next_due(place)) else {
                return Ok(());
            };
            self.world.apply(&event)?;
        }
        Err("P5: the world never comes to rest".to_owned())
    }

    /// Does what was decided on together, and ends open groups.
    pub(super) fn end_groups(&mut self) -> Result<(), String> {
        while let Some(event) = self.queue.pop_front() {
            self.world.apply(&event)?;
        }
        while self.world.groups > 0 && !self.world.is_killed {
            self.world.apply(&Event::EndGroup)?;
        }
        self.world.settle()
    }

    /// Bounces one worker at rest, and nothing else.
    fn wave(&mut self) -> Result<(), String> {
        let place = self.random.random_range(0..self.world.seats.len());
        if self.world.is_killed || !self.world.is_running(place) {
            return Ok(());
        }
        self.world.apply(&Event::Bounce(place))?;
        self.calm()
    }

    fn shut_down(&mut self) -> Result<(), String> {
        if !self.world.is_killed {
            self.world.apply(&Event::Kill)?;
        }
        for _ in 0..100_000 {
            if self.world.is_finished {
                return Ok(());
            }
            let place = self.random.random_range(0..self.world.seats.len());
            let event = self.worker_event(place);
            self.apply(event)?;
        }
        Err("P6: the kill never ends".to_owned())
    }

    fn any_event(&mut self) -> Option<Event> {
        if let Some(event) = self.queue.pop_front() {
            return Some(event);
        }
        let place = self.random.random_range(0..self.world.seats.len());
        if !self.world.is_killed && self.random.random_range(0..100) < self.life.control {
            return self.control_event(place);
        }
        self.worker_event(place)
    }

    fn is_trouble(&mut self) -> bool {
        self.random.random_range(0..100) < self.life.trouble
    }

    /// Something that a worker or a timer of one name does.
    fn worker_event(&mut self, place: usize) -> Option<Event> {
        let is_trouble = self.is_trouble();
        let is_late = is_trouble && self.random.random_bool(0.1);
        let seat = &self.world.seats[place];
        if is_late && let Some(token) = seat.old_token.filter(|old| seat.token != Some(*old)) {
            return seat.id.map(|_| Event::FireOld(place, token));
        }
        let Some(worker) = &seat.worker else {
            let can_fire = seat.token.is_some();
            return can_fire.then_some(Event::Fire(place));
        };
        if is_trouble {
            let worker = worker.clone();
            return Some(self.trouble(place, &worker));
        }
        if worker.has_ended {
            return Some(Event::Gone(place));
        }
        if worker.is_told || worker.is_overdue || worker.is_stuck {
            return Some(Event::Ended(place, EndKind::Stopped, Duration::ZERO));
        }
        (!worker.is_running).then_some(Event::Started(place))
    }

    fn trouble(&mut self, place: usize, worker: &Worker) -> Event {
        let port = self.random.random_range(0..PORTS);
        if worker.has_ended {
            let can_fire = self.world.seats[place].token.is_some() && self.random.random_bool(0.7);
            return if can_fire { Event::Fire(place) } else { Event::Gone(place) };
        }
        match self.random.random_range(0..12) {
            0..2 if self.world.seats[place].token.is_some() => Event::Fire(place),
            2..4 if worker.is_running => Event::Changed(place, port),
            4 if !worker.is_running && !worker.is_stuck => Event::Started(place),
            5 if worker.generation > 1 => Event::EndedOld(place),
            6..8 => {
                let ran = u64::from(worker.is_running) * self.random.random_range(0..90);
                let grace = self.random.random_bool(0.3).then_some(OWN_GRACE);
                Event::Lingers(place, self.end_kind(), Duration::from_secs(ran), grace)
            }
            _ => {
                let ran = u64::from(worker.is_running) * self.random.random_range(0..90);
                Event::Ended(place, self.end_kind(), Duration::from_secs(ran))
            }
        }
    }

    fn end_kind(&mut self) -> EndKind {
        match self.random.random_range(0..200) {
            0 => EndKind::Fatal,
            1 => EndKind::Dropped,
            2..12 => EndKind::Uninstall,
            12..40 => EndKind::Done,
            40..70 => EndKind::Missing,
            70..100 => EndKind::Bounce,
            100..110 => EndKind::Stopped,
            _ => EndKind::Failed,
        }
    }

    fn control_event(&mut self, place: usize) -> Option<Event> {
        let is_known = self.world.seats[place].id.is_some();
        let is_installed = self.world.seats[place].arrows.is_some();
        match self.random.random_range(0..100) {
            0..30 if is_installed => Some(Event::Bounce(place)),
            30..38 if is_installed => Some(Event::Park(place)),
            38..50 if is_known => Some(Event::Unpark(place)),
            50..58 if is_installed => Some(Event::Uninstall(place)),
            58..60 => Some(Event::Pin(place)),
            60..63 if self.world.seats[place].pins > 0 => Some(Event::Unpin(place)),
            _ if self.world.groups > 0 && self.random.random_bool(0.3) => Some(Event::EndGroup),
            63..66 => Some(Event::BeginGroup),
            66..74 => {
                self.plan_group();
                None
            }
            74..100 => {
                self.plan_install(place);
                None
            }
            _ => None,
        }
    }

    /// Mostly towards names that were there before, so that most changes make no cycle.
    pub(super) fn any_arrows(&mut self, place: usize) -> Arc<[Arrow]> {
        let count = self.random.random_range(0..=3);
        let seats = self.world.seats.len();
        let mut arrows = Vec::with_capacity(count);
        for _ in 0..count {
            let is_wild = place == 0 || self.random.random_range(0..100) < 8;
            let to = self.random.random_range(0..if is_wild { seats } else { place });
            if place == 0 && self.random.random_bool(0.9) {
                continue;
            }
            let need = match self.random.random_range(0..11) {
                0..5 => Need::Required,
                5..8 => Need::Optional,
                8 => Need::Live,
                9 => Need::LiveRequired,
                _ => Need::Held,
            };
            arrows.push(Arrow { to, need, port: self.random.random_range(0..PORTS) });
        }
        arrows.into()
    }

    fn plan_installs(&mut self) {
        for place in 0..self.world.seats.len() {
            self.plan_install(place);
        }
    }

    fn plan_install(&mut self, place: usize) {
        let arrows = self.any_arrows(place);
        self.plan_checked(&[(place, arrows)]);
    }

    fn plan_group(&mut self) {
        let mut changes: Vec<(usize, Arc<[Arrow]>)> = Vec::new();
        for _ in 0..self.random.random_range(1..=4) {
            let place = self.random.random_range(0..self.world.seats.len());
            if changes.iter().all(|(other, _)| *other != place) {
                let arrows = self.any_arrows(place);
                changes.push((place, arrows));
            }
        }
        self.plan_checked(&changes);
    }

    /// Refuses what would make a cycle, as the driver does.
    fn plan_checked(&mut self, changes: &[(usize, Arc<[Arrow]>)]) {
        self.queue.push_back(Event::Check(changes.into()));
        // What stands in the queue before it changes the graph first.
        if self.world.is_cyclic_with(&self.queue, changes) {
            return;
        }
        let is_group = changes.len() > 1;
        if is_group {
            self.queue.push_back(Event::BeginGroup);
        }
        for (place, arrows) in changes {
            self.queue.push_back(Event::Install(*place, Arc::clone(arrows)));
        }
        if is_group {
            self.queue.push_back(Event::EndGroup);
        }
    }
}

impl World {
    /// Returns what will happen to a name without a further cause.
    pub(super) fn next_due(&self, place: usize) -> Option<Event> {
        let seat = &self.seats[place];
        match &seat.worker {
            None => (seat.rest == Rest::Delay).then_some(Event::Fire(place)),
            Some(worker) if worker.is_stuck => None,
            Some(worker) if worker.has_ended => Some(Event::Gone(place)),
            Some(worker) if worker.is_told || worker.is_overdue => {
                Some(Event::Ended(place, EndKind::Stopped, Duration::ZERO))
            }
            Some(worker) => (!worker.is_running).then_some(Event::Started(place)),
        }
    }
}
