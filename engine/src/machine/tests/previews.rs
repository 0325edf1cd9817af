//! What a trial says is what happens: over random graphs, with groups, from rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::RngExt;

use super::schedule::{Life, Schedule};
use super::world::{Arrow, Checked, Entry, Event, World, ensure, policy};
use crate::machine::{Command, Machine, NodeId};

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
