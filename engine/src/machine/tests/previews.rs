//! What a trial says is what happens: over random graphs, with groups, from rest and among what is
//! under way.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::RngExt;

use super::schedule::{Life, Schedule};
use super::world::{Arrow, Checked, Entry, Event, Seat, World, ensure, policy};
use crate::machine::{Command, Machine, NodeId, Rest};

/// How many worlds are looked at, unless `CRANKCASE_STEPS` asks for more.
const WORLDS: u64 = 1_500;

/// What is done to a name.
enum Op {
    Install(Arc<[Arrow]>),
    Uninstall,
    Bounce,
    Park,
    Unpark,
}

#[test]
fn p7_a_preview_tells_what_a_group_does() {
    let life = Life { seats: 2..=10, events: 120, control: 20, trouble: 12, policy: policy() };
    let (mut stopped, mut seed) = (0, 0);
    while seed < WORLDS {
        stopped +=
            preview_of(&life, seed).unwrap_or_else(|failure| panic!("{failure}\nseed {seed}"));
        seed += 1;
    }
    assert!(stopped > 1_000, "only {stopped} workers were stopped in all");
}

/// Compares the preview of a group with what it does in one world; returns how many it stops.
fn preview_of(life: &Life, seed: u64) -> Result<usize, String> {
    let mut schedule = Schedule::new(life, seed);
    schedule.live_for(life.events)?;
    if schedule.world.is_killed {
        return Ok(0);
    }
    schedule.calm()?;
    let group = any_group(&mut schedule);
    let world = &mut schedule.world;
    let told = preview(world, &group);
    let places = world.places.clone();
    world.trace = Some(Vec::new());
    apply(world, &group)?;
    schedule.calm()?;
    let world = &mut schedule.world;
    let (bounced, stopped) = what_happened(world, &places);
    ensure!(told.0 == bounced, "P7: bounced are {bounced:?}, the preview says {:?}", told.0);
    ensure!(told.1 == stopped, "P7: stopped are {stopped:?}, the preview says {:?}", told.1);
    Ok(bounced.len() + stopped.len())
}

#[test]
fn p7_a_preview_tells_what_a_group_does_besides_what_is_under_way() {
    let life = Life { seats: 2..=10, events: 60, control: 20, trouble: 20, policy: policy() };
    let mut stopped = 0;
    for seed in 0..4 * WORLDS {
        stopped += preview_amid_others(&life, seed)
            .unwrap_or_else(|failure| panic!("{failure}\nseed {seed}"));
    }
    assert!(stopped > 1_000, "only {stopped} workers were stopped in all");
}

/// Compares the preview of a group with what it does in one world, in which starts, stops, delays and
/// lingering workers are under way; returns how many it stops.
fn preview_amid_others(life: &Life, seed: u64) -> Result<usize, String> {
    let mut schedule = Schedule::new(life, seed);
    schedule.live_for(life.events)?;
    schedule.storm(30)?;
    schedule.end_groups()?;
    // Whether a backoff is over when nothing is left of its worker is a matter of time.
    let is_timed = |seat: &Seat| seat.rest == Rest::Backoff && seat.worker.is_some();
    if schedule.world.is_killed || schedule.world.seats.iter().any(is_timed) {
        return Ok(0);
    }
    let group = any_group(&mut schedule);
    let told = preview(&mut schedule.world, &group);
    let places = schedule.world.places.clone();
    schedule.world.trace = Some(Vec::new());
    let mut without = schedule.clone();
    without.calm()?;
    let anyway = what_happened(&without.world, &places);
    let before = schedule.world.seats.clone();
    apply(&mut schedule.world, &group)?;
    let seats = schedule.world.seats.iter().zip(before);
    let is_reached: Vec<_> = seats.map(|(seat, before)| seat.causes > before.causes).collect();
    schedule.calm()?;
    let happened = what_happened(&schedule.world, &places);
    let all = |told: &Told| &told.0 | &told.1;
    let is_true = told.0.is_subset(&happened.0)
        && told.1.is_subset(&happened.1)
        && all(&told).into_iter().all(|place| is_reached[place]);
    ensure!(is_true, "P7: {happened:?} happens, {anyway:?} anyway, and the preview says {told:?}");
    let is_whole = (&happened.0 - &all(&anyway)).is_subset(&told.0)
        && (&happened.1 - &anyway.1).is_subset(&told.1);
    ensure!(
        is_whole,
        "P7: {happened:?} happens, {anyway:?} anyway, the preview says only {told:?}"
    );
    Ok(all(&told).len())
}

