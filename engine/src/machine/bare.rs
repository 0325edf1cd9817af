//! The bare machine under a plain loop instead of the driver, as a baseline for benchmarks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::machine::ends::{End, Left};
use crate::machine::{
    Command, Edge, EndKind, Generation, Machine, Need, NodeId, Phase, Port, Scope, Step, Token,
};
use crate::vocabulary::policy::Policy;

/// An event for the machine.
enum Event {
    Started(NodeId, Generation),
    Stopped(NodeId, Generation),
}

/// Tells the bare machine `events` events: workers that start, workers that end, and waits that are
/// over.
///
/// Each item of `inputs` is a manifold: the indices of earlier manifolds that are its required
/// inputs. When nothing else is left to happen, a random worker fails. There are no tasks, timers,
/// channels or values. This function is not part of the library's interface.
pub fn drive_bare_machine(inputs: &[Vec<usize>], events: u64, seed: u64) {
    let mut machine = Machine::new(Arc::new(Policy::default()), seed);
    let nodes: Vec<NodeId> = inputs.iter().map(|_| machine.add()).collect();
    for (node, inputs) in nodes.iter().zip(inputs) {
        let edge =
            |input: &usize| Edge { target: nodes[*input], need: Need::Required, port: Port(0) };
        machine.install(*node, &inputs.iter().map(edge).collect::<Vec<_>>(), None);
    }
    let mut random = SmallRng::seed_from_u64(seed);
    let mut next: VecDeque<Event> = VecDeque::new();
    let mut waits: VecDeque<(NodeId, Token)> = VecDeque::new();
    for _ in 0..events {
        carry_out(&mut machine, &mut next, &mut waits);
        match next.pop_front() {
            Some(Event::Started(node, generation)) => machine.started(node, generation),
            Some(Event::Stopped(node, generation)) => {
                end(&mut machine, node, generation, EndKind::Stopped);
            }
            None => match due(&machine, &mut waits) {
                Some((node, token)) => machine.fired(node, token),
                None => {
                    let node = nodes[random.random_range(0..nodes.len())];
                    let generation = machine.view(node).generation;
                    end(&mut machine, node, generation, EndKind::Failed);
                }
            },
        }
    }
}

/// Takes steps until the machine is idle, and queues the events and waits that its commands lead
/// to.
fn carry_out(
    machine: &mut Machine,
    next: &mut VecDeque<Event>,
    waits: &mut VecDeque<(NodeId, Token)>,
) {
    loop {
        match machine.step(Scope::All) {
            Step::Idle => return,
            Step::Command(Command::Start(node, generation)) => {
                next.push_back(Event::Started(node, generation));
            }
            Step::Command(Command::Stop(node, generation)) => {
                next.push_back(Event::Stopped(node, generation));
            }
            Step::Command(Command::Arm(node, token, _)) => waits.push_back((node, token)),
            Step::Command(_) | Step::Worked => {}
        }
    }
}

fn end(machine: &mut Machine, node: NodeId, generation: Generation, kind: EndKind) {
    let zero = Duration::ZERO;
    machine.ended(node, generation, End { kind, ran: zero, at: zero, left: Left::Nothing });
}

/// Returns the next wait of an idle node. Skips the timers of live workers: here they all start and
/// stop in time.
fn due(machine: &Machine, waits: &mut VecDeque<(NodeId, Token)>) -> Option<(NodeId, Token)> {
    while let Some((node, token)) = waits.pop_front() {
        if machine.is_armed(node, token) && machine.view(node).phase == Phase::Idle {
            return Some((node, token));
        }
    }
    None
}
