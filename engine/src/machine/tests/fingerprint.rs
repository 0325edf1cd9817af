//! Tells states apart, but not by how often a worker was started or a timer armed.

use super::explore::hash;
use super::world::{Held, Worker, World};
use crate::machine::node::{Age, Node};
use crate::machine::{Generation, Machine, NodeId, Rest};

/// Returns a number that two states share only if what can follow is the same.
pub(super) fn fingerprint(world: &World) -> u64 {
    let machine: Vec<_> = (0..world.machine.graph.bound()).map(NodeId::from_index).collect();
    let machine: Vec<_> = machine.into_iter().map(|id| node(&world.machine, id)).collect();
    let seats: Vec<_> = (0..world.seats.len()).map(|place| seat(world, place)).collect();
    let whole = (world.groups, world.is_killed, world.is_finished, world.machine.busy);
    hash(&(whole, machine, seats, &world.wave, &world.losses))
}

fn node(machine: &Machine, id: NodeId) -> u64 {
    let node = &machine.graph[id];
    let inputs: Vec<_> = [Age::Current, Age::Old]
        .into_iter()
        .flat_map(|age| node.inputs(age).iter().map(move |link| (age == Age::Old, link)))
        .map(|(is_old, link)| {
            let target = &machine.graph[link.edge.target];
            (is_old, link.edge, held(target, link.held))
        })
        .collect();
    let counters = (node.unmet, node.blocked, node.awaited, node.holders, node.followers);
    let kind = (node.phase, node.rest, node.stage, node.shown, node.pins);
    hash(&(inputs, counters, kind, flags(node)))
}

fn held(target: &Node, generation: Generation) -> u8 {
    match generation {
        0 => 0,
        held if target.is_active() && target.generation == held => 1,
        _ => 2,
    }
}

fn flags(node: &Node) -> [bool; 11] {
    [
        node.is_installed,
        node.is_marked,
        node.is_root,
        node.is_obsolete,
        node.is_swept,
        node.is_outdated,
        node.is_overdue,
        node.is_parked,
        node.is_armed,
        node.is_free,
        node.is_busy,
    ]
}

fn seat(world: &World, place: usize) -> u64 {
    let seat = &world.seats[place];
    let worker = seat.worker.as_ref().map(|worker| self::worker(world, worker));
    let kind = (seat.rest, seat.is_parked, seat.token.is_some(), seat.arrows.is_some());
    let waits = seat.worker.is_some() && matches!(seat.rest, Rest::Delay | Rest::Backoff);
    let waited = waits.then(|| (world.now - seat.wait.0).min(seat.wait.1));
    hash(&(waited, worker, kind, seat.id, seat.pins))
}

fn worker(world: &World, worker: &Worker) -> u64 {
    let input = |held: &Held| {
        let target = &world.seats[held.arrow.to];
        let value = held.value.map(|(generation, version)| {
            let is_current = target.worker.as_ref().is_some_and(|worker| !worker.has_ended)
                && target.generation == generation;
            (is_current, version == target.versions[held.arrow.port as usize])
        });
        (held.arrow, value)
    };
    let inputs: Vec<_> = worker.inputs.iter().map(input).collect();
    let flags = [
        worker.is_running,
        worker.is_marked,
        worker.is_root,
        worker.is_swept,
        worker.is_obsolete,
        worker.is_told,
        worker.is_overdue,
        worker.is_aborted,
        worker.is_stuck,
        worker.has_ended,
    ];
    hash(&(inputs, flags))
}