fn any_group(schedule: &mut Schedule) -> Vec<(usize, Op)> {
    let mut group: Vec<(usize, Op)> = Vec::new();
    for _ in 0..schedule.random.random_range(1..=4) {
        let place = schedule.random.random_range(0..schedule.world.seats.len());
        if group.iter().any(|(other, _)| *other == place) {
            continue;
        }
        let is_installed = schedule.world.seats[place].arrows.is_some();
        let op = match schedule.random.random_range(0..5) {
            0 if is_installed => Op::Uninstall,
            1 if is_installed => Op::Bounce,
            2 if is_installed => Op::Park,
            3 if is_installed => Op::Unpark,
            _ => Op::Install(schedule.any_arrows(place)),
        };
        group.push((place, op));
    }
    let changes: Vec<_> = group
        .iter()
        .filter_map(|(place, op)| match op {
            Op::Install(arrows) => Some((*place, Arc::clone(arrows))),
            Op::Uninstall => Some((*place, [].into())),
            _ => None,
        })
        .collect();
    if schedule.world.is_cyclic_with(&[].into(), &changes) {
        group.retain(|(_, op)| !matches!(op, Op::Install(_)));
    }
    group
}

type Told = (BTreeSet<usize>, BTreeSet<usize>);

fn preview(world: &mut World, group: &[(usize, Op)]) -> Told {
    let group: Vec<_> = group
        .iter()
        .map(|(place, op)| {
            let edges = if let Op::Install(arrows) = op { world.edges(arrows) } else { Vec::new() };
            (world.id(*place), op, edges)
        })
        .collect();
    let trial = world.machine.try_out(|machine: &mut Machine| {
        machine.begin_group();
        for (id, op, edges) in &group {
            match op {
                Op::Install(_) => machine.install(*id, edges, None),
                Op::Uninstall => machine.uninstall(*id),
                Op::Bounce => machine.bounce(*id),
                Op::Park => machine.park(*id),
                Op::Unpark => machine.unpark(*id),
            }
        }
        machine.end_group();
    });
    let places = |ids: &BTreeSet<NodeId>| ids.iter().map(|id| world.places[id.index()]).collect();
    (places(&trial.bounced), places(&trial.stopped))
}

fn apply(world: &mut World, group: &[(usize, Op)]) -> Checked {
    world.apply(&Event::BeginGroup)?;
    for (place, op) in group {
        world.apply(&match op {
            Op::Install(arrows) => Event::Install(*place, Arc::clone(arrows)),
            Op::Uninstall => Event::Uninstall(*place),
            Op::Bounce => Event::Bounce(*place),
            Op::Park => Event::Park(*place),
            Op::Unpark => Event::Unpark(*place),
        })?;
    }
    world.apply(&Event::EndGroup)
}

/// Returns who was stopped and started again, and who was only stopped.
fn what_happened(world: &World, places: &[usize]) -> Told {
    let (mut bounced, mut stopped, mut fresh) =
        <(BTreeSet<_>, BTreeSet<_>, BTreeSet<_>)>::default();
    for entry in world.trace.as_deref().unwrap_or_default() {
        match entry {
            Entry::Command(Command::Stop(id, _))
                if !fresh.contains(id) && !bounced.contains(id) =>
            {
                stopped.insert(*id);
            }
            Entry::Command(Command::Start(id, _)) if stopped.remove(id) => {
                bounced.insert(*id);
            }
            Entry::Command(Command::Start(id, _)) => {
                fresh.insert(*id);
            }
            _ => {}
        }
    }
    let places = |ids: BTreeSet<NodeId>| ids.iter().map(|id| places[id.index()]).collect();
    (places(bounced), places(stopped))
}
