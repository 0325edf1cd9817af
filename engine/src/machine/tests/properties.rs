//! The promises over random graphs and schedules.

use std::fmt::Write;

use super::schedule::{Life, Schedule};
use super::world::{Event, Tally, policy, strict_policy};

const STEPS: u64 = 4_000_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Runs worlds until they have taken enough steps, or the one whose seed is asked for.
fn hold(name: &str, life: &Life) {
    if let Some(seed) = number("CRANKCASE_SEED") {
        let result = Schedule::new(life, seed).run();
        return report(life, seed, result.err());
    }
    let wanted = number("CRANKCASE_STEPS").unwrap_or(STEPS);
    let (mut steps, mut seed, mut tally) = (0, 0, Tally::default());
    while steps < wanted {
        let mut schedule = Schedule::new(life, seed);
        let result = schedule.run();
        steps += schedule.world.steps;
        tally.add(schedule.world.tally);
        report(life, seed, result.err());
        seed += 1;
    }
    println!("{name}: {seed} worlds, {steps} steps, {tally:?}");
    assert!(tally.has_all() || wanted < STEPS, "the schedules do not reach everything: {tally:?}");
}

/// Lives the failed life again, and tells how it ended.
fn report(life: &Life, seed: u64, failure: Option<String>) {
    let Some(failure) = failure else { return };
    let mut schedule = Schedule::new(life, seed);
    schedule.world.trace = Some(Vec::new());
    let mut text = String::new();
    if schedule.run().is_ok() {
        text.push_str("P11: the same seed leads elsewhere\n");
    }
    let trace = schedule.world.trace.take().unwrap_or_default();
    for entry in trace.iter().skip(trace.len().saturating_sub(60)) {
        writeln!(text, "  {}", entry.line()).expect("a string takes all");
    }
    panic!("{failure}\nreplay with CRANKCASE_SEED={seed}; it ended with\n{text}");
}

fn life() -> Life {
    Life { seats: 1..=12, events: 600, control: 12, trouble: 15, policy: policy() }
}

#[test]
fn every_promise_holds_in_small_worlds() {
    hold("small", &life());
}

#[test]
fn every_promise_holds_in_large_worlds() {
    hold("large", &Life { seats: 20..=60, events: 2_000, ..life() });
}

#[test]
fn every_promise_holds_while_the_graph_is_rewired() {
    hold("rewired", &Life { seats: 2..=8, control: 40, trouble: 10, ..life() });
}

#[test]
fn every_promise_holds_among_failures_with_an_intensity() {
    hold("failing", &Life { control: 4, trouble: 45, policy: strict_policy(), ..life() });
}

#[test]
fn every_promise_holds_in_waves_from_rest() {
    hold("calm", &Life { seats: 2..=20, control: 10, trouble: 2, ..life() });
}

#[test]
fn p11_the_same_seed_and_events_give_the_same_trace() {
    for seed in 0..50 {
        let digest = |_| {
            let mut schedule = Schedule::new(&life(), seed);
            schedule.run().map(|()| (schedule.world.digest, schedule.world.steps))
        };
        let digests: Vec<_> = (0..2).map(digest).collect();
        assert_eq!(digests[0], digests[1], "P11: seed {seed}");
    }
}

#[test]
fn p11_another_seed_gives_another_order_among_independent_workers() {
    let orders: std::collections::BTreeSet<_> = (0..20)
        .map(|seed| {
            let mut world = super::world::World::new(5, policy(), seed);
            let mut events = vec![Event::BeginGroup];
            events.extend((0..5).map(|place| Event::Install(place, [].into())));
            events.push(Event::EndGroup);
            world.apply_all(&events).expect("five installs break nothing");
            world.digest
        })
        .collect();
    assert!(orders.len() > 10, "P11: only {} orders", orders.len());
}
