//! All small graphs, and all that can happen to them, to a depth of events.
//!
//! `CRANKCASE_EXPLORE_DEPTH` goes deeper.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::fingerprint::fingerprint;
use super::world::{Arrow, Event, World, arrow, policy};
use crate::machine::{EndKind, Need};

const ALL: [Need; 4] = [Need::Required, Need::Optional, Need::Live, Need::LiveRequired];

/// The inputs of each name.
type Shape = Vec<Arc<[Arrow]>>;

/// What is tried in every state.
#[derive(Debug, Clone, Copy)]
struct Choice {
    depth: usize,
    ends: &'static [EndKind],
    has_control: bool,
    has_groups: bool,
}

#[derive(Debug, Default)]
struct Count {
    graphs: usize,
    states: usize,
    transitions: usize,
    /// Graphs of which every state was seen, however deep.
    exhausted: usize,
}

/// Returns all graphs of this size, one of each that differ only by the numbering.
fn shapes(size: usize, needs: &[Need]) -> Vec<Shape> {
    let pairs: Vec<_> = (0..size).flat_map(|to| (to + 1..size).map(move |user| (user, to))).collect();
    let choices = needs.len() + 1;
    let mut seen = BTreeSet::new();
    let mut shapes = Vec::new();
    for code in 0..choices.pow(u32::try_from(pairs.len()).expect("few pairs")) {
        let mut matrix = vec![vec![0; size]; size];
        let mut rest = code;
        for (user, to) in &pairs {
            matrix[*user][*to] = rest % choices;
            rest /= choices;
        }
        if seen.insert(canonical(&matrix)) {
            shapes.push(shape(&matrix, needs));
        }
    }
    shapes
}

fn shape(matrix: &[Vec<usize>], needs: &[Need]) -> Shape {
    let inputs = |row: &Vec<usize>| {
        let used = row.iter().enumerate().filter(|(_, choice)| **choice > 0);
        used.map(|(to, choice)| arrow(to, needs[choice - 1])).collect()
    };
    matrix.iter().map(inputs).collect()
}

