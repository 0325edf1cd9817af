//! Random lives of random sites that are kept as declared.

use super::random::number;
use super::world::{Counts, World};
use crate::schedule::{Id, Reason};

/// How many steps there are, unless `CRANKCASE_SCHEDULE_STEPS` asks for more.
const STEPS: u64 = 200_000;

/// How many steps a life has.
const LIFE: u64 = 1_000;

impl World {
    fn any(&mut self) -> Option<Id> {
        let count = self.site().ids.len();
        (count > 0).then(|| self.random.below(count)).map(|place| self.site().ids[place])
    }

    /// Makes one thing happen.
    fn step(&mut self) {
        self.counts.steps += 1;
        let event = self.random.below(1_000);
        let Some(id) = self.any() else { return self.swap() };
        match event {
            0..2 => self.crash(),
            2..4 => self.stop(),
            4..12 => self.swap(),
            12..24 => self.outbreak(),
            24..60 => self.together(Self::go_on),
            60..600 => self.go_on(id),
            600..680 => self.drift(id),
            680..760 if self.truths[&id].is_unreported => self.watch_reports(id),
            680..780 => self.request(id, Reason::Routine),
            780..800 => self.request(id, Reason::Change),
            800..830 => {
                let truth = self.truth(id);
                truth.look_fails = !truth.look_fails && truth.has_drifted;
            }
            830..860 => self.truth(id).action_fails ^= true,
            860..870 => self.rule_notifies(),
            870..880 => self.lost_visit_speaks(),
            880..900 if self.model.facts[&id].has_worker => self.detach(id),
            _ if !self.model.facts[&id].has_worker => self.attach(id),
            _ => self.go_on(id),
        }
    }

    /// Makes all resources drift and ask at once.
    fn outbreak(&mut self) {
        self.together(Self::drift);
        self.take_commands();
        self.together(Self::go_on);
    }

    /// Lets nothing bad happen any more. Then everything has to be as declared.
    fn rest(&mut self) {
        self.counts.rests += 1;
        for id in self.site().ids.clone() {
            if !self.model.facts[&id].has_worker {
                self.attach(id);
            }
            let truth = self.truth(id);
            (truth.look_fails, truth.action_fails) = (false, false);
            if truth.is_unreported {
                self.watch_reports(id);
            }
        }
        for _ in 0..10_000 {
            self.take_commands();
            let ids = || self.site().ids.iter().copied();
            if let Some(id) = ids().find(|id| self.can_go_on(*id)) {
                self.go_on(id);
            } else if let Some(id) = ids().find(|id| {
                let fact = &self.model.facts[id];
                fact.has_failed || fact.is_holding || self.truths[id].is_kept_as_before
            }) {
                // It is visited again after a while.
                self.request(id, Reason::Routine);
            } else {
                return self.judge_rest();
            }
        }
        panic!("I5: resources request visits of each other for ever");
    }

    fn live(seed: u64) -> Counts {
        let mut world = Self::new(seed);
        for step in 1..=LIFE {
            world.step();
            if step % 250 == 0 {
                world.rest();
            }
        }
        world.counts.excused = world.model.excused;
        world.counts
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.visits += other.visits;
        self.acts += other.acts;
        self.again += other.again;
        self.held_back += other.held_back;
        self.shared += other.shared;
        self.split += other.split;
        self.delivered += other.delivered;
        self.crashes += other.crashes;
        self.swaps += other.swaps;
        self.stops += other.stops;
        self.excused += other.excused;
        self.kept_as_before += other.kept_as_before;
        self.rests += other.rests;
    }

    /// Returns whether each rare thing has happened.
    fn has_all(&self) -> bool {
        let rare = [
            self.again,
            self.held_back,
            self.shared,
            self.crashes,
            self.stops,
            self.excused,
            self.kept_as_before,
        ];
        rare.iter().all(|count| *count > 50) && self.split > 5 && self.delivered > 1_000
    }
}

#[test]
fn every_invariant_holds_while_random_sites_are_kept() {
    if let Some(seed) = number("CRANKCASE_SEED") {
        println!("{:?}", World::live(seed));
        return;
    }
    let wanted = number("CRANKCASE_SCHEDULE_STEPS").unwrap_or(STEPS);
    let mut counts = Counts::default();
    for seed in 0..wanted.div_ceil(LIFE) {
        counts.add(&World::live(seed));
    }
    println!("{counts:?}");
    assert!(counts.has_all() || wanted < STEPS, "the lives do not reach everything: {counts:?}");
}