/// Returns the smallest of a matrix's renumberings.
fn canonical(matrix: &[Vec<usize>]) -> Vec<usize> {
    let mut orders = vec![vec![]];
    for _ in matrix {
        let longer = |order: &Vec<usize>| {
            let free = (0..matrix.len()).filter(|next| !order.contains(next));
            free.map(|next| order.iter().copied().chain([next]).collect()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    let renumbered = |order: &Vec<usize>| {
        let row = |user: &usize| order.iter().map(|to| matrix[*user][*to]).collect::<Vec<_>>();
        order.iter().flat_map(row).collect()
    };
    orders.iter().map(renumbered).min().unwrap_or_default()
}

/// Returns all that can happen in a state.
fn events(world: &World, shape: &Shape, choice: Choice) -> Vec<Event> {
    let mut events = Vec::new();
    for (place, arrows) in shape.iter().enumerate() {
        worker_events(world, place, choice, &mut events);
        if choice.has_control && !world.is_killed {
            control_events(world, place, arrows, &mut events);
        }
    }
    if choice.has_control && !world.is_killed {
        events.push(Event::Kill);
    }
    if choice.has_groups && !world.is_killed {
        events.push(if world.groups == 0 { Event::BeginGroup } else { Event::EndGroup });
    }
    events
}

fn worker_events(world: &World, place: usize, choice: Choice, events: &mut Vec<Event>) {
    let seat = &world.seats[place];
    if seat.token.is_some() {
        events.push(Event::Fire(place));
    }
    let Some(worker) = &seat.worker else { return };
    if !worker.is_running && !worker.is_overdue {
        events.push(Event::Started(place));
    }
    let end = |kind| Event::Ended(place, kind, Duration::ZERO);
    if worker.is_told || worker.is_overdue || worker.is_stuck {
        events.extend([EndKind::Stopped, EndKind::Uninstall].map(end));
        return;
    }
    events.extend(choice.ends.iter().copied().map(end));
    let uses = |user| world.uses(user, place, |arrow| arrow.need.bounces());
    if worker.is_running && (0..world.seats.len()).any(uses) {
        events.push(Event::Changed(place, 0));
    }
}

fn control_events(world: &World, place: usize, arrows: &Arc<[Arrow]>, events: &mut Vec<Event>) {
    let seat = &world.seats[place];
    events.push(Event::Install(place, Arc::clone(arrows)));
    if seat.arrows.is_none() {
        return;
    }
    let parking = if seat.is_parked { Event::Unpark(place) } else { Event::Park(place) };
    events.extend([Event::Bounce(place), parking, Event::Uninstall(place)]);
}

/// How a state was reached: from which one, by what.
type Step = (usize, Event);

fn explore(shape: &Shape, choice: Choice, count: &mut Count) {
    let mut world = World::new(shape.len(), policy(), 0);
    let mut installs = vec![Event::BeginGroup];
    installs.extend((0..shape.len()).map(|place| Event::Install(place, Arc::clone(&shape[place]))));
    installs.push(Event::EndGroup);
    world.apply_all(&installs).unwrap_or_else(|failure| panic!("{failure}\nin {shape:?}"));
    let mut seen = HashSet::from([fingerprint(&world)]);
    let mut steps: Vec<Step> = vec![(0, Event::EndGroup)];
    let mut frontier = vec![(0, world)];
    for _ in 0..choice.depth {
        let mut next = Vec::new();
        for (origin, world) in frontier {
            for event in events(&world, shape, choice) {
                let mut world = world.clone();
                count.transitions += 1;
                if let Err(failure) = world.apply(&event) {
                    panic!("{failure}\nin {shape:?}\nafter {:#?}", path(&steps, origin, event));
                }
                if seen.insert(fingerprint(&world)) {
                    steps.push((origin, event));
                    next.push((steps.len() - 1, world));
                }
            }
        }
        frontier = next;
    }
    count.graphs += 1;
    count.states += seen.len();
    count.exhausted += usize::from(frontier.is_empty());
}

fn path(steps: &[Step], mut at: usize, last: Event) -> Vec<Event> {
    let mut path = vec![last];
    while at > 0 {
        path.push(steps[at].1.clone());
        at = steps[at].0;
    }
    path.reverse();
    path
}

/// Explores every shape whose number leaves the remainder when divided by the parts.
fn explore_part(name: &str, shapes: &[Shape], choice: Choice) {
    let deeper = std::env::var("CRANKCASE_EXPLORE_DEPTH").ok().and_then(|text| text.parse().ok());
    let choice = Choice { depth: deeper.unwrap_or(choice.depth), ..choice };
    let mut count = Count::default();
    for shape in shapes {
        explore(shape, choice, &mut count);
    }
    println!("{name}: depth {}, {count:?}", choice.depth);
}

const ENDS: &[EndKind] = &[
    EndKind::Done,
    EndKind::Failed,
    EndKind::Bounce,
    EndKind::Missing,
    EndKind::Uninstall,
    EndKind::Fatal,
];

const WHOLE: Choice = Choice { depth: 40, ends: ENDS, has_control: true, has_groups: true };

#[test]
fn every_promise_holds_in_all_that_two_workers_can_do() {
    for size in 1..=2 {
        explore_part(&format!("size {size}"), &shapes(size, &ALL), WHOLE);
    }
}

#[test]
fn every_promise_holds_in_all_graphs_of_three() {
    let choice = Choice { depth: 6, has_groups: false, ..WHOLE };
    explore_part("three", &shapes(3, &ALL), choice);
}

#[test]
fn every_promise_holds_in_all_graphs_of_four() {
    let choice = Choice { depth: 5, has_groups: false, ..WHOLE };
    explore_part("four", &shapes(4, &ALL[..2]), choice);
}

#[test]
fn every_promise_holds_without_control_calls_in_all_graphs_of_four() {
    let ends = &[EndKind::Failed, EndKind::Done];
    let choice = Choice { depth: 7, ends, has_control: false, has_groups: false };
    explore_part("four, uncontrolled", &shapes(4, &ALL[..2]), choice);
}

#[test]
fn graphs_that_differ_by_numbering_are_explored_once() {
    let mut counts = Vec::new();
    for size in 1..=4 {
        counts.push(shapes(size, &[Need::Required]).len());
    }

    // The numbers of acyclic directed graphs without labels: see <https://oeis.org/A003087>.
    assert_eq!(counts, [1, 2, 6, 31]);
}

/// Hashes what can be hashed in a fixed way.
pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
